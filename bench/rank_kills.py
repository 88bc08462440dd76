#!/usr/bin/env python3
"""kill -9 of a random rank of a job, many times: how long until every process is gone, and what is said.

    python3 bench/rank_kills.py build/snug --kills 200

Each job trains until a random moment; then one of its ranks is killed. The job must end with exit code 5, with one message that
names that rank, and leave no process behind. The last line gives the longest time that took.
"""
import argparse
import pathlib
import random
import re
import subprocess
import sys
import time

MODEL = pathlib.Path(__file__).resolve().parent.parent / "tests/e2e/llama-wide.json"


def ranks_of(launcher):
    """By rank: the process; empty until all of them train."""
    found = {}
    for process in subprocess.run(["pgrep", "-P", str(launcher)], capture_output=True, text=True).stdout.split():
        try:
            environment = pathlib.Path(f"/proc/{process}/environ").read_bytes()
        except OSError:
            continue
        if rank := re.search(rb"\0RANK=(\d+)\0", b"\0" + environment):
            found[int(rank[1])] = int(process)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    args = parser.parse_args()
    dice, longest, good = random.Random(1), 0.0, 0
    for number in range(args.kills):
        job = subprocess.Popen([args.snug, "train", str(MODEL), "--device", "cpu", "--ranks", str(args.ranks), "--batch", "1", "--seq",
                                "24", "--steps", "1000000", "--zero", str(number % 4), "--zero-threshold", "0"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        while len(ranks := ranks_of(job.pid)) < args.ranks:
            time.sleep(0.01)
        time.sleep(dice.uniform(0.05, 1.0))
        victim = dice.randrange(args.ranks)
        subprocess.run(["kill", "-9", str(ranks[victim])], check=True)
        began = time.time()
        said = job.communicate(timeout=60)[1]
        took = time.time() - began
        left = [p for p in ranks.values() if pathlib.Path(f"/proc/{p}").exists()]
        named = said.count(f"snug: rank {victim} ")
        ended = job.returncode == 5 and named == said.count("snug: ") == 1 and not left
        good += ended
        longest = max(longest, took)
        if not ended:
            print(f"{number}: rank {victim}, exit code {job.returncode}, named {named} times, {len(left)} left:\n{said[-600:]}", flush=True)
    print(f"{good} of {args.kills} ended as they should, the slowest after {longest:.2f} s")
    return 0 if good == args.kills else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""kill -9 of a random rank of a job, many times: how long until every process is gone, and the messages.

    python3 bench/rank_kills.py build/snug --kills 200
    python3 bench/rank_kills.py build/snug --kills 10 --device cuda      # over NCCL, all ranks on one GPU

Each job trains and saves until a random moment (on a GPU: after its first step); then one of its ranks is killed. The job must end with exit code 5, with one
message that names that rank, and leave no process running. Then it resumes from its last checkpoint, on a random number of ranks,
in another stage, and must end with the model of a run that was never stopped, byte for byte. The last line gives the longest time
that an end took.
"""
import argparse
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

MODEL = pathlib.Path(__file__).resolve().parent.parent / "tests/e2e/llama-wide.json"
STEPS = 240


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


def has_stepped(shown):
    shown.seek(0)
    return re.search(r"^step +\d", shown.read(), re.M) is not None


def trained(snug, directory, *words):
    """The bytes of the model that a run ends with."""
    subprocess.run([snug, "train", *words], cwd=directory, check=True, capture_output=True)
    return (directory / "run/model.safetensors").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    snug, dice, longest, good, resumed = str(args.snug.resolve()), random.Random(args.seed), 0.0, 0, 0
    on_gpu = args.device == "cuda"
    share = ["--share-gpu"] if on_gpu else []
    # A sequence at a time, whatever a search under a budget would choose.
    recipe = [str(MODEL), "--device", args.device, *(["--budget", "8GiB", "--tune", "short"] if on_gpu else []), "--batch", "1",
              "--global-batch", str(args.ranks), "--seq", "24", "--steps", str(STEPS), "--deterministic", "--grad-dtype", "fp32",
              "--save-every", "2", "--out", "run"]
    alone, shared = ["--accum", str(args.ranks)], ["--accum", "1"]
    with tempfile.TemporaryDirectory() as folder:
        directory = pathlib.Path(folder)
        whole = trained(snug, directory, *recipe, *alone)
        for number in range(args.kills):
            shutil.rmtree(directory / "run")
            shown = tempfile.TemporaryFile(mode="w+")
            job = subprocess.Popen([snug, "train", *recipe, *shared, "--ranks", str(args.ranks), "--zero", str(number % 4), "--zero-threshold",
                                    "0", *share], cwd=directory, stdout=shown, stderr=subprocess.PIPE, text=True)
            while len(ranks := ranks_of(job.pid)) < args.ranks or (on_gpu and not has_stepped(shown)):
                time.sleep(0.01)
                if job.poll() is not None:
                    sys.exit(f"{number}: it ended by itself: {job.communicate()[1]}")
            time.sleep(dice.uniform(0.05, 2.0))
            victim = dice.randrange(args.ranks)
            if subprocess.run(["kill", "-9", str(ranks[victim])]).returncode != 0:
                sys.exit(f"{number}: the job was over before it was killed: give it more steps")
            began = time.time()
            said = job.communicate(timeout=60)[1]
            took = time.time() - began
            left = [p for p in ranks.values() if pathlib.Path(f"/proc/{p}").exists()]
            named = said.count(f"snug: rank {victim} ")
            ended = job.returncode == 5 and named == said.count("snug: ") == 1 and not left
            good += ended
            longest = max(longest, took)
            if on_gpu and ended:
                message = said[said.index("snug: "):].strip().replace("\n", ";")
                print(f"{number}: {took:.2f} s  {message}", flush=True)
            if not ended:
                print(f"{number}: rank {victim}, exit code {job.returncode}, named {named} times, {len(left)} left:\n{said[-600:]}", flush=True)
            saved = (directory / "run/latest").exists()
            on = dice.randint(1, args.ranks)
            how = ["--ranks", str(on), "--zero", str(dice.randrange(4)), "--zero-threshold", "0", *share] if on > 1 else []
            if saved and f"step-{STEPS:08}" in (directory / "run/latest").read_text():  # all was done: the model is there
                same = (directory / "run/model.safetensors").read_bytes() == whole
            else:
                again = ["--accum", str(-(-args.ranks // on)), "--overwrite"]
                same = trained(snug, directory, *(["--resume", "run"] if saved else [*recipe, *again]), *how) == whole
            resumed += saved and same
            if not same:
                print(f"{number}: another model, {'resumed' if saved else 'from the start'} with {' '.join(how)}", flush=True)
                good -= ended
            elif not saved:
                print(f"{number}: killed before the first checkpoint", flush=True)
    print(f"{good} of {args.kills} ended as they should, the slowest after {longest:.2f} s; {resumed} resumed from a checkpoint to the same model")
    return 0 if good == args.kills else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""How long does a plan with everything open take?

  bench/search_time.py --rounds 5      options: --snug build/snug

Times whole commands, the advice of a plan among them: the shortest wall and processor seconds of some rounds.
"""
import argparse
import os
import subprocess
import time

LINES = [
    "qwen2.5-7b --gpu rtx4090 --batch 16",
    "qwen2.5-7b --gpu rtx4090 --batch 64 --master none --state-dtype bf16 --grad-dtype bf16",
    "qwen2.5-1.5b --gpu rtx4090 --batch 16 --budget 12GiB",
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for line in LINES:
        walls, busy = [], []
        for _ in range(args.rounds):
            begin, before = time.time(), os.times()
            subprocess.run([args.snug, "plan", *line.split(), "--quiet", "--json"], capture_output=True, check=False)
            after = os.times()
            walls.append(time.time() - begin)
            busy.append(after.children_user - before.children_user)
        print(f"{min(walls):6.2f} s wall, {min(busy):6.2f} s of processors: plan {line}", flush=True)


if __name__ == "__main__":
    main()

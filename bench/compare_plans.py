#!/usr/bin/env python3
"""Are the plans of one binary modelled slower than those of another? Both plan the same lines.

  bench/compare_plans.py OLD/snug NEW/snug --jobs 2 > bench/results/DATE-plans-before-after.txt

Each row is a line, tokens a second of both, and by how much the new one is faster; the last line counts what is slower
by more than 1 %. Both must have the same cost model, or their times say nothing.
"""
import argparse
import concurrent.futures
import json
import subprocess

STATE = "--master none --state-dtype bf16 --grad-dtype bf16"
LINES = [
    f"{model} --gpu {card} --batch {batch} --budget {mib}MiB{state}"
    for model, card, batch, state, sizes in [
        ("gpt2", "rtx4090", 8, "", (1500, 2500, 4000)),
        ("gpt2", "h200", 16, "", (1800, 2600, 3300)),
        ("smollm2-135m", "l4", 8, f" {STATE}", (1600, 3200, 4500)),
        ("qwen2.5-0.5b", "rtx4090", 16, "", (4000, 6000, 12000)),
        ("qwen2.5-0.5b", "a100-40", 64, f" {STATE}", (2500, 4000, 8000)),
        ("gemma3-1b", "rtx4090", 16, " --optimizer adamw8bit", (5000, 8000, 16000)),
        ("qwen2.5-1.5b", "rtx4090", 16, "", (8000, 12000, 20000)),
        ("qwen2.5-1.5b", "a100-40", 4, "", (6000, 12000, 24000)),
        ("qwen2.5-1.5b", "h200", 64, "", (12000, 20000, 40000)),
        ("qwen2.5-7b", "rtx4090", 16, "", (12000, 24000)),
        ("qwen2.5-7b", "h200", 64, f" {STATE}", (24000, 48000)),
    ]
    for mib in sizes
]


def speed(snug, line):
    run = subprocess.run([snug, "plan", *line.split(), "--json", "--quiet"], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        raise SystemExit(f"{line}: {run.stderr}")
    result = json.loads(run.stdout)
    return result["tokens_per_s"] if result["fits"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    slower = 0
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        pairs = pool.map(lambda line: (line, speed(args.old, line), speed(args.new, line)), LINES)
        for line, old, new in pairs:
            gain = 100 * (new / old - 1) if old else 0
            slower += gain < -1 or (old > 0 and new == 0)
            print(f"{line:95} {old:10.1f} {new:10.1f} tok/s {gain:+7.2f} %", flush=True)
    print(f"{len(LINES)} lines, {slower} slower by more than 1 %")


if __name__ == "__main__":
    main()

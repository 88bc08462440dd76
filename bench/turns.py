#!/usr/bin/env python3
"""Two binaries in turns on one GPU: is the new one as fast as the old?

  bench/turns.py OLD NEW [--turns 3] [--steps 12] [--tune short] [--models qwen2.5-0.5b:32 ...]

Each turn trains every model with both, one after the other, with the same cached algorithms (the first run of each
fills the cache and does not count). Prints the median tokens/s of each run, and per model the ratio of the medians
next to the spread of each binary's own turns: a difference inside the spread is none.
"""
import argparse
import json
import statistics
import subprocess
import sys

MODELS = ["qwen2.5-0.5b:32", "qwen2.5-1.5b:16", "qwen2.5-7b:4"]
RECIPE = "--device cuda --accum 4 --seq 1024 --precision bf16 --master none --state-dtype bf16 --grad-dtype bf16"
WARM_UP = 3


def tokens_per_s(binary, model, batch, steps, tune):
    command = [binary, "train", model, "--data", "synthetic", "--batch", batch, "--steps", str(steps), "--json", "--tune", tune]
    lines = subprocess.run(command + RECIPE.split(), check=True, capture_output=True, text=True).stdout.splitlines()
    rates = [json.loads(line)["tokens_per_s"] for line in lines if '"tokens_per_s"' in line]
    return statistics.median(rates[WARM_UP:] or rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--tune", default="long", help="how the run that fills the cache times matmuls")
    parser.add_argument("--models", nargs="+", default=MODELS)
    args = parser.parse_args()
    summary = []
    for name in args.models:
        model, batch = name.split(":")
        tokens_per_s(args.old, model, batch, 1, args.tune)
        rates = {args.old: [], args.new: []}
        for turn in range(args.turns):
            for binary in (args.old, args.new) if turn % 2 == 0 else (args.new, args.old):
                rates[binary].append(tokens_per_s(binary, model, batch, args.steps, "short"))
                print(f"{model} turn {turn + 1} {binary}: {rates[binary][-1]:,.0f} tokens/s", flush=True)
        old, new = (statistics.median(rates[b]) for b in (args.old, args.new))
        spread = max((max(r) - min(r)) / statistics.median(r) for r in rates.values())
        verdict = "no difference" if abs(new / old - 1) <= spread else "DIFFERENT"
        summary.append(f"{model:<16}{old:>12,.0f}{new:>12,.0f}{new / old:>9.4f}{100 * spread:>9.2f} %  {verdict}")
    print(f"\n{'model':<16}{'old':>12}{'new':>12}{'ratio':>9}{'spread':>11}")
    print("\n".join(summary))
    return 1 if any("DIFFERENT" in line for line in summary) else 0


if __name__ == "__main__":
    sys.exit(main())

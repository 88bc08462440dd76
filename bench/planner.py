#!/usr/bin/env python3
"""Is what the planner says true? Runs what it planned, and what it did not choose.

  bench/planner.py truth  cpu|cuda              predicted and measured bytes and time over many settings
  bench/planner.py moved  cpu|cuda              the same where values are offloaded
  bench/planner.py choice cpu|cuda              chosen plans against every recipe of small search spaces
  options: --snug build/snug  --raw FILE (one JSON object per run)  --only WORD  --steps N  --rounds N

Needs `./dev build`, and a measured device: `build/snug calibrate`.
"""
import argparse
import itertools
import json
import statistics
import subprocess
import sys

BF16 = "--precision bf16 --master none --state-dtype bf16 --grad-dtype bf16"
MIXED = "--precision bf16"

# Families x sizes x batches x recipes.
TRUTH = {
    "cpu": [
        "snug-tiny --batch 4 --seq 256",
        "snug-tiny --batch 8 --seq 512",
        "snug-tiny --batch 8 --seq 512 --recompute full",
        "snug-tiny --batch 8 --seq 512 --recompute every:2 --attention standard",
        "snug-tiny --batch 8 --seq 256 --accum 4 --optimizer adamw8bit",
        "snug-tiny --batch 8 --seq 512 --compress int8",
        "snug-tiny --batch 4 --seq 512 --precision bf16",
        "snug-tiny --batch 2 --seq 1024 --loss whole",
        "bench/llama-12x384.json --batch 4 --seq 256",
        "bench/llama-12x384.json --batch 2 --seq 512 --recompute sqrt",
        "gpt2 --batch 1 --seq 128",
        "gpt2 --batch 2 --seq 256 --recompute attention --attention standard",
        "gpt2 --batch 1 --seq 256 --optimizer sgd",
        "bert-base --batch 2 --seq 128",
        "bert-base --batch 1 --seq 256 --recompute full --optimizer lion",
        "mlp:1024x12 --batch 512",
        "mlp:512x24 --batch 1024 --recompute sqrt",
    ],
    "cuda": [
        f"qwen2.5-0.5b --batch 32 {BF16}",
        f"qwen2.5-0.5b --batch 8 --accum 4 {BF16}",
        f"qwen2.5-0.5b --batch 16 --recompute full {BF16}",
        f"qwen2.5-0.5b --batch 8 --compress int8 {BF16}",
        f"qwen2.5-0.5b --batch 8 --attention standard --loss whole {BF16}",
        f"qwen2.5-0.5b --batch 4 --seq 4096 {MIXED}",
        f"qwen2.5-1.5b --batch 16 {BF16}",
        f"qwen2.5-1.5b --batch 4 --optimizer adamw8bit {MIXED}",
        f"qwen2.5-1.5b --batch 8 --recompute every:2 {MIXED}",
        f"qwen2.5-3b --batch 4 --recompute ratio:0.5 {BF16}",
        f"qwen2.5-7b --batch 4 {BF16}",
        f"gpt2 --batch 16 {MIXED}",
        "gpt2-medium --batch 8 --precision fp32 --tf32",
        f"gpt2-large --batch 8 --recompute attention --attention standard {MIXED}",
        f"gpt2-xl --batch 4 --recompute sqrt {BF16}",
        f"bert-large --batch 32 --seq 512 {MIXED}",
        f"mlp:4096x48 --batch 8192 {BF16}",
    ],
}

# The same with offloaded values.
STATE = "--precision bf16 --grad-dtype bf16 --offload optimizer,master"
MOVED = {
    "cpu": [
        "snug-tiny --batch 8 --seq 256 --offload optimizer",
        "snug-tiny --batch 8 --seq 256 --accum 4 --offload all",
        "bench/llama-12x384.json --batch 2 --seq 256 --offload params,grads",
    ],
    "cuda": [
        f"qwen2.5-0.5b --batch 16 --accum 4 {STATE}",
        f"qwen2.5-0.5b --batch 16 --accum 4 {STATE} --micro-order vertical",
        f"qwen2.5-0.5b --batch 16 --accum 4 {STATE} --fold-update on",
        f"qwen2.5-0.5b --batch 16 --accum 4 {STATE},grads,params",
        f"qwen2.5-0.5b --batch 8 --accum 8 {STATE},activations --micro-order vertical --recompute full",
        f"qwen2.5-0.5b --batch 16 --accum 2 --offload all --recompute full {MIXED}",
        f"qwen2.5-1.5b --batch 16 --accum 4 --offload optimizer {BF16}",
        f"qwen2.5-1.5b --batch 16 --accum 4 {STATE}",
        f"qwen2.5-1.5b --batch 8 --accum 8 --offload optimizer@0-13,grads@0-13 {BF16}",
        f"qwen2.5-1.5b --batch 16 --accum 4 --offload all --micro-order vertical --recompute full {BF16}",
        f"qwen2.5-1.5b --global-batch 64 --budget 8GiB {BF16}",
        f"qwen2.5-3b --global-batch 32 --budget 12GiB {BF16}",
        f"gpt2-large --batch 8 --accum 4 --offload optimizer,master,activations --micro-order groups:2 {MIXED}",
    ],
}

# A search space: a model at a fixed effective batch, and parts of what the plain recipe needs.
UNIFORM = ["none", "attention", "full", "sqrt", "every:2", "ratio:0.25", "ratio:0.5", "ratio:0.75"]
# What fits only where values move (`--only 'precision bf16 --grad'`).
MOVES = "--precision bf16 --grad-dtype bf16"
OFFLOADED = ["none", "full", *(f"{policy} --offload {items}{order}" for policy, items in
                               [("none", "optimizer,master"), ("full", "optimizer,master,activations"), ("full", "all")]
                               for order in ["", " --micro-order vertical"])]
CHOICE = {
    "cpu": [
        ("snug-tiny --seq 256", 16, [16, 8, 4, 2], ["none", "full", "ratio:0.5"], [0.25, 0.5, 0.75]),
        ("bench/llama-12x384.json --seq 256", 4, [4, 2, 1], ["none", "full", "ratio:0.5"], [0.6, 0.75, 0.9]),
        ("snug-tiny --seq 512 --attention standard --accum 1", 4, [4], UNIFORM, [0.4, 0.5, 0.75]),
    ],
    "cuda": [
        (f"qwen2.5-0.5b {BF16}", 16, [16, 8, 4], ["none", "full", "ratio:0.5"], [0.35, 0.5, 0.75]),
        (f"qwen2.5-1.5b {BF16}", 32, [32, 16, 8], ["none", "full", "every:2", "ratio:0.5"], [0.25, 0.5, 0.75]),
        (f"qwen2.5-1.5b {MOVES}", 64, [16], OFFLOADED, [0.08, 0.12, 0.2]),
        (f"gpt2-large {MOVES}", 32, [8], OFFLOADED, [0.1, 0.15, 0.25]),
    ],
}


class Snug:
    def __init__(self, binary, device, raw):
        self.binary, self.device, self.raw = binary, device, raw

    def run(self, verb, words, tolerate=()):
        command = [self.binary, verb, *words.split(), "--device", self.device, "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode not in (0, *tolerate):
            sys.exit(f"planner.py: {' '.join(command)}: exit {done.returncode}\n{done.stderr}")
        return done

    def plan(self, words):
        return json.loads(self.run("plan", words, tolerate=(3,)).stdout)

    def train(self, words, steps):
        """Median seconds of a step, planned and measured bytes."""
        lines = [json.loads(x) for x in self.run("train", f"{words} --steps {steps}").stdout.splitlines()]
        taken = [x for x in lines if "tokens_per_s" in x]
        tokens = [b["tokens"] - a["tokens"] for a, b in zip([{"tokens": 0}] + taken, taken)]
        seconds = [n / x["tokens_per_s"] for n, x in zip(tokens, taken)][min(3, steps - 1):]
        out = {"words": words, "seconds": statistics.median(seconds), "all": seconds,
               "planned_bytes": taken[-1]["planned_bytes"], "peak_bytes": taken[-1]["peak_bytes"]}
        told = next((x["truth"] for x in lines if "truth" in x), {})
        return out | {k: told[k] for k in ("planned_device_bytes", "device_bytes") if k in told}

    def keep(self, record):
        if self.raw:
            with open(self.raw, "a", encoding="utf-8") as f:
                f.write(json.dumps(record) + "\n")
        return record


def per_cent(x):
    return f"{100 * x:+6.1f} %"


def truth(snug, settings, only, steps):
    rows = []
    print(f"{'setting':<72}{'predicted':>11}{'measured':>11}{'error':>10}  bytes")
    for words in settings[snug.device]:
        if only not in words:
            continue
        if "--accum" not in words and "--global-batch" not in words:  # nothing is split to be faster
            words += " --accum 1"
        plan = snug.plan(words)
        run = snug.train(words + " --explain", steps)
        row = snug.keep(dict(run, predicted=plan["step_ms"] / 1e3, arena=plan["arena_bytes"], rests_on=plan.get("rests_on")))
        rows.append(row)
        same = row["arena"] == row["planned_bytes"] and row["peak_bytes"] <= row["planned_bytes"]
        shown = words.replace(BF16, "bf16 only").replace(MIXED, "bf16")
        print(f"{shown:<72}{1e3 * row['predicted']:>8.1f} ms{1e3 * row['seconds']:>8.1f} ms"
              f"{per_cent(row['predicted'] / row['seconds'] - 1):>10}  {'as planned' if same else 'NOT AS PLANNED'}"
              f"{'' if row['peak_bytes'] == row['planned_bytes'] else ' (below)'}{device_text(row)}", flush=True)
    errors = sorted(abs(r["predicted"] / r["seconds"] - 1) for r in rows)
    pairs = [(a, b) for a, b in itertools.combinations(rows, 2)
             if max(a["seconds"], b["seconds"]) > 1.1 * min(a["seconds"], b["seconds"])]
    right = sum((a["seconds"] < b["seconds"]) == (a["predicted"] < b["predicted"]) for a, b in pairs)
    print(f"{len(rows)} settings: error {100 * statistics.median(errors):.1f} % in the median, {100 * errors[-1]:.1f} % "
          f"at worst; {right} of {len(pairs)} pairs more than 10 % apart in the right order")


def choice(snug, only, steps, rounds):
    worst = 0
    for base, sequences, splits, policies, parts in CHOICE[snug.device]:
        if only not in base:
            continue
        recipes = [f"{base.replace(' --accum 1', '')} --batch {b} --accum {sequences // b} --recompute {p}"
                   for b in splits for p in policies]
        open_words = f"{base} --batch {sequences}"
        plain = snug.plan(f"{open_words.replace(' --accum 1', '')} --accum 1 --recompute none")
        context = plain.get("context_bytes", 0)
        budgets = [int(part * (plain["arena_bytes"] + context)) for part in parts]
        planned = {r: snug.plan(r) for r in recipes}
        needed = {r: p["arena_bytes"] + context for r, p in planned.items()}
        runs = [r for r in recipes if needed[r] <= max(budgets)]
        chosen = {b: f"{open_words} --budget {b}B" for b in budgets}
        # A chosen plan that is one of the grid's is the same program: their runs count as one.
        programs = {r: program_of(planned[r]) for r in runs} | {r: program_of(snug.plan(r)) for r in chosen.values()}
        taken = {program: [] for program in programs.values()}
        for i in range(rounds):  # interleaved and in both orders, so that a busy minute hits all
            for r in list(programs) if i % 2 == 0 else reversed(programs):
                taken[programs[r]].append(snug.train(r, steps)["seconds"])
        seconds = {r: statistics.median(taken[program]) for r, program in programs.items()}
        print(f"\n{open_words}: plain needs {needed_text(plain['arena_bytes'] + context)}")
        for part, budget in zip(parts, budgets):
            fitting = [r for r in runs if needed[r] <= budget]
            mine = seconds[chosen[budget]]
            recipe = snug.plan(chosen[budget])["recipe"]
            what = f"--batch {recipe['batch']} --accum {recipe['accum']}"
            if not fitting:
                print(f"  {100 * part:3.0f} % {needed_text(budget):>10}  chosen {1e3 * mine:8.1f} ms ({what}); no recipe of the grid fits")
                continue
            best = min(fitting, key=seconds.get)
            ratio = mine / seconds[best]
            worst = max(worst, ratio)
            snug.keep({"case": open_words, "part": part, "budget": budget, "chosen": mine, "best": seconds[best],
                       "best_words": best, "grid": {r: seconds[r] for r in fitting},
                       "taken": {r: taken[programs[r]] for r in [chosen[budget], *fitting]}})
            print(f"  {100 * part:3.0f} % {needed_text(budget):>10}  chosen {1e3 * mine:8.1f} ms ({what}); best of {len(fitting)}: "
                  f"{1e3 * seconds[best]:8.1f} ms ({best.split(' --batch ')[1]}); {per_cent(ratio - 1)}", flush=True)
    print(f"\nworst: chosen takes {per_cent(worst - 1).strip()} compared with the best of its grid")


def program_of(plan):
    """By which two plans are taken for the same program."""
    return plan["recipe"]["batch"], plan["recipe"]["accum"], plan["arena_bytes"], plan["step_ms"]


def device_text(row):
    """All that the process takes of the device, and the plan's number."""
    if "device_bytes" not in row:
        return ""
    off = row["device_bytes"] - row["planned_device_bytes"]
    allowed = max(row["device_bytes"] / 100, 64 * 2**20)
    return f"; device {off / 2**20:+.0f} MiB of {needed_text(row['device_bytes'])}{'' if abs(off) <= allowed else ' NOT WITHIN 1 %'}"


def needed_text(n):
    return f"{n / 2**30:.2f} GiB"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["truth", "moved", "choice"])
    parser.add_argument("device", choices=["cpu", "cuda"])
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--raw", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    snug = Snug(args.snug, args.device, args.raw)
    if args.what != "choice":
        truth(snug, TRUTH if args.what == "truth" else MOVED, args.only, args.steps)
    else:
        choice(snug, args.only, args.steps, args.rounds)


if __name__ == "__main__":
    main()

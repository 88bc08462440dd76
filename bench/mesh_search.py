#!/usr/bin/env python3
"""The mesh that `snug plan` chooses against every other mesh of as many GPUs, each planned whole.

    python3 bench/mesh_search.py build/snug                       # all meshes of 2 to 16 GPUs
    python3 bench/mesh_search.py build/snug --scaling llama-70b   # 8 to 4,096 GPUs, the search alone
    python3 bench/mesh_search.py build/snug --budgets             # more memory must not be slower

A mesh is planned as `--mesh` gives it, with as many sequences a step. The search must be no slower than any of them that fits.
"""
import argparse
import json
import subprocess
import sys
import time

JOBS = [("gpt2", "h100", 2), ("gpt2", "h100", 8), ("tinyllama", "a100-40", 4), ("llama-8b", "h100", 4), ("llama-8b", "h100", 8),
        ("llama-8b", "a100-80", 16), ("qwen2.5-0.5b", "rtx4090", 4)]
LARGE = [("llama-8b", "h100", 8, "--mesh", "pp=8", "--batch", "64"), ("llama-70b", "a100-80", 64), ("llama-405b", "h100", 128),
         ("llama-405b", "h100", 512), ("gpt3-175b", "a100-80", 512, "--batch", "1")]
BUDGETS_GIB = [4, 6, 8, 11, 15, 20, 23, 28, 38, 50, 60, 70, 78]
MEMORY_GIB = {"rtx4090": 23, "a100-40": 38}
BATCH = 8


def divisors(n):
    return [d for d in range(1, n + 1) if n % d == 0]


def plan(snug, model, gpu, *more):
    begun = time.monotonic()
    done = subprocess.run([snug, "plan", model, "--gpu", gpu, "--json", *more], capture_output=True, text=True)
    seconds = time.monotonic() - begun
    if not done.stdout.startswith("{"):
        return None, seconds, done.stderr.splitlines()[0] if done.stderr else ""
    return json.loads(done.stdout), seconds, ""


def flags_of(report):
    return " ".join(report.get("chosen", []))


def grid(snug):
    worse = 0
    for model, gpu, count in JOBS:
        chosen, took, why = plan(snug, model, f"{gpu}x{count}")
        if chosen is None:
            print(f"{model} {gpu}x{count}: {why}")
            continue
        best = chosen["step_ms"]
        print(f"{model} {gpu}x{count}: {best:.1f} ms, fits {chosen['fits']}, {flags_of(chosen)}; planned in {took:.1f} s", flush=True)
        for tp in divisors(count):
            if tp > 8:
                break
            for pp in divisors(count // tp):
                dp = count // tp // pp
                if pp > 16:
                    break
                mesh = f"pp={pp},dp={dp},tp={tp}"
                one, took, why = plan(snug, model, f"{gpu}x{count}", "--mesh", mesh, "--batch", str(BATCH * count // dp))
                if one is None:
                    print(f"  {mesh}: refused: {why}")
                    continue
                slower = one["step_ms"] / best - 1
                verdict = "does not fit" if not one["fits"] else f"{100 * slower:+.1f} %"
                lost = one["fits"] and chosen["fits"] and slower < -0.001
                worse += lost
                print(f"  {mesh}: {one['step_ms']:.1f} ms, {verdict}{' FASTER' if lost else ''}; planned in {took:.1f} s", flush=True)
    print(f"meshes that are faster than the choice: {worse}")
    return worse


def budgets(snug):
    slower, plans = 0, 0
    for model, gpu, count, *more in [*JOBS, *LARGE]:
        print(" ".join([model, f"{gpu}x{count}", *more]))
        before = None
        for gib in [b for b in BUDGETS_GIB if b <= MEMORY_GIB.get(gpu, 78)]:
            one, took, why = plan(snug, model, f"{gpu}x{count}", "--budget", f"{gib}GiB", *more)
            if one is None or not one["fits"]:
                print(f"  {gib:3} GiB: {why or 'does not fit'}; planned in {took:.1f} s", flush=True)
                continue
            plans += 1
            lost = before is not None and one["step_ms"] > before * 1.0001
            slower += lost
            verdict = f" {100 * (one['step_ms'] / before - 1):.2f} % SLOWER" if lost else ""
            print(f"  {gib:3} GiB: {one['step_ms']:.1f} ms{verdict}, {flags_of(one)}; planned in {took:.1f} s", flush=True)
            before = one["step_ms"] if before is None else min(before, one["step_ms"])
    print(f"plans that are slower than with less memory: {slower} of {plans}")
    return slower


def scaling(snug, model):
    print("GPUs, sequences a step, step, tokens/s a GPU, chosen, planning time")
    for count in (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        chosen, took, why = plan(snug, model, f"h100x{count}")
        if chosen is None:
            print(f"{count}: {why}")
            continue
        seconds = chosen["step_ms"] / 1e3
        tokens = BATCH * 1024 / seconds
        print(f"{count}: {BATCH * count}, {seconds:.2f} s, {tokens:.0f}, {flags_of(chosen)}, {took:.1f} s", flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("--scaling", metavar="MODEL")
    parser.add_argument("--budgets", action="store_true")
    args = parser.parse_args()
    if args.scaling:
        sys.exit(scaling(args.snug, args.scaling))
    sys.exit(1 if (budgets(args.snug) if args.budgets else grid(args.snug)) else 0)


if __name__ == "__main__":
    main()

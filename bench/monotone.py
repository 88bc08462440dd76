#!/usr/bin/env python3
"""Is more memory ever modelled slower? Plans the same run inside rising budgets of each space.

  bench/monotone.py --sweeps 24 --budgets 8 --seed 1 > bench/results/DATE-monotone.txt
  options: --snug build/snug  --only device|host|disk  --seconds (also how long each plan took)

Each sweep is one model, card and batch, drawn by the seed, and one space whose budget rises. A row whose plan is
slower than one of a smaller budget ends in SLOWER and by how much; the last line counts them.
"""
import argparse
import json
import random
import subprocess
import tempfile
import time

# A model, and the least device memory, in GiB, at which a sweep begins.
MODELS = {"gpt2": 1.3, "qwen2.5-0.5b": 2, "gemma3-1b": 4, "qwen2.5-1.5b": 4, "qwen3-1.7b": 4, "qwen2.5-3b": 6,
          "phi3-mini": 6, "qwen2.5-7b": 9, "llama-8b": 9, "qwen2.5-14b": 12}
CARDS = ["rtx4090", "rtx5090", "h200", "a100-40", "l4", "l40s"]
BATCHES = [4, 8, 16, 64]
STATES = ["", "--master none --state-dtype bf16 --grad-dtype bf16", "--optimizer adamw8bit"]
STATE_BYTES = [12, 4, 6]  # of a parameter: what the host takes of it, about


def rising(least, most, count):
    """So many sizes in MiB, each the same part larger than the one before."""
    return [round(1024 * least * (most / least) ** (i / (count - 1))) for i in range(count)]


def sweep_of(rng, space, count, directory):
    """The line without its rising budget, the option of that budget, and its values."""
    model = rng.choice(list(MODELS))
    least = MODELS[model]
    state = rng.randrange(len(STATES))
    line = f"{model} --gpu {rng.choice(CARDS)} --batch {rng.choice(BATCHES)} {STATES[state]}".split()
    if space == "device":
        return line, "--budget", rising(least, 12 * least, count)
    line += ["--budget", f"{round(1024 * least * rng.choice([1.2, 2]))}MiB"]
    state_gib = 0.7 * least * STATE_BYTES[state] / 4
    if space == "host":
        return line, "--host-budget", rising(0.2 * state_gib, 4 * state_gib, count)
    line += ["--offload-dir", directory, "--host-budget", f"{round(1024 * 0.7 * state_gib)}MiB"]
    return line, "--disk-budget", rising(0.1 * state_gib, 4 * state_gib, count)


def plan(snug, flags):
    begin = time.time()
    run = subprocess.run([snug, "plan", *flags, "--json", "--quiet"], capture_output=True, text=True, check=False)
    if run.returncode not in (0, 3):
        raise SystemExit(f"{' '.join(flags)}: {run.stderr}")
    return json.loads(run.stdout), time.time() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--sweeps", type=int, default=24)
    parser.add_argument("--budgets", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["device", "host", "disk"])
    parser.add_argument("--seconds", action="store_true")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    plans = slower = 0
    with tempfile.TemporaryDirectory() as directory:
        for sweep in range(args.sweeps):
            space = args.only or ["device", "host", "device", "disk"][sweep % 4]
            line, option, budgets = sweep_of(rng, space, args.budgets, directory)
            print(" ".join(line).replace(directory, "DIR"), flush=True)
            best = 0
            for mib in budgets:
                result, took = plan(args.snug, [*line, option, f"{mib}MiB"])
                if not result["fits"]:
                    if best > 0:
                        slower += 1
                    print(f"  {option} {mib:7}MiB  {'SLOWER: no longer fits' if best else 'does not fit'}", flush=True)
                    continue
                plans += 1
                speed = result["tokens_per_s"]
                recipe = result["recipe"]
                row = f"  {option} {mib:7}MiB {speed:12.1f} tok/s  batch {recipe['batch']:3} offload {recipe['offload']}"
                row += f" ahead {recipe['offload-ahead']} {recipe['micro-order']} host-update {recipe['host-update']}"
                if args.seconds:
                    row += f"  ({took:.2f} s)"
                if speed < best * (1 - 1e-9):
                    slower += 1
                    row += f"  SLOWER by {100 * (best / speed - 1):.2f} %"
                print(row, flush=True)
                best = max(best, speed)
    print(f"{plans} plans that fit, {slower} slower than with less memory")


if __name__ == "__main__":
    main()

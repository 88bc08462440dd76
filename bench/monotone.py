#!/usr/bin/env python3
"""Is more memory ever modelled slower? Plans the same run inside rising budgets of each space.

  bench/monotone.py --budgets 6 --seed 1 --jobs 4 > bench/results/DATE-monotone.txt
  options: --snug build/snug  --sweeps N (only so many)  --seconds (also how long each plan took)

Each sweep is one model, card and batch, and one space whose budget rises: the device's for every model on every card,
the host's and the disk's for some of them, in an order drawn by the seed. A row whose plan is slower than one of a
smaller budget ends in SLOWER and by how much; the last line counts them.
"""
import argparse
import concurrent.futures
import json
import random
import subprocess
import tempfile
import time

# A model, and the least device memory, in GiB, at which a sweep begins.
MODELS = {"gpt2": 1.3, "smollm2-135m": 1.3, "qwen2.5-0.5b": 2, "gemma3-1b": 4, "qwen2.5-1.5b": 4, "qwen2.5-7b": 9}
CARDS = ["rtx4090", "h200", "a100-40", "l4"]
BATCHES = [4, 8, 16, 64]
STATES = ["", "--master none --state-dtype bf16 --grad-dtype bf16", "--optimizer adamw8bit"]
STATE_BYTES = [12, 4, 6]  # of a parameter: what the host takes of it, about


def rising(least, most, count):
    """So many sizes in MiB, each the same part larger than the one before."""
    return [round(1024 * least * (most / least) ** (i / (count - 1))) for i in range(count)]


def sweep_of(rng, space, model, card, count, directory):
    """The line without its rising budget, the option of that budget, and its values."""
    least = MODELS[model]
    state = rng.randrange(len(STATES))
    line = f"{model} --gpu {card} --batch {rng.choice(BATCHES)} {STATES[state]}".split()
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


def sweeps_of(seed, count, directory):
    rng = random.Random(seed)
    pairs = [(model, card) for model in MODELS for card in CARDS]
    every = [("device", *pair) for pair in pairs]
    every += [(space, *pair) for space in ("host", "disk") for pair in rng.sample(pairs, 6)]
    rng.shuffle(every)
    return [sweep_of(rng, *each, count, directory) for each in every]


def run_sweep(args, directory, line, option, budgets):
    """Its rows, how many plans fit, and how many of them are slower than one before."""
    rows, best, plans, slower = [" ".join(line).replace(directory, "DIR")], 0, 0, 0
    for mib in budgets:
        result, took = plan(args.snug, [*line, option, f"{mib}MiB"])
        if not result["fits"]:
            slower += best > 0
            rows.append(f"  {option} {mib:7}MiB  {'SLOWER: no longer fits' if best else 'does not fit'}")
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
        rows.append(row)
        best = max(best, speed)
    return rows, plans, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--sweeps", type=int)
    parser.add_argument("--budgets", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", action="store_true")
    args = parser.parse_args()
    plans = slower = 0
    with tempfile.TemporaryDirectory() as directory, concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        sweeps = sweeps_of(args.seed, args.budgets, directory)[: args.sweeps]
        runs = [pool.submit(run_sweep, args, directory, *sweep) for sweep in sweeps]
        for run in concurrent.futures.as_completed(runs):
            rows, fit, less = run.result()
            plans += fit
            slower += less
            print("\n".join(rows), flush=True)
    print(f"{plans} plans that fit, {slower} slower than with less memory")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Random jobs over several ranks against one device: is the trained model the same, byte for byte?

    python3 bench/ranks.py build/snug --jobs 40                      # processes, over sockets
    python3 bench/ranks.py build/snug --jobs 40 --launcher mpirun    # over MPI
    python3 bench/ranks.py build/snug --jobs 20 --device cuda        # over NCCL, all ranks on one GPU
    python3 bench/ranks.py build/snug --jobs 40 --resume             # each goes on from half of its steps, on other ranks

Every job is drawn from its number: model, ranks, copies of the state, micro-batches, stage, optimizer, types, clipping, recompute,
offload, where and when updates are made, order. It
trains a few steps under --deterministic with fp32 gradients; one device takes all ranks' micro-batches, one after another. Each
line says what was run and whether the two model.safetensors are equal; the last counts them.
"""
import argparse
import concurrent.futures
import filecmp
import pathlib
import random
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def draw(number, device):
    dice = random.Random(number)
    ranks, accum = dice.choice([2, 2, 3, 4]), dice.choice([1, 1, 2, 3])
    stage = dice.choice([0, 1, 2, 3])
    sharers = ranks
    if dice.random() < 0.4:  # copies of shared state
        ranks, sharers = dice.choice([(4, 2), (4, 2), (6, 2), (6, 3)]) if device == "cpu" else (4, 2)
        stage = max(stage, 1)
    precision = dice.choice(["fp32", "bf16"])
    words = ["--precision", precision, "--grad-dtype", "fp32"]
    words += ["--optimizer", dice.choice(["adamw", "adamw", "adamw8bit", "lion", "sgd", "adam-mini"])]
    if precision == "bf16" and dice.random() < 0.5:
        words += ["--master", "none"]
    if "adamw8bit" not in words and dice.random() < 0.3:
        words += ["--state-dtype", "bf16"]
    if dice.random() < 0.3:
        words += ["--update-in-backward", "--clip", "0"]
    words += ["--recompute", dice.choice(["none", "none", "full", "attention", "every:2"])]
    words += ["--loss", dice.choice(["whole", "chunked:32", "chunked:1024", "chunked"])]
    if dice.random() < 0.3:
        words += ["--dropout", "0.1"]
    items = [item for item in ("optimizer", "master", "grads", "activations") if dice.random() < 0.5]
    if stage == 3 and dice.random() < 0.5:
        items.append("params")
    offload = ",".join(items) if dice.random() < 0.4 and items else "none"
    job = ["--ranks", str(ranks), "--accum", str(accum), "--zero", str(stage), "--offload", offload,
           "--zero-threshold", dice.choice(["0", "0", "20000"])]
    if sharers < ranks:
        job += ["--shard", f"hybrid:{sharers}"]
    if accum > 1 and dice.random() < 0.4:
        job += ["--micro-order", "vertical"]
    if offload != "none" and {"optimizer", "master"} <= set(items):
        if dice.random() < 0.4:
            job += ["--host-update", "all"]
        elif "--update-in-backward" not in words and dice.random() < 0.6:
            job += ["--fold-update", "on"]
    if device == "cuda":
        job += ["--share-gpu"]
    model = dice.choice(["llama-wide.json", "gpt2-wide.json"])
    return model, ranks, accum, words, job


def draw_other(number, device):
    """How a job resumes: ranks, ZeRO level and offloading of its own."""
    dice = random.Random(number + 1_000_000)
    ranks = dice.choice([1, 2, 3, 4])
    words = ["--offload", dice.choice(["none", "none", "optimizer,master", "activations"])]
    if ranks > 1:
        words += ["--ranks", str(ranks), "--zero", dice.choice("0123"), "--zero-threshold", dice.choice(["0", "20000"])]
        words += ["--share-gpu"] if device == "cuda" else []
    return words


def run(line, limit):
    """What failed: nothing, or its last line."""
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        return [f"no end after {limit:g} s"]
    return done.stderr.strip().splitlines()[-1:] or ["?"] if done.returncode != 0 else []


def run_job(args, number, where):
    model, ranks, accum, words, job = draw(number, args.device)
    common = [args.snug, "train", str(HERE.parent / "tests/e2e" / model), "--device", args.device, "--steps", "4", "--batch",
              str(args.batch), "--seq", str(args.seq), "--deterministic", "--overwrite", *words]
    if args.device == "cuda":
        common += ["--budget", "8GiB", "--tune", "short"]
    launch, over = [], job
    if args.launcher == "mpirun":
        launch, over = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks)], job[2:]
    began = time.time()
    failed = run([*common, "--accum", str(ranks * accum), "--offload", "none", "--out", where + "-one"], args.limit)
    saves = ["--save-every", "2", "--keep", "9"] if args.resume else []
    failed += run([*launch, *common, *over, *saves, "--out", where + "-all"], args.limit)
    ended = where + "-all"
    if args.resume and not failed:
        job = job + ["then", *draw_other(number, args.device)]
        ended = where + "-on"
        failed = run([args.snug, "train", "--resume", where + "-all/step-00000002", "--out", ended, *draw_other(number, args.device)],
                     args.limit)
    equal = not failed and filecmp.cmp(where + "-one/model.safetensors", ended + "/model.safetensors", shallow=False)
    print(f"{number:4} {'same' if equal else 'DIFFERENT'} {time.time() - began:5.1f} s  {model} {' '.join(job + words)}"
          + (f"  {failed}" if failed else ""), flush=True)
    return equal


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first job")
    parser.add_argument("--launcher", choices=["ranks", "mpirun"], default="ranks")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seq", type=int, default=32)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--resume", action="store_true", help="go on from half of the steps on other ranks, and compare that")
    parser.add_argument("--parallel", type=int, default=1, help="so many jobs at once")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as where, concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        jobs = range(args.first, args.first + args.jobs)
        same = list(pool.map(lambda number: run_job(args, number, f"{where}/{number}"), jobs))
    print(f"{sum(same)} of {args.jobs} the same: {args.launcher}, {args.device}")
    return 0 if all(same) else 1


if __name__ == "__main__":
    sys.exit(main())

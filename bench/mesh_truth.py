#!/usr/bin/env python3
"""Modelled step times of CPU jobs over MPI against measured ones, and whether the modelled order of meshes is the measured one.

    python3 bench/mesh_truth.py build/snug             # a quarter of the cores for each rank, 2 and 4 ranks
    python3 bench/mesh_truth.py build/snug --ranks 2   # where there are two cores only

First the machine is calibrated with a rank's threads, and its collectives under mpirun. Every mesh trains the same 16 sequences
a step; a plan's time is for a step without what is special about the first, so of the later ones the lower quartile is taken, as
calibration does: on a shared machine others take the cores from time to time. Pairs of one model whose measured times are more than
20 % apart should be ranked alike by both.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile

MODELS = {
    "llama-wide": {"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 6,
                   "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 2048, "max_position_embeddings": 256,
                   "tie_word_embeddings": False},
    "gpt2-deep": {"model_type": "gpt2", "n_embd": 256, "n_head": 8, "n_layer": 12, "n_positions": 256, "vocab_size": 4096},
}
SEQUENCES, LENGTH, STEPS = 16, 128, 10
# pp, dp, tp and what else; micro-batches of so many sequences
MESHES = [
    (1, 2, 1, ["--zero", "0"], 8), (1, 2, 1, ["--zero", "3"], 8), (1, 2, 1, ["--zero", "3"], 2), (1, 1, 2, [], 16), (1, 1, 2, [], 4),
    (2, 1, 1, [], 4), (2, 1, 1, [], 2), (1, 4, 1, ["--zero", "1"], 4), (1, 4, 1, ["--zero", "3"], 2), (1, 1, 4, [], 16),
    (1, 2, 2, ["--zero", "2"], 8), (2, 2, 1, ["--zero", "1"], 2), (2, 1, 2, [], 4), (4, 1, 1, [], 2),
    (2, 1, 1, ["--pp-schedule", "zero-bubble"], 2), (4, 1, 1, ["--pp-schedule", "zero-bubble"], 2),
    (2, 1, 1, ["--pp-schedule", "interleaved:2"], 2),
]
APART = 1.2


def run(line, cache):
    done = subprocess.run(line, capture_output=True, text=True,
                          env={**os.environ, "XDG_CACHE_HOME": cache, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                               "OMPI_MCA_hwloc_base_binding_policy": "none"})
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(line)}\n{done.stderr}")
    return done.stdout


def mpirun(args, ranks):
    """Each rank on cores of its own, where there are enough."""
    own = ["--map-by", f"slot:PE={args.threads}", "--bind-to", "core"] if ranks * args.threads <= os.cpu_count() else []
    return ["mpirun", "-n", str(ranks), *own, args.snug]


def measure(args, mesh, config, out, cache):
    """Modelled and measured seconds of a step."""
    pp, dp, tp, words, batch = mesh
    job = [config, "--device", "cpu", "--threads", str(args.threads), "--mesh", f"pp={pp},dp={dp},tp={tp}", "--batch", str(batch),
           "--accum", str(SEQUENCES // dp // batch), "--seq", str(LENGTH), "--recompute", "none", "--dropout", "0", *words]
    modelled = json.loads(run([args.snug, "plan", *job, "--json"], cache))["step_ms"] / 1e3
    run([*mpirun(args, pp * dp * tp), "train", *job, "--data", "synthetic", "--holdout", "0", "--steps", str(STEPS),
         "--out", out], cache)
    with open(out + "/history.jsonl") as lines:
        seconds = [json.loads(line)["seconds"] for line in lines]
    return modelled, statistics.quantiles(seconds[2:], n=4)[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("--ranks", type=int, default=4, help="the most ranks of a mesh")
    parser.add_argument("--threads", type=int, default=0, help="of a rank (0: its share of the cores)")
    args = parser.parse_args()
    args.threads = args.threads or max(1, os.cpu_count() // args.ranks)
    meshes = [mesh for mesh in MESHES if mesh[0] * mesh[1] * mesh[2] <= args.ranks]
    errors, right, pairs = [], 0, 0
    with tempfile.TemporaryDirectory() as where:
        cache = where + "/cache"
        run([args.snug, "calibrate", "--device", "cpu", "--threads", str(args.threads)], cache)
        for ranks in (2, 4):
            if ranks <= args.ranks:
                run([*mpirun(args, ranks), "calibrate", "--device", "cpu", "--threads", str(args.threads)], cache)
        print("model       pp dp tp                    batch  modelled  measured  ratio", flush=True)
        for name, shape in MODELS.items():
            config = f"{where}/{name}.json"
            with open(config, "w") as file:
                json.dump(shape, file)
            times = []
            for at, mesh in enumerate(meshes):
                times.append(measure(args, mesh, config, f"{where}/{name}-{at}", cache))
                modelled, measured = times[-1]
                errors.append(abs(modelled / measured - 1))
                pp, dp, tp, words, batch = mesh
                print(f"{name:11} {pp:2} {dp:2} {tp:2}  {' '.join(words):17} {batch:5}  {modelled * 1e3:6.1f} ms {measured * 1e3:6.1f} ms"
                      f"  {modelled / measured:5.2f}", flush=True)
            for (a, x), (b, y) in itertools.combinations(times, 2):
                if max(x, y) > APART * min(x, y):
                    pairs += 1
                    right += (a < b) == (x < y)
    print(f"error: median {statistics.median(errors):.1%}, worst {max(errors):.1%}; "
          f"{right} of {pairs} pairs more than 20 % apart are ranked right; {args.threads} threads a rank")
    return 0 if max(errors) <= 0.2 and right == pairs else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Random meshes against one device: the first step's loss and gradients, and where no matrix is cut every byte of the model.

    python3 bench/meshes.py build/snug --jobs 40                   # processes, over sockets
    python3 bench/meshes.py build/snug --jobs 8 --device cuda      # over NCCL, all ranks on one GPU

Every job is drawn from its number: family, mesh (pp, dp, tp), micro-batches, stage, recompute, clipping. One device takes all
micro-batches, one after another. Gradients are what one step of plain SGD at a learning rate of 1 changes; their distance is that
of all tensors together, |a - b| / |b|. Meshes of tp=1 whose tables are not tied then train four steps with an optimizer that is
drawn, too, and are compared byte for byte.
"""
import argparse
import array
import concurrent.futures
import filecmp
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import time

COMMON = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 8, "num_attention_heads": 8, "vocab_size": 263,
          "max_position_embeddings": 64}
MODELS = {
    "llama": {**COMMON, "model_type": "llama", "num_key_value_heads": 4, "tie_word_embeddings": False},
    "mistral": {**COMMON, "model_type": "mistral", "num_key_value_heads": 2, "tie_word_embeddings": False},
    "qwen2": {**COMMON, "model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True},
    "gpt2": {"model_type": "gpt2", "n_embd": 128, "n_head": 8, "n_layer": 8, "n_positions": 64, "vocab_size": 263},
    "bert": {**COMMON, "model_type": "bert"},
}
TIED = {"qwen2", "gpt2", "bert"}
LOSS, GRADIENTS = 1e-5, 1e-4


def draw(number):
    dice = random.Random(number)
    meshes = [(1, 1, 2), (1, 1, 4), (1, 2, 2), (2, 1, 2), (2, 1, 1), (2, 2, 1), (4, 1, 1), (3, 1, 1)]
    pp, dp, tp = dice.choice(meshes)
    words = ["--recompute", dice.choice(["none", "full", "attention"])]
    job = ["--mesh", f"pp={pp},dp={dp},tp={tp}"]
    if dp > 1:
        job += ["--zero", dice.choice("0123"), "--zero-threshold", "0"]
    family, accum, optimizer = dice.choice(sorted(MODELS)), dice.choice([1, 2, 4]), dice.choice(["adamw", "lion", "sgd"])
    if pp > 1:
        schedule = dice.choice(["1f1b", "zero-bubble", "interleaved:2"])
        job += ["--pp-schedule", schedule]
        # With many a program of its micro-batches repeats.
        accum = pp * dice.choice([1, 2, 5, 7]) if schedule == "interleaved:2" else dice.choice([accum, 9])
    return family, (pp, dp, tp), accum, job, words, optimizer


def tensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    out = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            out[name] = array.array("f", data[begin:end])
    return out


def distance(one, other, before):
    """Of the changes that two steps made, relative to the first's."""
    a, b, start = tensors(one), tensors(other), tensors(before)
    apart = sum((x - y) ** 2 for name in a for x, y in zip(a[name], b[name]))
    size = sum((x - y) ** 2 for name in a for x, y in zip(a[name], start[name]))
    return math.sqrt(apart / size)


def first_loss(out):
    with open(out + "/history.jsonl") as lines:
        return json.loads(next(lines))["loss"]


def run(line, limit):
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=limit)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {limit:g} s") from None
    if done.returncode != 0:
        raise RuntimeError(" / ".join(done.stderr.strip().splitlines()[-2:]) or "?")


def run_job(args, number, where):
    family, (pp, dp, tp), accum, job, words, optimizer = draw(number)
    pathlib.Path(where).mkdir()
    config = f"{where}/config.json"
    pathlib.Path(config).write_text(json.dumps(MODELS[family]))
    common = [args.snug, "train", config, "--device", args.device, "--batch", "2", "--seq", "32", "--precision", "fp32",
              "--grad-dtype", "fp32", "--deterministic", "--dropout", "0", "--lr-schedule", "constant", *words]
    plain = ["--steps", "1", "--optimizer", "sgd", "--momentum", "0", "--weight-decay", "0", "--clip", "0"]
    one, mesh = ["--accum", str(dp * accum)], ["--accum", str(accum), *job]
    if args.device == "cuda":
        common += ["--tune", "short", "--offload", "none"]
        mesh += ["--share-gpu"]
    began, said, good = time.time(), "", False
    try:
        run([*common, *plain, *one, "--lr", "1e-30", "--out", where + "/before"], args.limit)
        run([*common, *plain, *one, "--lr", "1", "--out", where + "/one"], args.limit)
        run([*common, *plain, *mesh, "--lr", "1", "--out", where + "/mesh"], args.limit)
        loss = first_loss(where + "/one")
        apart = abs(first_loss(where + "/mesh") - loss) / loss
        gradients = distance(*(f"{where}/{name}/model.safetensors" for name in ("one", "mesh", "before")))
        good = apart <= LOSS and gradients <= GRADIENTS
        said = f"loss {apart:.1e} gradients {gradients:.1e}"
        if tp == 1 and family not in TIED:
            trained = ["--steps", "4", "--optimizer", optimizer]
            run([*common, *trained, *one, "--out", where + "/one4"], args.limit)
            run([*common, *trained, *mesh, "--out", where + "/mesh4"], args.limit)
            same = filecmp.cmp(*(f"{where}/{name}/model.safetensors" for name in ("one4", "mesh4")), shallow=False)
            said += f", {optimizer}: {'the same bytes' if same else 'OTHER BYTES'}"
            good = good and same
    except RuntimeError as error:
        said = str(error)
    print(f"{number:4} {'good' if good else 'BAD '} {time.time() - began:5.1f} s  {family} {' '.join(mesh + words)}: {said}", flush=True)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("--jobs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0, help="number of the first job")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--parallel", type=int, default=1, help="so many jobs at once")
    parser.add_argument("--limit", type=float, default=300, help="seconds for a run")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as where, concurrent.futures.ThreadPoolExecutor(args.parallel) as pool:
        jobs = range(args.first, args.first + args.jobs)
        good = list(pool.map(lambda number: run_job(args, number, f"{where}/{number}"), jobs))
    print(f"{sum(good)} of {args.jobs} within {LOSS:g} (loss) and {GRADIENTS:g} (gradients): {args.device}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Snug against torch.compile over models, shapes, precisions and dropout, on one GPU: tokens/s and memory of each.

    bench/sweep.py RESULTS.jsonl [--seconds 540] [--only PART...] [--commit NAME] measures cells that RESULTS does not have yet
    bench/sweep.py RESULTS.jsonl --prepare 4                                      lets PyTorch compile for them, 4 at a time
    bench/sweep.py RESULTS.jsonl --table                                          prints what there is

A cell is a model with fp32 master weights, as Hugging Face's trainer has it; `dropout` is the model's own (0.1) or none.
Both sides train random tokens; memory is what nvidia-smi counts. A measured cell is one line of RESULTS, so a sweep can be
stopped and continues where it was; --seconds ends it before the next cell would begin. PyTorch keeps what it compiled on disk:
after --prepare, where nothing is timed, a cell takes half as long.
"""

import argparse
import concurrent.futures
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from gpu_memory import used_bytes

ROOT = Path(__file__).resolve().parent.parent

# What is needed of each family's config.json; widths x layers of llama-7b and mistral-7b are cut to a GPU's size.
MODELS = {
    "gpt2": dict(kind="gpt2", n_embd=768, n_layer=12, n_head=12),
    "gpt2-medium": dict(kind="gpt2", n_embd=1024, n_layer=24, n_head=16),
    "bert-base": dict(kind="bert", hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072),
    "bert-large": dict(kind="bert", hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096),
    "llama-7b:2048x16": dict(kind="llama", hidden_size=2048, num_hidden_layers=16, num_attention_heads=16,
                             num_key_value_heads=16, intermediate_size=5504, vocab_size=32000),
    "mistral-7b:2048x16": dict(kind="mistral", hidden_size=2048, num_hidden_layers=16, num_attention_heads=16,
                               num_key_value_heads=4, head_dim=128, intermediate_size=7168, vocab_size=32768,
                               sliding_window=None),
    "qwen2.5-0.5b": dict(kind="qwen2", hidden_size=896, num_hidden_layers=24, num_attention_heads=14,
                         num_key_value_heads=2, intermediate_size=4864, vocab_size=151936, tie_word_embeddings=True),
    "qwen2.5-1.5b": dict(kind="qwen2", hidden_size=1536, num_hidden_layers=28, num_attention_heads=12,
                         num_key_value_heads=2, intermediate_size=8960, vocab_size=151936, tie_word_embeddings=True),
    "qwen2.5-3b": dict(kind="qwen2", hidden_size=2048, num_hidden_layers=36, num_attention_heads=16,
                       num_key_value_heads=2, intermediate_size=11008, vocab_size=151936, tie_word_embeddings=True),
    "qwen2.5-7b": dict(kind="qwen2", hidden_size=3584, num_hidden_layers=28, num_attention_heads=28,
                       num_key_value_heads=4, intermediate_size=18944, vocab_size=152064, tie_word_embeddings=False),
    "qwen3-0.6b": dict(kind="qwen3", hidden_size=1024, num_hidden_layers=28, num_attention_heads=16, num_key_value_heads=8,
                       head_dim=128, intermediate_size=3072, vocab_size=151936, tie_word_embeddings=True),
    "gemma3-1b": dict(kind="gemma3_text", hidden_size=1152, num_hidden_layers=26, num_attention_heads=4,
                      num_key_value_heads=1, head_dim=256, intermediate_size=6912, vocab_size=262144, sliding_window=512,
                      query_pre_attn_scalar=256, hidden_activation="gelu_pytorch_tanh", tie_word_embeddings=True,
                      layer_types=[f"{'full' if i % 6 == 5 else 'sliding'}_attention" for i in range(26)]),
}
FAMILIES = {
    "gpt2": dict(architectures=["GPT2LMHeadModel"], vocab_size=50257),
    "bert": dict(architectures=["BertForMaskedLM"], vocab_size=30522),
    "llama": dict(architectures=["LlamaForCausalLM"], tie_word_embeddings=False),
    "mistral": dict(architectures=["MistralForCausalLM"], tie_word_embeddings=False),
    "qwen2": dict(architectures=["Qwen2ForCausalLM"], rope_theta=1e6),
    "qwen3": dict(architectures=["Qwen3ForCausalLM"], rope_theta=1e6),
    "gemma3_text": dict(architectures=["Gemma3ForCausalLM"], rope_theta=1e6, rope_local_base_freq=1e4),
}

# model, precision, dropout, then sequences x tokens x micro-batches.
CELLS = [line.split() for line in """
gpt2             bf16 0.1  32x1024x2
gpt2             bf16 0    32x1024x2
gpt2             fp16 0.1  32x1024x2
gpt2             fp32 0.1  16x1024x1
gpt2             fp32 0    16x1024x1
gpt2             bf16 0.1  256x128x1
gpt2             bf16 0.1  8x4096x1
gpt2             bf16 0    4x8192x1
gpt2-medium      bf16 0.1  16x1024x2
gpt2-medium      bf16 0    16x1024x1
gpt2-medium      fp16 0.1  16x1024x1
bert-base        bf16 0.1  64x512x1
bert-base        bf16 0    64x512x1
bert-base        bf16 0.1  256x128x1
bert-base        fp16 0.1  64x512x1
bert-base        fp32 0    64x128x1
bert-large       bf16 0.1  32x512x1
bert-large       bf16 0    32x512x1
bert-large       bf16 0.1  128x128x1
bert-large       fp16 0    32x512x1
llama-7b:2048x16 bf16 0    8x2048x1
llama-7b:2048x16 bf16 0    64x128x1
llama-7b:2048x16 bf16 0    2x8192x1
llama-7b:2048x16 fp16 0    8x2048x1
llama-7b:2048x16 fp32 0    4x1024x1
mistral-7b:2048x16 bf16 0  8x2048x1
mistral-7b:2048x16 bf16 0  1x16384x1
mistral-7b:2048x16 fp16 0  8x1024x1
qwen2.5-0.5b     bf16 0    32x1024x1
qwen2.5-0.5b     bf16 0    128x128x1
qwen2.5-0.5b     bf16 0    4x8192x1
qwen2.5-0.5b     fp16 0    32x1024x1
qwen2.5-0.5b     fp32 0    8x1024x1
qwen2.5-1.5b     bf16 0    16x1024x1
qwen2.5-1.5b     bf16 0    16x1024x4
qwen2.5-1.5b     fp16 0    16x1024x1
qwen2.5-3b       bf16 0    8x1024x1
qwen2.5-3b       bf16 0    8x1024x4
qwen2.5-7b       bf16 0    2x1024x1
qwen2.5-7b       bf16 0    4x1024x2
qwen3-0.6b       bf16 0    16x1024x1
gemma3-1b        bf16 0    8x1024x1
""".strip().splitlines()]


def name_of(cell):
    return " ".join(cell)


def write_config(model, dropout, seq, folder):
    facts = dict(MODELS[model])
    kind = facts.pop("kind")
    config = dict(model_type=kind, **FAMILIES[kind], **facts)
    if kind == "gpt2":
        config |= dict(n_positions=seq, resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout)
    elif kind == "bert":
        config |= dict(max_position_embeddings=max(seq, 512), hidden_dropout_prob=dropout,
                       attention_probs_dropout_prob=dropout)
    else:
        config |= dict(max_position_embeddings=seq, attention_dropout=dropout, rms_norm_eps=1e-5)
    (Path(folder) / "config.json").write_text(json.dumps(config))


def run_watched(command):
    """Its output, and the most that it took of the GPU."""
    before, most, done = used_bytes(), 0, threading.Event()

    def watch():
        nonlocal most
        while not done.wait(0.3):
            most = max(most, used_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        ended = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    finally:  # interrupted, too: the watcher would keep this process alive
        done.set()
        watcher.join()
    return ended, most - before


def train_snug(folder, cell, steps=16, timed=8):
    _, precision, dropout, shape = cell
    batch, seq, accum = shape.split("x")
    words = [str(ROOT / "build/snug"), "train", folder, "--device", "cuda", "--data", "synthetic", "--steps", str(steps),
             "--batch", batch, "--seq", seq, "--accum", accum, "--precision", precision, "--dropout", dropout,
             "--tune", "short", "--json"]
    words += ["--tf32"] if precision == "fp32" else ["--master", "fp32"]
    ended, most = run_watched(words)
    if ended.returncode != 0:
        return dict(error=ended.stderr.strip().splitlines()[:2])
    rates = [line["tokens_per_s"] for line in map(json.loads, ended.stdout.splitlines()) if "loss" in line]
    return dict(tokens_per_s=statistics.median(rates[-timed:]), peak_bytes=most)


def torch_command(folder, cell):
    _, precision, dropout, shape = cell
    batch, seq, accum = shape.split("x")
    return [sys.executable, str(ROOT / "bench/torch_hf.py"), folder, "--batch", batch, "--seq", seq, "--accum", accum,
            "--precision", precision, "--dropout", dropout]


def measure(cell):
    """Snug, then PyTorch, which has read its libraries by then and leaves the GPU alone until it is told."""
    with tempfile.TemporaryDirectory() as folder:
        write_config(cell[0], float(cell[2]), int(cell[3].split("x")[1]), folder)
        with subprocess.Popen(torch_command(folder, cell) + ["--wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as torch:
            try:
                snug = train_snug(folder, cell)
                out, err = torch.communicate("now\n")
            finally:
                torch.kill()
        failed = torch.returncode != 0
        return dict(snug=snug, torch=dict(error=err.strip().splitlines()[-1:]) if failed else json.loads(out.splitlines()[-1]))


def prepare(cells, at_once, seconds):
    """Compiles, and forgets what came of it: a cell that runs out of memory next to others is compiled when measured."""
    end = time.monotonic() + seconds

    def compile_one(cell):
        left = end - time.monotonic()
        if left < 30:
            return
        with tempfile.TemporaryDirectory() as folder:
            write_config(cell[0], float(cell[2]), int(cell[3].split("x")[1]), folder)
            try:
                subprocess.run(torch_command(folder, cell) + ["--warmup", "1", "--steps", "1"], capture_output=True,
                               timeout=left)
            except subprocess.TimeoutExpired:
                pass

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        list(pool.map(compile_one, cells))


def measured(path):
    lines = path.read_text().splitlines() if path.exists() else []
    return {found["cell"]: found for found in map(json.loads, lines)}


def show(found):
    snug, torch = found["snug"], found["torch"]
    if "error" in snug or "error" in torch:
        print(f"{found['cell']:<38} snug {snug.get('error', 'ran')}  torch {torch.get('error', 'ran')}")
        return
    print(f"{found['cell']:<38} {snug['tokens_per_s']:>10,.0f} {torch['tokens_per_s']:>10,.0f} tok/s"
          f"  x {snug['tokens_per_s'] / torch['tokens_per_s']:.2f}"
          f"  {snug['peak_bytes'] / 2**30:7.2f} {torch['peak_bytes'] / 2**30:7.2f} GiB"
          f"  x {snug['peak_bytes'] / torch['peak_bytes']:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--seconds", type=float, default=540, help="no cell begins that might end after them")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PART", help="cells whose names have one of these parts")
    parser.add_argument("--commit", default="", help="what was built, for RESULTS")
    parser.add_argument("--prepare", type=int, default=0, metavar="N")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    done, start, longest = measured(options.results), time.monotonic(), 30.0
    cells = [cell for cell in CELLS if any(part in name_of(cell) for part in options.only)]
    if options.prepare:
        return prepare([cell for cell in cells if name_of(cell) not in done], options.prepare, options.seconds)
    for cell in cells:
        name = name_of(cell)
        if name in done:
            show(done[name])
        elif not options.table and time.monotonic() - start + longest < options.seconds:
            began = time.monotonic()
            found = dict(cell=name, commit=options.commit, **measure(cell))
            longest = max(longest, time.monotonic() - began)
            with options.results.open("a") as out:
                out.write(json.dumps(found) + "\n")
            show(found)


if __name__ == "__main__":
    main()

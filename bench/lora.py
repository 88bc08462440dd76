#!/usr/bin/env python3
"""Adapters on one GPU: Snug inside 0.8 of the memory that the same adapter takes in PyTorch, and in fixed budgets.

  bench/lora.py SNUG [--rank 16] [--batch 4] [--seq 1024] [--steps 12] [--tune long] [--cases 4]

PyTorch is bench/torch_hf.py --lora (torch.compile, no checkpointing), in the same run. Memory is what nvidia-smi shows.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
QWEN_7B = dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=152064, max_position_embeddings=32768,
               hidden_size=3584, intermediate_size=18944, num_hidden_layers=28, num_attention_heads=28,
               num_key_value_heads=4, hidden_act="silu", rms_norm_eps=1e-6, rope_theta=1000000.0,
               attention_dropout=0.0, use_sliding_window=False, tie_word_embeddings=False, use_cache=False)
WARM_UP = 4


def torch_run(args):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(QWEN_7B))
        command = [sys.executable, HERE / "torch_hf.py", folder, "--batch", args.batch, "--seq", args.seq,
                   "--lora", args.rank, "--steps", args.steps]
        ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr[-3000:])
    found = json.loads(ran.stdout.splitlines()[-1])
    return found["tokens_per_s"], found["peak_bytes"]


def snug_run(args, budget, *more):
    command = [args.snug, "train", "qwen2.5-7b", "--device", "cuda", "--data", "synthetic", "--batch", args.batch, "--seq",
               args.seq, "--accum", 1, "--steps", args.steps + WARM_UP, "--lora", f"r={args.rank}", "--budget", budget,
               "--json", "--tune", args.tune, *more]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(ran.stderr[-3000:])
    rates = [json.loads(line)["tokens_per_s"] for line in ran.stdout.splitlines() if '"tokens_per_s"' in line]
    used = [line for line in ran.stderr.splitlines() if "are in use" in line]
    chosen = [line for line in ran.stderr.splitlines() if line.startswith("lora ")]
    return statistics.median(rates[WARM_UP:]), (chosen + used)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    for name, default in dict(rank=16, batch=4, seq=1024, steps=12).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tune", default="long")
    parser.add_argument("--cases", type=int, default=4, help="how many of them")
    args = parser.parse_args()
    peer, peak = torch_run(args)
    print(f"PyTorch, torch.compile        {peer:>10,.0f} tokens/s   {peak / 2**30:7.2f} GiB", flush=True)
    budget = int(0.8 * peak)
    for name, room, more in [("Snug, LoRA, 0.8 of that", f"{budget}", []), ("Snug, LoRA, 20 GiB", "20GiB", []),
                             ("Snug, QLoRA nf4, 9 GiB", "9GiB", ["--base-dtype", "nf4"]),
                             ("Snug, QLoRA nf4, 0.8 of that", f"{budget}", ["--base-dtype", "nf4"])][:args.cases]:
        rate, lines = snug_run(args, room, *more)
        print(f"{name:<30}{rate:>10,.0f} tokens/s   {rate / peer:5.2f} of PyTorch", flush=True)
        print("\n".join("    " + line for line in lines), flush=True)


if __name__ == "__main__":
    main()

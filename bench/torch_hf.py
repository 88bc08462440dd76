"""Hugging Face's model trained under torch.compile with autocast on one GPU, for bench/sweep.py: one JSON line.

    python3 bench/torch_hf.py DIRECTORY --batch 32 --seq 1024 --accum 2 --precision bf16 --dropout 0.1

Weights and AdamW's state are fp32, the arithmetic is in `--precision` (fp32: matmuls in tf32), AdamW is fused, gradients are
clipped to norm 1, the attention is the faster of PyTorch's own at this shape, with its dropout. Encoders guess every token.
With --lora R the model is frozen in `--precision`, and every linear layer of its layers has an adapter of rank R in fp32, as
PEFT makes it. With --wait it imports what it needs and waits for a line on its input before it touches the GPU.
"""

import argparse
import importlib
import json
import statistics
import sys
import time

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM

from gpu_memory import used_bytes
from torch_gpu import KINDS, forget_warm_up
from torch_train import adamw

TYPES = dict(bf16=torch.bfloat16, fp16=torch.float16, fp32=torch.float32)


def use_fastest_attention(config, options):
    heads = config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    width = getattr(config, "head_dim", None) or config.hidden_size // heads
    dtype, causal = TYPES[options.precision], config.model_type != "bert"
    q, k, v = (torch.randn(options.batch, n, options.seq, width, device="cuda", dtype=dtype, requires_grad=True)
               for n in (heads, keys, keys))
    times = {}
    window = getattr(config, "sliding_window", None)
    windowed = bool(window) and window < options.seq and "sliding_attention" in getattr(config, "layer_types", [])
    for name in () if windowed else KINDS:  # a window comes as a mask, which not all of them take
        for other, enable in KINDS.items():
            enable(other == name)
        try:
            for _ in range(5):
                torch.cuda.synchronize()
                start = time.perf_counter()
                y = torch.nn.functional.scaled_dot_product_attention(
                    q, k, v, dropout_p=options.dropout, is_causal=causal, enable_gqa=keys != heads)
                torch.autograd.grad(y, (q, k, v), y)
                torch.cuda.synchronize()
                times[name] = time.perf_counter() - start
        except RuntimeError:
            times.pop(name, None)
    best = min(times, key=times.get) if times else None
    for name, enable in KINDS.items():
        enable(best in (None, name))
    return best or "any"


def model_of(options):
    config = AutoConfig.from_pretrained(options.directory, attn_implementation="sdpa")
    for name in list(config.to_dict()):
        if name.endswith("_pdrop") or name.endswith("dropout") or name.endswith("dropout_prob"):
            if isinstance(getattr(config, name, None), (int, float)):
                setattr(config, name, options.dropout)
    kind = AutoModelForMaskedLM if config.model_type == "bert" else AutoModelForCausalLM
    with torch.device("cuda"):
        return config, kind.from_config(config).train()


class LoraLinear(torch.nn.Module):
    def __init__(self, base, rank, scale):
        super().__init__()
        self.base, self.scale = base, scale
        self.a = torch.nn.Linear(base.in_features, rank, bias=False, device="cuda", dtype=torch.float32)
        self.b = torch.nn.Linear(rank, base.out_features, bias=False, device="cuda", dtype=torch.float32)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x)) * self.scale


def add_adapters(model, rank, dtype):
    model.to(dtype).requires_grad_(False)
    for part in list(model.model.layers.modules()):
        for name, child in list(part.named_children()):
            if isinstance(child, torch.nn.Linear) and not isinstance(part, LoraLinear):
                setattr(part, name, LoraLinear(child, rank, 2.0))


def wait_for_turn(config):
    for module in ("torch._dynamo", "torch._inductor.compile_fx",
                   type(config).__module__.replace("configuration_", "modeling_")):
        importlib.import_module(module)
    sys.stdin.readline()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", help="that holds a config.json")
    for name, default in dict(batch=8, seq=1024, accum=1, steps=10, warmup=4, lora=0).items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--precision", choices=TYPES, default="bf16")
    parser.add_argument("--dropout", type=float, default=0)
    parser.add_argument("--wait", action="store_true")
    options = parser.parse_args()
    if options.wait:
        wait_for_turn(AutoConfig.from_pretrained(options.directory))
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    before = used_bytes()
    config, model = model_of(options)
    if options.lora:
        add_adapters(model, options.lora, TYPES[options.precision])
    attention = use_fastest_attention(config, options)
    compiled = torch.compile(lambda tokens: model(input_ids=tokens, labels=tokens).loss, dynamic=False)
    optimizer = adamw(model, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=options.precision == "fp16")
    half = options.precision != "fp32"

    def step():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(options.accum):
            tokens = torch.randint(config.vocab_size, (options.batch, options.seq), device="cuda")
            with torch.autocast("cuda", TYPES[options.precision], enabled=half):
                loss = compiled(tokens) / options.accum
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(options.warmup):
        step()
    forget_warm_up()
    seconds = statistics.median(step() for _ in range(options.steps))
    print(json.dumps(dict(tokens_per_s=options.batch * options.seq * options.accum / seconds,
                          peak_bytes=used_bytes() - before, attention=attention)))


if __name__ == "__main__":
    main()

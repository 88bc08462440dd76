"""PyTorch training of a llama, qwen2 or mistral on one GPU, for `snug bench --peer torch`: one JSON line at the end.

    python3 bench/torch_gpu.py CONFIG.json --mode compile --batch 32 --seq 1024 --accum 4 [--steps 10] [--warmup 3]
    python3 bench/torch_gpu.py CONFIG.json --mode transformers ...

The peer is meant to be strong, and to train the same thing as Snug: bf16 weights, gradients and AdamW state without a
master copy, fused AdamW, clipping to norm 1, `--accum` micro-batches of random tokens a step, packed QKV and gate|up
products, logits in bf16 and the loss in fp32, the whole model under torch.compile (`--mode compile`), and the fastest of
PyTorch's own attention kernels at this shape: cuDNN's or flash, with grouped heads or with copied ones. With `--mode
transformers` the model is the one that most people train, Hugging Face's own, under torch.compile as well; everything else
is the same.

`peak_bytes` is what the process took of the GPU, as nvidia-smi counts it: used after the timed steps, less used before the
process touched the GPU. The allocator is emptied once after the warm-up, so that what only compilation needed is not in it.
"""

import argparse
import gc
import json
import os
import statistics
import sys
import time

os.environ.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")  # the order of nvidia-smi
os.environ.setdefault("PYTORCH_ALLOC_CONF", "expandable_segments:True")

import torch

from gpu_memory import used_bytes
from torch_train import Block, Llama, adamw

FAMILIES = ("llama", "qwen2", "mistral")


def read_config(path):
    if os.path.isdir(path):
        path = os.path.join(path, "config.json")
    with open(path) as f:
        config = json.load(f)
    if config.get("model_type") not in FAMILIES:
        sys.exit(f"torch_gpu: {path} is a {config.get('model_type')}, not one of {', '.join(FAMILIES)}")
    return config


# --- the fastest attention -------------------------------------------------------------------------------------------

KINDS = dict(cudnn=torch.backends.cuda.enable_cudnn_sdp, flash=torch.backends.cuda.enable_flash_sdp)


def use_attention(kernel, expand_heads):
    """For the whole process: torch.compile bakes the choice in."""
    for name, enable in KINDS.items():
        enable(name == kernel)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)
    Block.expand_heads = expand_heads


def time_attention(config, batch, seq, rounds=10):
    """Milliseconds of forward and backward at the model's shape; None where this kernel does not take it."""
    H = config["num_attention_heads"]
    K = config.get("num_key_value_heads") or H
    D = config.get("head_dim") or config["hidden_size"] // H
    q, k, v = (torch.randn(batch, seq, heads, D, device="cuda", dtype=torch.bfloat16).transpose(1, 2).requires_grad_()
               for heads in (H, K, K))
    dy = torch.randn_like(q)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    try:
        for _ in range(rounds + 3):
            begin.record()
            torch.autograd.grad(Block.attend(q, k, v), (q, k, v), dy)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
    except RuntimeError:
        return None
    return statistics.median(times[3:])


def choose_attention(config, batch, seq):
    grouped = config.get("num_key_value_heads", config["num_attention_heads"]) != config["num_attention_heads"]
    times = {}
    for kernel in KINDS:
        for expand_heads in (False, True) if grouped else (False,):
            use_attention(kernel, expand_heads)
            if ms := time_attention(config, batch, seq):
                times[kernel, expand_heads] = ms
    if not times:
        sys.exit("torch_gpu: this PyTorch has neither cuDNN nor flash attention for this model")
    best = min(times, key=times.get)
    use_attention(*best)
    names = {choice: choice[0] + (", copied heads" if choice[1] else "") for choice in times}
    return names[best], {names[choice]: round(ms, 3) for choice, ms in times.items()}


# --- training --------------------------------------------------------------------------------------------------------

class HuggingFace(torch.nn.Module):
    """Hugging Face's model and its loss, called as its own trainer calls it: it shifts the labels itself."""

    def __init__(self, config_path):
        super().__init__()
        from transformers import AutoConfig, AutoModelForCausalLM
        config = AutoConfig.from_pretrained(config_path, attn_implementation="sdpa")
        self.inner = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)

    def forward(self, tokens, _):
        return self.inner(input_ids=tokens, labels=tokens, use_cache=False).loss


class Trainer:
    def __init__(self, config, options):
        torch.manual_seed(0)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device(options.device):
            own = options.mode != "transformers"
            self.model = Llama(config, options.seq) if own else HuggingFace(options.config)
        torch.set_default_dtype(torch.float32)
        compiled = options.mode != "eager"
        self.loss = torch.compile(self.model, dynamic=False, fullgraph=own) if compiled else self.model
        self.optimizer = adamw(self.model, fused=True)
        self.shape, self.vocab = (options.batch, options.seq + 1), config["vocab_size"]
        self.accum, self.device = options.accum, options.device

    def step(self):
        """Milliseconds of one step and its loss."""
        self.synchronise()
        start = time.perf_counter()
        total = torch.zeros((), device=self.device)
        for _ in range(self.accum):
            text = torch.randint(self.vocab, self.shape, device=self.device)
            loss = self.loss(text[:, :-1], text[:, 1:]) / self.accum
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.synchronise()
        return (time.perf_counter() - start) * 1e3, total.item()

    def synchronise(self):
        if self.device == "cuda":
            torch.cuda.synchronize()


def forget_warm_up():
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()


def measure(config, options):
    on_gpu = options.device == "cuda"
    before = used_bytes() if on_gpu else 0
    result = dict(model=options.name or options.config, mode=options.mode, batch=options.batch, seq=options.seq,
                  accum=options.accum, versions=dict(torch=torch.__version__, cuda=torch.version.cuda))
    if on_gpu:
        result["versions"] |= dict(cudnn=torch.backends.cudnn.version(), gpu=torch.cuda.get_device_name())
        result["attention"], result["attention_ms"] = choose_attention(config, options.batch, options.seq)
    start = time.perf_counter()
    trainer = Trainer(config, options)
    for _ in range(options.warmup):
        trainer.step()
    result["warm_up_s"] = time.perf_counter() - start
    if on_gpu:
        forget_warm_up()
    steps = [trainer.step() for _ in range(options.steps)]
    step_ms = statistics.median(ms for ms, _ in steps)
    result |= dict(params=sum(p.numel() for p in trainer.model.parameters()), loss=steps[-1][1], step_ms=step_ms,
                   tokens_per_s=options.batch * options.seq * options.accum / step_ms * 1e3)
    if on_gpu:
        result |= dict(peak_bytes=used_bytes() - before, torch_peak_allocated=torch.cuda.max_memory_allocated(),
                       torch_peak_reserved=torch.cuda.max_memory_reserved())
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", help="a config.json, or a directory that holds one")
    parser.add_argument("--name", help="what to call the model in the result")
    parser.add_argument("--mode", choices=("eager", "compile", "transformers"), default="compile")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=1024)
    parser.add_argument("--accum", type=int, default=1)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3, help="steps before the timed ones: to compile and warm up")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: to try the script itself")
    options = parser.parse_args()
    config = read_config(options.config)
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit(f"torch_gpu: PyTorch {torch.__version__} finds no GPU")
    try:
        result = measure(config, options)
    except torch.OutOfMemoryError as error:
        sys.exit(f"torch_gpu: out of memory in PyTorch: {str(error).splitlines()[0]}")
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()

"""PyTorch eager training of a llama, one step per line of input, so that a benchmark can take turns with it.

    python3 bench/torch_train.py [CONFIG.json] [--batch 8] [--seq 256] [--threads N]

It prints one JSON line when it is warm, {"ready": true, "params": ..., ...}, then reads stdin: each line "step" runs one
training step and prints {"step", "ms", "loss", "grad_norm", "peak_rss_bytes"}; "quit" or the end of input ends it.

The opponent is meant to be strong: fused attention (scaled_dot_product_attention), fused RMS norm, the fastest AdamW that
this PyTorch has for the CPU (tried at start, outside the timed steps), packed QKV and gate|up products, fp32 throughout.
"""

import argparse
import json
import os
import resource
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

# 12 layers, 384 wide: the model of `./dev bench` when no config.json is given.
DEFAULT = dict(model_type="llama", vocab_size=4096, hidden_size=384, intermediate_size=1024, num_hidden_layers=12,
               num_attention_heads=6, num_key_value_heads=6, rms_norm_eps=1e-5, rope_theta=10000.0,
               tie_word_embeddings=False)


class RmsNorm(nn.Module):
    def __init__(self, C, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(C))
        self.eps = eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotate(x, cos, sin):
    """x [B, H, T, D], the halves of D turned by the angles of cos and sin [T, D/2]."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(nn.Module):
    expand_heads = False  # grouped-query attention: copies of K and V for each head, instead of enable_gqa

    def __init__(self, c):
        super().__init__()
        C, self.H = c["hidden_size"], c["num_attention_heads"]
        self.K = c.get("num_key_value_heads") or self.H
        self.D = c.get("head_dim") or C // self.H
        self.norm1, self.norm2 = RmsNorm(C, c["rms_norm_eps"]), RmsNorm(C, c["rms_norm_eps"])
        qkv_bias = c.get("attention_bias", c["model_type"] == "qwen2")
        self.qkv = nn.Linear(C, (self.H + 2 * self.K) * self.D, bias=qkv_bias)
        self.out = nn.Linear(self.H * self.D, C, bias=False)
        self.gate_up = nn.Linear(C, 2 * c["intermediate_size"], bias=False)
        self.down = nn.Linear(c["intermediate_size"], C, bias=False)

    @classmethod
    def attend(cls, q, k, v):
        """Causal attention of q [B, H, T, D] over k and v [B, K, T, D]."""
        H, K = q.shape[1], k.shape[1]
        if cls.expand_heads and H != K:
            k, v = k.repeat_interleave(H // K, dim=1), v.repeat_interleave(H // K, dim=1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=H != k.shape[1])

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, T, self.H + 2 * self.K, self.D).transpose(1, 2)
        q, k, v = qkv.split((self.H, self.K, self.K), dim=1)
        y = self.attend(rotate(q, cos, sin), rotate(k, cos, sin), v)
        x = x + self.out(y.transpose(1, 2).reshape(B, T, self.H * self.D))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, c, T):
        super().__init__()
        self.embed = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.blocks = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)
        if c.get("tie_word_embeddings"):
            self.head.weight = self.embed.weight
        for p in self.parameters():
            if p.ndim >= 2:
                nn.init.normal_(p, std=0.02)
        D = self.blocks[0].D
        theta = c.get("rope_theta") or c.get("rope_parameters", {}).get("rope_theta", 10000.0)
        angles = torch.outer(torch.arange(T).float(), theta ** (-torch.arange(0, D, 2).float() / D))
        self.register_buffer("cos", angles.cos().to(self.norm.weight.dtype), persistent=False)
        self.register_buffer("sin", angles.sin().to(self.norm.weight.dtype), persistent=False)

    def forward(self, tokens, targets):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.cos, self.sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())  # in fp32, as transformers does


def adamw(model, **kind):
    decayed = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return torch.optim.AdamW([dict(params=decayed, weight_decay=0.1), dict(params=others, weight_decay=0.0)],
                             lr=3e-4, betas=(0.9, 0.95), eps=1e-8, **kind)


class Trainer:
    def __init__(self, config, batch, seq):
        torch.manual_seed(0)
        self.model = Llama(config, seq)
        self.shape, self.vocab = (batch, seq + 1), config["vocab_size"]
        self.steps = 0
        self.optimizer, self.optimizer_name = None, None

    def choose_optimizer(self):
        """The fastest of PyTorch's own on this machine. One exists at a time, so that peak memory stays that of training."""
        kinds = dict(fused=dict(fused=True), foreach=dict(foreach=True), plain=dict(foreach=False))
        times = {name: seconds for name, kind in kinds.items() if (seconds := self.time_optimizer(kind))}
        self.optimizer_name = min(times, key=times.get)
        self.optimizer = adamw(self.model, **kinds[self.optimizer_name])

    def time_optimizer(self, kind):
        """Seconds of three steps after one that allocates; None where this PyTorch has no such kind on the CPU."""
        try:
            optimizer = adamw(self.model, **kind)
            optimizer.step()
        except RuntimeError:
            return None
        start = time.perf_counter()
        for _ in range(3):
            optimizer.step()
        return time.perf_counter() - start

    def backward(self):
        text = torch.randint(self.vocab, self.shape)
        loss = self.model(text[:, :-1], text[:, 1:])
        loss.backward()
        return loss, torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)

    def warm_up(self):
        self.backward()
        self.choose_optimizer()
        self.optimizer.zero_grad(set_to_none=True)
        self.step()

    def step(self):
        start = time.perf_counter()
        loss, norm = self.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        loss, norm = loss.item(), norm.item()
        self.steps += 1
        return dict(step=self.steps, ms=(time.perf_counter() - start) * 1e3, loss=loss, grad_norm=norm)


def peak_rss_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", nargs="?", help="a llama's config.json (default: 12 layers, 384 wide, vocabulary 4096)")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    config = DEFAULT
    if options.config:
        with open(options.config) as f:
            config = json.load(f)

    before = peak_rss_bytes()
    trainer = Trainer(config, options.batch, options.seq)
    trainer.warm_up()
    print(json.dumps(dict(ready=True, torch=torch.__version__, threads=options.threads, batch=options.batch,
                          seq=options.seq, params=sum(p.numel() for p in trainer.model.parameters()),
                          optimizer=trainer.optimizer_name, rss_before_bytes=before)), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        if line.strip() == "step":
            print(json.dumps(trainer.step() | dict(peak_rss_bytes=peak_rss_bytes())), flush=True)


if __name__ == "__main__":
    main()

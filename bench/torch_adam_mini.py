"""Adam-mini's own implementation (PyPI: adam-mini) against torch.optim.AdamW, on a job like the README's: snug-tiny's shape,
the bytes of a folder, 4 x 128 tokens a step. Says whether a gap between the two is the method's or ours.

    python3 bench/torch_adam_mini.py adamw|adam-mini LR STEPS FOLDER
"""

import math
import pathlib
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

BATCH, SEQ, WARMUP, BETAS, DECAY = 4, 128, 40, (0.9, 0.95), 0.1


def tokens_of(folder):
    files = sorted(p for p in pathlib.Path(folder).rglob("*.*") if p.is_file())
    return torch.frombuffer(bytearray(b"".join(p.read_bytes() for p in files)), dtype=torch.uint8).long()


def model():
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=256, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=False,
        )
    )  # fmt: skip


def optimizer(kind, net, lr):
    if kind == "adamw":
        return torch.optim.AdamW(net.parameters(), lr=lr, betas=BETAS, weight_decay=DECAY)
    from adam_mini import Adam_mini

    return Adam_mini(
        named_parameters=net.named_parameters(), lr=lr, betas=BETAS, eps=1e-8, weight_decay=DECAY, dim=256, n_heads=4,
        n_kv_heads=2,
    )  # fmt: skip


def main(kind, lr, steps, folder):
    torch.manual_seed(1)
    tokens = tokens_of(folder)
    windows = len(tokens) // SEQ - 1
    held_out = int(windows * 0.95)
    net = model()
    update = optimizer(kind, net, lr)
    order = torch.randperm(held_out).tolist()

    def loss(rows):
        x = torch.stack([tokens[w * SEQ : w * SEQ + SEQ] for w in rows])
        y = torch.stack([tokens[w * SEQ + 1 : w * SEQ + SEQ + 1] for w in rows])
        return F.cross_entropy(net(x).logits.view(-1, 256), y.view(-1))

    for step in range(steps):
        decay = 0.1 + 0.45 * (1 + math.cos(math.pi * max(0, step - WARMUP) / (steps - WARMUP)))
        for group in update.param_groups:
            group["lr"] = lr * min(1, (step + 1) / WARMUP) * decay
        update.zero_grad()
        loss([order[(step * BATCH + j) % held_out] for j in range(BATCH)]).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        update.step()
    with torch.no_grad():
        batches = [[held_out + (b * BATCH + j) % (windows - held_out) for j in range(BATCH)] for b in range(16)]
        print(f"{kind} lr {lr} steps {steps}: held-out loss {sum(loss(b).item() for b in batches) / 16:.4f}")


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4])

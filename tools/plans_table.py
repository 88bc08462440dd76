#!/usr/bin/env python3
"""The table of docs/fine-tune.md: which models can be fine-tuned on which cards, and how fast.

    tools/plans_table.py [SNUG]     # build/snug; prints Markdown

Each cell is one plan inside the card's memory (`snug plan MODEL --gpu CARD ...`), 8 sequences of 1024 tokens a step, the
micro-batch open: modelled tokens/s, and the host memory that the plan uses where it uses some.
"""
import concurrent.futures
import json
import os
import subprocess
import sys

MODELS = ["qwen2.5-7b", "qwen3-8b", "qwen3-14b", "qwen3-32b", "llama3-70b"]
CARDS = ["rtx4060", "rtx4080", "rtx4090", "h100"]
MOST_HOST = 256  # GiB: more than that is no answer for one card
METHODS = {
    "full, AdamW": [],
    "LoRA r=16": ["--lora", "r=16"],
    "QLoRA nf4 r=16": ["--lora", "r=16", "--base-dtype", "nf4"],
}


def cell(snug, model, card, options):
    command = [snug, "plan", model, "--gpu", card, "--batch", "8", "--seq", "1024", "--host-budget", f"{MOST_HOST}GiB",
               "--json", *options]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        plan = json.loads(ran.stdout)
    except json.JSONDecodeError:
        return "-"
    if not plan["fits"]:
        return "-"
    host = plan["host_bytes"] / 2**30
    return f"{plan['tokens_per_s']:,.0f}" + (f" ({host:,.0f} GiB)" if host >= 0.5 else "")


def main():
    snug = sys.argv[1] if len(sys.argv) > 1 else "build/snug"
    jobs = [(model, name, card) for model in MODELS for name in METHODS for card in CARDS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        cells = dict(zip(jobs, pool.map(lambda j: cell(snug, j[0], j[2], METHODS[j[1]]), jobs)))
    print("| model | method | " + " | ".join(CARDS) + " |")
    print("| --- | --- |" + " ---: |" * len(CARDS))
    for model in MODELS:
        for name in METHODS:
            print(f"| {model} | {name} | " + " | ".join(cells[model, name, card] for card in CARDS) + " |")


if __name__ == "__main__":
    main()

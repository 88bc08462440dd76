#!/usr/bin/env python3
"""The cost of checkpoints for a training that continues meanwhile.

  bench/saves.py DIR [--snug build/snug] [--every 20] [--saves 3] [WORDS...]

Trains with WORDS (the 1.5B with bf16 state on a GPU, 64 sequences a step, unless they are given) and saves into DIR every so
many steps. Prints the median step during which a checkpoint is written against that of the others, what the saves cost the
whole run, what the plan said, and how fast they were against a plain file of the same size that is written to DIR afterwards.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

WORDS = ("qwen2.5-1.5b --device cuda --data synthetic --batch 16 --accum 4 --seq 1024 --precision bf16 --master none "
         "--state-dtype bf16 --grad-dtype bf16 --tune short")


def plain_file(folder, size):
    """Bytes per second: written in order, and on the disk."""
    block = memoryview(os.urandom(1 << 24))
    start = time.monotonic()
    with open(folder / "plain", "wb", buffering=0) as f:
        for at in range(0, size, len(block)):
            f.write(block[:min(len(block), size - at)])
        os.fsync(f.fileno())
    seconds = time.monotonic() - start
    (folder / "plain").unlink()
    return size / seconds


def train(command, every):
    """Steps as (number, seconds, whether a checkpoint was being written), saves as (step, seconds), and all that was said."""
    steps, saves, said, saving, done = [], [], [], False, 0
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
        if line.startswith("{"):
            step = json.loads(line)
            if "tokens_per_s" in step:
                seconds = (step["tokens"] - done) / step["tokens_per_s"]
                steps.append((step["step"], seconds, saving))
                done, saving = step["tokens"], saving or step["step"] % every == 0
            continue
        said.append(line.rstrip())
        if found := re.match(r"checkpoint: .*/step-0*(\d+)(?:, .* in ([\d.]+) (ms|s))?", line):
            saving = False
            saves.append((int(found[1]), float(found[2] or 0) / (1e3 if found[3] == "ms" else 1)))
    if process.wait() != 0:
        sys.exit("\n".join(said[-5:]))
    return steps, saves, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", type=Path)
    parser.add_argument("--snug", default="build/snug")
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--saves", type=int, default=3)
    parser.add_argument("words", nargs="*")
    options, more = parser.parse_known_args()
    every = options.every
    options.dir.mkdir(parents=True, exist_ok=True)
    words = options.words + more or WORDS.split()
    command = [options.snug, "train", *words, "--out", str(options.dir / "run"), "--overwrite", "--keep", "1", "--save-every",
               str(every), "--steps", str(every * (options.saves + 1)), "--json"]
    steps, saves, said = train(command, every)
    size = sum(f.stat().st_size for f in (options.dir / "run" / (options.dir / "run/latest").read_text().strip()).iterdir())
    rate = plain_file(options.dir, size)
    print("\n".join(line for line in said if line.startswith("saves") or "of staging" in line))
    for step, seconds, saving in steps:
        print(f"{step}:{1e3 * seconds:.0f}{'*' if saving else ''}", end=" ")
    print("", *(line for line in said if line.startswith(("checkpoint:", "the checkpoint of"))), sep="\n")
    counted = steps[2:]  # the first ones warm up
    during = [t for _, t, saving in counted if saving]
    alone = statistics.median(t for _, t, saving in counted if not saving)
    lost = sum(t for _, t, _ in counted) / (alone * len(counted)) - 1
    took = [t for step, t in saves[:-1] if t > 0]  # the last has the machine to itself
    print(f"a step alone {1e3 * alone:.1f} ms, during a save {1e3 * statistics.median(during):.1f} in the median "
          f"({statistics.median(during) / alone:.3f}), {1e3 * max(during):.1f} at most; the whole run is {100 * lost:.2f} % longer")
    if took:
        print(f"a save of {size / 1e9:.2f} GB: {', '.join(f'{t:.1f}' for t in took)} s, {size / statistics.median(took) / 1e9:.2f} "
              f"GB/s; a plain file of that size {rate / 1e9:.2f} GB/s")


if __name__ == "__main__":
    main()

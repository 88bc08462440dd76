#!/usr/bin/env python3
"""Kills real trainings at random instants and resumes them: is the end the same, to the bit?

  bench/kills.py BINARY [--kills 2000] [--seed 1]

Small models that save after every step, in several ways (during training or not, plain, offloaded to host and disk, 16-bit,
folded updates, several micro-batches). After every kill -9 the directory must have a `latest` whose checkpoint is whole
(`snug checkpoint --verify`), once there was one; when a run has ended, model and last checkpoint must be those of a run that
was not killed.
"""
import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

CONFIG = dict(architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=256, max_position_embeddings=64, hidden_size=24,
              intermediate_size=40, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, hidden_act="silu",
              rms_norm_eps=1e-5, tie_word_embeddings=False)
STEPS = 12
WAYS = ["", "--save-sync", "--offload all", "--offload all --save-sync",
        "--offload optimizer=disk --offload-dir .", "--precision bf16 --optimizer adamw8bit",
        "--accum 2 --offload optimizer --fold-update on", "--precision fp16 --dropout 0.1 --keep 1",
        "--optimizer lion --update-in-backward --clip 0"]


def train(binary, folder, words, seconds=None):
    """Whether it ended by itself."""
    process = subprocess.Popen([binary, "train", *words.split(), "--quiet"], cwd=folder, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    if process.returncode != 0 and "the run is complete" not in err:
        sys.exit(f"{words}: exit {process.returncode}: {err}")
    return True


def end_of(folder):
    last = (folder / "latest").read_text().strip()
    return (folder / "model.safetensors").read_bytes(), (folder / last / "state.safetensors").read_bytes()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--kills", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw, binary = random.Random(options.seed), str(Path(options.binary).resolve())
    kills, ends, before_first, start = 0, 0, 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        here = Path(name)
        (here / "tiny").mkdir()
        (here / "tiny/config.json").write_text(json.dumps(CONFIG))
        (here / "text.txt").write_text("".join(f"the cat sat on mat {i * i}.\n" for i in range(60)))
        run = f"tiny --device cpu --data text.txt --seq 16 --batch 2 --steps {STEPS} --save-every 1 "
        want, takes = {}, {}
        for way in WAYS:
            began = time.monotonic()
            train(binary, here, f"{run} {way} --out whole --overwrite")
            takes[way], want[way] = time.monotonic() - began, end_of(here / "whole")
            shutil.rmtree(here / "whole")
        while kills < options.kills:
            way, saved = draw.choice(WAYS), False
            shutil.rmtree(here / "k", ignore_errors=True)
            while not train(binary, here, "--resume k" if saved else f"{run} {way} --out k --overwrite",
                            draw.uniform(0.01, 0.9 * takes[way])):
                kills += 1
                there = (here / "k/latest").exists()
                if saved and not there:
                    sys.exit(f"{way}: after kill {kills} there is no latest")
                before_first += not there
                saved = there
                if saved:
                    last = here / "k" / (here / "k/latest").read_text().strip()
                    subprocess.run([binary, "checkpoint", str(last), "--verify"], check=True, stdout=subprocess.DEVNULL)
            if end_of(here / "k") != want[way]:
                sys.exit(f"{way}: another end after kill {kills}")
            ends += 1
            if ends % 20 == 0:
                print(f"{kills} kills ({before_first} before a first checkpoint), {ends} runs ended as they should, "
                      f"{time.monotonic() - start:.0f} s", flush=True)
    print(f"{kills} kills ({before_first} before a first checkpoint) in {len(WAYS)} ways: {ends} runs ended with the bits of a "
          f"run that was not killed; every latest was whole")


if __name__ == "__main__":
    main()

"""Settings for compare_behaviour.py: command lines of `snug plan` and `snug train`, drawn from a seed.

A setting is a list of words behind the verb. Setting number i of a seed is always the same one. Paths are relative to
the repository's root.
"""

import random
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# name: layers, sequences of a micro-batch, tokens of a sequence. Sizes that are planned in well under a second.
MODELS = {
    "gpt2": {
        "gpt2": (12, [2, 4, 8], [256, 512, 1024]),
        "gpt2-medium": (24, [2, 4], [512]),
        "tests/parity/gpt2": (2, [1, 2, 4], [8, 16, 32]),
        "examples/gpt-1.4b": (24, [1, 2], [512]),
    },
    "llama": {
        "snug-tiny": (6, [2, 4, 8], [64, 256, 1024]),
        "llama-7b:512x8": (8, [2, 4, 8], [256, 1024]),
        "tests/parity/llama": (2, [1, 2, 4], [8, 16, 31]),
    },
    "qwen2": {
        "qwen2.5-0.5b": (24, [1, 2, 4], [512, 1024]),
        "qwen2.5-1.5b:512x6": (6, [2, 4, 8], [256, 1024]),
        "tests/parity/qwen2": (2, [1, 2, 4], [8, 16, 27]),
    },
    "mistral": {
        "mistral-7b:1024x8": (8, [2, 4, 8], [256, 1024]),
        "tests/parity/mistral": (2, [1, 2, 4], [8, 16, 25]),
    },
    "bert": {
        "bert-base": (12, [4, 8, 16], [128, 512]),
        "bert-base:512x6": (6, [4, 8, 16], [128, 512]),
        "examples/encoder": (12, [4, 8, 32], [128, 512]),
        "tests/parity/bert": (2, [1, 2, 4], [8, 16, 20]),
    },
    "mlp": {
        "mlp:64x4": (4, [16, 64, 256], [1]),
        "mlp:1024x12": (12, [64, 1024, 8192], [1]),
        "mlp:4096x48": (48, [128, 4096], [1]),
    },
}

# Small enough to train three steps of in a second or two: family's model, layers, batch, seq.
TRAINED = {
    "gpt2": [("tests/parity/gpt2", 2, [1, 2, 4], [8, 16, 32])],
    "llama": [("tests/parity/llama", 2, [1, 2, 4], [8, 16, 31]), ("snug-tiny:128x3", 3, [2, 4], [32, 64])],
    "qwen2": [("tests/parity/qwen2", 2, [1, 2, 4], [8, 16, 27])],
    "mistral": [("tests/parity/mistral", 2, [1, 2, 4], [8, 16, 25])],
    "bert": [("tests/parity/bert", 2, [2, 4], [8, 16, 20])],
    "mlp": [("mlp:24x3", 3, [4, 8], [1]), ("mlp:64x4", 4, [4, 16], [1])],
}

GPUS = ["rtx3090", "rtx4090", "rtx5090", "l4", "a10", "a100-40", "a100-80", "h100", "h200", "v100-16"]
FRACTIONS = [0.35, 0.5, 0.75, 0.75, 0.9, 0.9]  # of what is needed without a budget; the small ones often do not fit

# What must be refused, or does not fit: words behind a sound setting.
SPOILERS = [
    ["--precision", "fp8"],
    ["--batch", "0"],
    ["--attention", "chunked:0"],
    ["--recompute", "every:0"],
    ["--recompute", "ratio:2"],
    ["--optimizer", "adamw8bit", "--state-dtype", "bf16"],
    ["--update-in-backward", "--clip", "1"],
    ["--precision", "bf16", "--grad-dtype", "fp16"],
    ["--batch", "4", "--global-batch", "8", "--accum", "3"],
    ["--budget", "96KiB"],
    ["--budget", "lots"],
    ["--gpu", "voodoo2"],
    ["--seq", "1000000"],
    ["--allow", "everything"],
    ["--bacth", "4"],
]


def fixed_settings():
    """What is compared whatever the seed: every model of tests/parity as it stands, and every recipe of examples."""
    parity = sorted((ROOT / "tests/parity").glob("*/config.json"))
    recipes = sorted((ROOT / "examples").glob("*/*.toml"))
    return [[str(path.parent.relative_to(ROOT))] for path in parity] + [
        ["--config", str(path.relative_to(ROOT))] for path in recipes
    ]


def recompute_words(rng, layers):
    """One form of --recompute that needs no number of bytes."""
    last = layers - 1
    some = sorted(rng.sample(range(layers), min(layers, 2)))
    return rng.choice(
        ["none", "full", "every:2", "every:3", "sqrt", "ratio:0.3", "ratio:0.75", "attention"]
        + [f"list:{some[0]}", "list:" + ",".join(map(str, some)), f"list:0-{last}"]
    )


def technique_words(rng, layers, pinned, cuda):
    """Settings of a recipe that do not contradict each other; each is given with probability `pinned`, or left open."""
    words = []

    def maybe(option, choices, chance=pinned):
        if rng.random() >= chance:
            return None
        choice = rng.choice(choices)
        words.extend([option, choice])
        return choice

    precision = maybe("--precision", ["fp32", "bf16", "bf16", "fp16"]) or "fp32"
    loss_scale = None
    if precision != "fp32":
        maybe("--master", ["fp32", "none"])
        maybe("--grad-dtype", ["auto", "fp32", precision])
    if precision == "fp16":
        loss_scale = maybe("--loss-scale", ["dynamic:256", "512", "none"])
    optimizer = maybe("--optimizer", ["adamw", "adamw8bit", "adam-mini", "lion", "sgd"])
    if optimizer == "sgd":
        maybe("--momentum", ["0", "0.9"])
    if optimizer != "adamw8bit":
        maybe("--state-dtype", ["fp32", "bf16"])
    maybe("--attention", ["standard", "chunked", "chunked:7", "chunked:64", "flash"])
    maybe("--loss", ["whole", "chunked", "chunked:48", "chunked:512"])
    maybe("--compress", ["none", "int8"])
    maybe("--recompute", [recompute_words(rng, layers)])
    maybe("--dropout", ["0", "0.1"], 0.3)
    if precision != "fp16" or loss_scale in ("512", "none"):
        if rng.random() < 0.25:
            words.extend(["--update-in-backward", "--clip", "0"])
    if cuda and rng.random() < 0.3:
        words.append("--tf32")
    if cuda and rng.random() < 0.2:
        words.append("--deterministic")
    return words


def size_words(rng, batches, seqs):
    """Micro-batch, sequence and sequences of a step."""
    batch = rng.choice(batches)
    words = ["--batch", str(batch), "--seq", str(rng.choice(seqs))]
    split = rng.random()
    if split < 0.3:
        words += ["--accum", str(rng.choice([1, 2, 3]))]
    elif split < 0.5:
        words += ["--global-batch", str(batch * rng.choice([1, 2, 3]) + rng.choice([0, 1]))]
    return words


def allow_words(rng):
    return ["--allow", rng.choice(["optimizer", "precision", "compress", "optimizer,precision", "all"])]


def plan_setting(seed, number, arena_of):
    """One drawn setting of `plan`. arena_of(words): the bytes (arena, context) of that plan, or None where it is refused."""
    rng = random.Random(f"plan/{seed}/{number}")
    model, (layers, batches, seqs) = rng.choice(list(rng.choice(list(MODELS.values())).items()))
    device = rng.choice(["cpu", "cpu", "null", "cuda", "gpu", "gpu"])
    budgeted = rng.random() < 0.6
    words = [model, *size_words(rng, batches, seqs)]
    words += technique_words(rng, layers, 0.25 if budgeted or device == "gpu" else 0.5, device in ("cuda", "gpu"))
    place = ["--device", "cuda" if device == "gpu" else device] if device != "cpu" else []
    settled = ["--gpu", rng.choice(GPUS)] if device == "gpu" else place
    fraction = rng.choice(FRACTIONS)
    whole = arena_of(words + place) if budgeted else None
    if whole:
        arena, context = whole
        if rng.random() < 0.2:
            settled = [*settled, "--recompute", f"auto:{int(arena * fraction)}"]
        else:
            settled = [*settled, "--budget", str(int(arena * fraction) + context)]
    if ("--budget" in settled or "--gpu" in settled) and rng.random() < 0.3 and "--recompute" not in settled:
        settled = settled + allow_words(rng)
    spoiler = rng.choice(SPOILERS) if rng.random() < 0.08 else []
    return words + settled + spoiler


def train_setting(seed, number):
    """One drawn setting of `train`: three steps on the CPU. The family goes round, so that a few cover them all."""
    rng = random.Random(f"train/{seed}/{number}")
    families = list(TRAINED)
    model, layers, batches, seqs = rng.choice(TRAINED[families[number % len(families)]])
    words = [model, *size_words(rng, batches, seqs), *technique_words(rng, layers, 0.5, False)]
    if model.startswith("tests/"):
        words += ["--init", rng.choice(["scratch", "load"])]
    words += ["--lr-schedule", rng.choice(["constant", "cosine", "linear", "wsd"]), "--lr", rng.choice(["1e-3", "1e-4"])]
    words += ["--data", "synthetic", "--steps", "3", "--seed", str(rng.randrange(1, 100))]
    return words

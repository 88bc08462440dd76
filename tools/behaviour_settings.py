"""Settings for compare_behaviour.py: command lines of snug, drawn from a seed.

A setting is a list of words after the verb. Setting number i of a seed is always the same one: kinds of settings and
families go round with the number, so that a few settings have them all. Paths are relative to the repository's root.
"""

import random
from pathlib import Path

from behaviour_techniques import GPUS, lora_words, mesh_words, offload_words, order_words, rank_words
from behaviour_techniques import technique_words

ROOT = Path(__file__).resolve().parent.parent

# Family, as `snug models` calls it: name: layers, sequences of a micro-batch, tokens of a sequence. Sizes that are
# planned in well under a second.
MODELS = {
    "gpt2": {
        "gpt2": (12, [2, 4, 8], [256, 512, 1024]),
        "gpt2-medium": (24, [2, 4], [512]),
        "gpt2:256x6": (6, [2, 4, 8], [128, 512]),
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
    "qwen3": {
        "qwen3-0.6b:512x4": (4, [2, 4, 8], [128, 512]),
        "tests/parity/qwen3": (2, [1, 2, 4], [8, 16]),
    },
    "mistral": {
        "mistral-7b:1024x8": (8, [2, 4, 8], [256, 1024]),
        "mistral-7b-v0.1:512x4": (4, [1, 2], [512, 4608]),
        "tests/parity/mistral_window": (2, [1, 2, 4], [8, 16]),
    },
    "olmo2": {
        "olmo2-1b:512x6": (6, [2, 4, 8], [128, 512]),
        "tests/parity/olmo2": (2, [1, 2, 4], [8, 16]),
    },
    "phi3": {
        "phi3-mini:384x6": (6, [2, 4, 8], [128, 512]),
        "tests/parity/phi3": (2, [1, 2, 4], [8, 16]),
    },
    "gemma3_text": {
        "gemma3-1b:576x7": (7, [2, 4, 8], [128, 512, 1024]),
        "tests/parity/gemma3": (2, [1, 2, 4], [8, 16]),
    },
    "stablelm": {
        "stablelm-3b:320x6": (6, [2, 4, 8], [128, 512]),
        "stablelm2-1.6b:512x4": (4, [2, 4, 8], [128, 512]),
        "tests/parity/stablelm_parallel": (2, [1, 2, 4], [8, 16]),
    },
    "gpt_neox": {
        "pythia-160m:256x6": (6, [2, 4, 8], [128, 512]),
        "tests/parity/gpt_neox": (2, [1, 2, 4], [8, 16]),
    },
    "opt": {
        "opt-125m:256x6": (6, [2, 4, 8], [128, 512]),
        "tests/parity/opt": (2, [1, 2, 4], [8, 16]),
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
SHALLOW, TINY = 8, 4  # layers, of models whose searches are longer; and of those whose searches are the longest

# Small enough to train some steps of in a second: the parity models, and these.
TRAINED_TOO = {
    "llama": {"snug-tiny:128x3": (3, [2, 4], [32, 64])},
    "mlp": {"mlp:24x3": (3, [4, 8], [1]), "mlp:64x4": (4, [4, 16], [1])},
}

FRACTIONS = [0.35, 0.5, 0.75, 0.75, 0.9, 0.9]  # of what is needed without a budget; the small ones often do not fit

# What must be refused, or does not fit: words after a sound setting.
SPOILERS = [
    ["--precision", "fp8"],
    ["--batch", "0"],
    ["--attention", "chunked:0"],
    ["--recompute", "every:0"],
    ["--recompute", "ratio:2"],
    ["--optimizer", "adamw8bit", "--state-dtype", "bf16"],
    ["--update-in-backward", "--clip", "1"],
    ["--update-in-backward", "--fold-update", "on"],
    ["--precision", "bf16", "--grad-dtype", "fp16"],
    ["--batch", "4", "--global-batch", "8", "--accum", "3"],
    ["--micro-order", "groups:3", "--accum", "2"],
    ["--micro-order", "diagonal"],
    ["--budget", "96KiB"],
    ["--budget", "lots"],
    ["--host-budget", "-1"],
    ["--gpu", "voodoo2"],
    ["--gpu", "v100-16"],
    ["--seq", "1000000"],
    ["--allow", "everything"],
    ["--bacth", "4"],
    ["--mesh", "pp=2,up=2"],
    ["--mesh", "tp=2", "--tp", "3"],
    ["--pp-schedule", "zero-bubble"],
    ["--pp-schedule", "interleaved:1", "--pp", "2"],
    ["--zero", "4"],
    ["--shard", "hybrid:3", "--ranks", "4"],
    ["--lora", "r=0"],
    ["--lora", "r=4,targets=nothing"],
    ["--base-dtype", "nf4"],
    ["--offload", "weights"],
    ["--offload", "optimizer@999"],
    ["--offload-ahead", "99"],
    ["--host-update", "most"],
]


def fixed_settings():
    """What is compared whatever the seed: every model of tests/parity as it is, and every recipe of examples."""
    parity = sorted((ROOT / "tests/parity").glob("*/config.json"))
    recipes = sorted((ROOT / "examples").glob("*/*.toml"))
    return [[str(path.parent.relative_to(ROOT))] for path in parity] + [
        ["--config", str(path.relative_to(ROOT))] for path in recipes
    ]


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


def model_of(rng, number, most_layers=1000):
    """A name, and its layers, batches and seqs: the family goes round with the number."""
    family = list(MODELS.values())[number % len(MODELS)]
    return rng.choice([(name, *sizes) for name, sizes in family.items() if sizes[0] <= most_layers])


def budget_words(rng, plan):
    """A part of what `plan`, which has no limits, takes of each space."""
    words = ["--budget", str(int(plan["arena_bytes"] * rng.choice(FRACTIONS)) + plan["context_bytes"])]
    host = plan.get("spaces", {}).get("host", {}).get("arena_bytes", 0)
    if host > 0 and rng.random() < 0.4:
        words += ["--host-budget", str(int(host * rng.choice([0.5, 1, 2])) + plan["host_context_bytes"])]
    return words


def places(rng, device, count=1):
    """(Where a plan without limits is made, where the setting's is): a GPU by name sets its memory as a budget."""
    place = ["--device", "cuda" if device == "gpu" else device] + (["--ranks", str(count)] if count > 1 else [])
    if device != "gpu":
        return place, place
    return place, ["--gpu", rng.choice(GPUS) + (f"x{count}" if count > 1 else "")]


def one_device(rng, number, plan_of):
    model, layers, batches, seqs = model_of(rng, number)
    device = rng.choice(["cpu", "cpu", "null", "cuda", "gpu", "gpu"])
    budgeted = rng.random() < 0.6
    words = [model, *size_words(rng, batches, seqs)]
    words += technique_words(rng, layers, 0.25 if budgeted or device == "gpu" else 0.5, device in ("cuda", "gpu"))
    words += order_words(rng, words)
    place, settled = places(rng, device)
    plan = plan_of(words + place) if budgeted else None
    if plan and rng.random() < 0.2:
        settled = [*settled, "--recompute", f"auto:{int(plan['arena_bytes'] * rng.choice(FRACTIONS))}"]
    elif plan:
        settled = [*settled, *budget_words(rng, plan)]
    if ("--budget" in settled or "--gpu" in settled) and rng.random() < 0.3 and "--recompute" not in settled:
        settled = settled + allow_words(rng)
    return words + settled


def offload(rng, number, plan_of):
    """Given items in host memory and on disk; or, inside a budget of a GPU, those that the search finds."""
    searched = rng.random() < 0.3
    model, layers, batches, seqs = model_of(rng, number, TINY if searched else SHALLOW)
    device = "gpu" if searched else rng.choice(["cpu", "null", "cuda", "gpu"])
    words = [model, *size_words(rng, batches, seqs)]
    words += technique_words(rng, layers, 0.2, device in ("cuda", "gpu")) + order_words(rng, words)
    moved = [] if searched else offload_words(rng, layers, "/tmp")
    place, settled = places(rng, device)
    plan = plan_of(words + moved + place) if searched or rng.random() < 0.3 else None
    if plan:
        settled = [*settled, *budget_words(rng, plan)]
    if plan and searched and rng.random() < 0.3:
        settled = [*settled, "--offload-dir", "/tmp", "--disk-budget", "64GiB"]
    return words + moved + settled


def lora(rng, number, plan_of):
    model, layers, batches, seqs = model_of(rng, number, SHALLOW)
    device = rng.choice(["cpu", "null", "cuda", "gpu"])
    words = [model, *size_words(rng, batches, seqs), *lora_words(rng)]
    words += technique_words(rng, layers, 0.2, device in ("cuda", "gpu")) + order_words(rng, words)
    if rng.random() < 0.3:
        words += offload_words(rng, layers, "/tmp")
    place, settled = places(rng, device)
    plan = plan_of(words + place) if rng.random() < 0.3 else None
    if plan:
        settled = [*settled, *budget_words(rng, plan), *rng.choice([[], ["--allow", "base"], ["--allow", "all"]])]
    return words + settled


def ranks(rng, number, plan_of):
    """Several ranks that share state and read samples of their own."""
    budgeted = rng.random() < 0.3
    model, layers, batches, seqs = model_of(rng, number, TINY if budgeted else SHALLOW)
    count = rng.choice([2, 4, 8, 16])
    device = rng.choice(["cpu", "null", "cuda", "gpu", "gpu"])
    words = [model, *size_words(rng, batches, seqs), *rank_words(rng, count)]
    words += technique_words(rng, layers, 0.2, device in ("cuda", "gpu")) + order_words(rng, words)
    words += rng.choice([[], [], offload_words(rng, layers, "/tmp"), lora_words(rng)])
    place, settled = places(rng, device, count)
    settled = [*settled, "--mesh", f"dp={count}"]
    plan = plan_of(words + place) if budgeted else None
    return words + settled + (budget_words(rng, plan) if plan else [])


def mesh(rng, number, plan_of):
    """Stages and matrices that ranks share; sometimes the mesh is left to the search."""
    searched = rng.random() < 0.2
    model, layers, batches, seqs = model_of(rng, number, TINY if searched else SHALLOW)
    words = [model, "--batch", str(rng.choice(batches)), "--seq", str(rng.choice(seqs))]
    if searched:
        gpus = f"{rng.choice(GPUS)}x{rng.choice([2, 4])}"
        return [*words, "--gpu", gpus, *rng.choice([[], ["--recompute", "none"], ["--offload", "none"]])]
    axes, count = mesh_words(rng, layers)
    device = rng.choice(["cpu", "null", "cuda", "gpu", "gpu"])
    words += technique_words(rng, layers, 0.2, device in ("cuda", "gpu"))
    words += rng.choice([[], [], offload_words(rng, layers, "/tmp")])
    place, settled = places(rng, device, count)
    plan = plan_of(words + axes + place) if rng.random() < 0.2 else None
    return words + axes + settled + (budget_words(rng, plan) if plan else [])


KINDS = [one_device, offload, lora, one_device, ranks, mesh]


def plan_setting(seed, number, plan_of):
    """One drawn setting of `plan`. plan_of(words): that plan's JSON, or None where it is refused."""
    rng = random.Random(f"plan/{seed}/{number}")
    words = KINDS[number % len(KINDS)](rng, number, plan_of)
    return words + (rng.choice(SPOILERS) if rng.random() < 0.1 else [])


def fit_setting(seed, number, plan_of):
    """One drawn setting of `fit`: a budget in which about the size that was drawn fits, or a GPU."""
    rng = random.Random(f"fit/{seed}/{number}")
    model, layers, batches, seqs = model_of(rng, number, SHALLOW)
    of = ["batch", "seq", "model", "batch"][number % 4]
    words = [model, *size_words(rng, batches, seqs)[:4], *technique_words(rng, layers, 0.15, False)]
    place = rng.choice([[], [], ["--device", "null"], ["--device", "cuda"]])
    plan = plan_of(words + place)
    if plan:
        size = int(plan["arena_bytes"] * rng.choice([0.5, 1.5, 3])) + plan["context_bytes"]
        words += [*place, "--budget", str(size)]
    else:
        words += ["--gpu", rng.choice(GPUS)]
    if rng.random() < 0.3 and of != "model":
        words += lora_words(rng)
    if rng.random() < 0.3:
        words += allow_words(rng)
    return [*words, "--of", of]


def ladder_setting(seed, number):
    """One drawn setting of `ladder --device null`, which follows every byte of every technique and takes no time."""
    rng = random.Random(f"ladder/{seed}/{number}")
    model, _, batches, seqs = model_of(rng, number, TINY)
    words = [model, "--batch", str(rng.choice(batches)), "--seq", str(rng.choice(seqs)), "--device", "null"]
    words += rng.choice([[], ["--steps", "2"], ["--accum", "2"], ["--dropout", "0.1"]])
    return words + rng.choice([[], ["--budget", "64MiB"], ["--lr", "1e-3"]])


def trained_words(rng, number):
    """A small model, and the sizes and techniques of its training; the kind goes round with the number."""
    family = list(MODELS)[number % len(MODELS)]
    small = {name: sizes for name, sizes in MODELS[family].items() if name.startswith("tests/")}
    small |= TRAINED_TOO.get(family, {})
    model, (layers, batches, seqs) = rng.choice(list(small.items()))
    words = [model, *size_words(rng, batches, seqs), *technique_words(rng, layers, 0.4, False)]
    kind = ["plain", "lora", "offload", "accumulated", "ranks"][number % 5]
    if kind == "lora":
        words += lora_words(rng)
    elif kind == "offload":
        words += offload_words(rng, layers, "{work}")
    elif kind == "accumulated" and "--accum" not in words and "--global-batch" not in words:
        words += ["--accum", str(rng.choice([2, 3]))]
    elif kind == "ranks":
        words += rng.choice([["--ranks", "2", *rank_words(rng, 2)], ["--ranks", "2", "--pp", "2"], ["--tp", "2"]])
    if "--pp" not in words:
        words += order_words(rng, words)
    if model.startswith("tests/"):
        words += ["--init", rng.choice(["scratch", "load"])]
    words += ["--lr-schedule", rng.choice(["constant", "cosine", "linear", "wsd"]), "--lr", rng.choice(["1e-3", "1e-4"])]
    return [*words, "--device", "cpu", "--data", "synthetic", "--seed", str(rng.randrange(1, 100))]


def train_setting(seed, number):
    """One drawn setting of `train`: three steps on the CPU."""
    return [*trained_words(random.Random(f"train/{seed}/{number}"), number), "--steps", "3"]


def resume_setting(seed, number):
    """Words of a run of four steps, and words next to its --resume: some change nothing, some are refused."""
    rng = random.Random(f"resume/{seed}/{number}")
    words = trained_words(rng, number)
    more = [[], ["--recompute", "full"], ["--offload", "optimizer,master"], ["--lr", "5"], ["--offload", "none"]]
    more += [["--steps", "5", "--resume-changed"], ["--optimizer", "sgd"], ["--threads", "1"], ["--ranks", "2"]]
    return [*words, "--steps", "4", "--save-every", "2", "--keep", "9"], more[number % len(more)]

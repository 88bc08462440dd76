"""Words of memory techniques for behaviour_settings.py, drawn by a generator of random numbers."""

GPUS = ["rtx3090", "rtx4090", "rtx5090", "l4", "a10", "a100-40", "a100-80", "h100", "h200"]


def recompute_words(rng, layers):
    """One form of --recompute that needs no number of bytes."""
    last = layers - 1
    some = sorted(rng.sample(range(layers), min(layers, 2)))
    return rng.choice(
        ["none", "full", "every:2", "every:3", "sqrt", "ratio:0.3", "ratio:0.75", "attention"]
        + [f"list:{some[0]}", "list:" + ",".join(map(str, some)), f"list:0-{last}", f"layers:{last}=full"]
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
        if rng.random() < pinned / 2:
            words.extend(["--update-in-backward", "--clip", "0"])
    if rng.random() < 0.1:
        words.append("--pack")
    if cuda and rng.random() < 0.3:
        words.append("--tf32")
    if cuda and rng.random() < 0.2:
        words.append("--deterministic")
    return words


def order_words(rng, words):
    """The order of micro-batches, where `words` say that there are several."""
    if "--accum" not in words or rng.random() < 0.4:
        return []
    accum = words[words.index("--accum") + 1]
    return ["--micro-order", rng.choice(["horizontal", "vertical", f"groups:{accum}", "groups:1"])]


def layer_words(rng, layers):
    """Layers as --offload and --host-update name them."""
    last = layers - 1
    return rng.choice(["0", f"0-{last // 2}", f"{last}", f"0+{last}" if last > 1 else "0"])


def offload_words(rng, layers, disk):
    """What is outside the device and where, how far ahead it is fetched, and who updates it. disk: a directory."""
    if rng.random() < 0.2:  # the host updates only what has all of its state there
        host = ["--host-update", rng.choice(["all", "auto", layer_words(rng, layers)])]
        return ["--offload", rng.choice(["optimizer,master", "optimizer,master,grads", "all"]), *host]
    items = rng.sample(["optimizer", "master", "grads", "params", "activations"], rng.choice([1, 1, 2, 3]))
    rules = []
    for item in items:
        where = "@" + layer_words(rng, layers) if rng.random() < 0.3 else ""
        rules.append(item + where + rng.choice(["", "", "", "=host", "=disk"]))
    words = ["--offload", ",".join(rules)]
    if "disk" in words[1]:
        words += ["--offload-dir", disk]
    if rng.random() < 0.4:
        words += ["--offload-ahead", rng.choice("1234")]
    if rng.random() < 0.3:
        words += ["--fold-update", rng.choice(["on", "off"])]
    return words


def lora_words(rng):
    lora = f"r={rng.choice([2, 5, 8, 16])}"
    lora += rng.choice(["", ",alpha=5"]) + rng.choice(["", ",targets=qkvo", ",targets=all"])
    words = ["--lora", lora + rng.choice(["", "", ",dropout=0.1"])]
    return words + (["--base-dtype", rng.choice(["nf4", "int8"])] if rng.random() < 0.4 else [])


def rank_words(rng, count):
    """What `count` ranks share."""
    words = rng.choice([[], ["--zero", rng.choice("0123")], ["--shard", rng.choice(["none", "grad-op", "full"])]])
    if count > 2 and rng.random() < 0.25:
        words = ["--shard", rng.choice(["hybrid:2", f"hybrid:{count // 2}"]), "--zero", rng.choice("123")]
    return words + (["--zero-threshold", rng.choice(["0", "20000"])] if rng.random() < 0.3 else [])


def mesh_words(rng, layers):
    """(axes, schedule, micro-batches and what is shared of a mesh; its ranks)."""
    pp, tp, dp = 1, 1, rng.choice([1, 1, 2])
    while pp * tp == 1:
        pp, tp = rng.choice([1, 2, 4]), rng.choice([1, 1, 2])
    pp = min(pp, layers)
    forms = [["--mesh", f"pp={pp},dp={dp},tp={tp}"], ["--pp", str(pp), "--tp", str(tp)]]
    words = rng.choice(forms)
    if dp > 1 and words[0] == "--mesh" and rng.random() < 0.5:
        words = [*words, "--zero", rng.choice("0123")]
    chunks = 2 if layers >= 2 * pp > 2 and rng.random() < 0.3 else 1
    if pp > 1:
        accum = pp * rng.choice([1, 2]) if chunks > 1 else rng.choice([1, 2, 4, 6])
        words = [*words, "--accum", str(accum)]
        schedule = f"interleaved:{chunks}" if chunks > 1 else rng.choice(["1f1b", "zero-bubble", "auto"])
        words += ["--pp-schedule", schedule]
    return words, pp * tp * dp

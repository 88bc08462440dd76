#!/usr/bin/env python3
"""Conversations as Snug tokenizes them against transformers' apply_chat_template: the same ids.

    bench/chat_agreement.py build/snug FOLDER TEMPLATES [--conversations 200] [--leave-out FILE]

FOLDER holds the packages of bench/tokenizer_agreement.py, TEMPLATES files NAME.jinja with the chat templates of models; a name
begins with the family whose vocabulary and special tokens it goes with (`FAMILIES`). Gemma's vocabulary is in no package:
its tokens are added to Mistral's. Conversations are drawn from a seed, with and without a system message; what Snug refuses is
said, with what the template does there. FILE is what tokenizer_agreement.py --characters --leave-out writes: code points on
which the libraries' Unicode versions differ. Needs `transformers` and `sentencepiece`.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizer_agreement import (LLAMA3, added, from_ranks, mistral, noise, qwen2, reader, scripts, sentence_piece, words)

LLAMA3_SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|reserved_special_token_1|>",
                   "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>", "<|start_header_id|>", "<|end_header_id|>",
                   "<|eom_id|>", "<|eot_id|>"]


def llama3(read):
    return from_ranks(read("llama_models/llama3/tokenizer.model").decode(), LLAMA3, ignore_merges=True, specials=LLAMA3_SPECIALS)


def gemma(read):
    data = mistral(read)
    first = len(data["model"]["vocab"])
    data["added_tokens"] += [added(t, first + i) for i, t in enumerate(["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"])]
    return data


def mistral_v3(read):
    data = sentence_piece("mistral_common/data/mistral_instruct_tokenizer_240323.model.v3", read)
    data["added_tokens"] += [added(t, data["model"]["vocab"][t]) for t in ("[INST]", "[/INST]")]
    return data


# By the beginning of a template's name: the tokenizer, its beginning and end of text.
FAMILIES = {
    "chatml": (qwen2, None, "<|im_end|>"),
    "llama3": (llama3, "<|begin_of_text|>", "<|eot_id|>"),
    "gemma": (gemma, "<bos>", "<eos>"),
    "mistral-v3": (mistral_v3, "<s>", "</s>"),
    "mistral": (mistral, "<s>", "</s>"),
}


def conversations(count, known):
    draw, groups = random.Random(3), scripts(known)

    def text():
        kind = draw.randrange(4)
        if kind == 0:
            return draw.choice(["Hi", " Say it in one word.\n", "\n\nWhy?", "def f(x):\n    return x + 1", "3 + 4 = ", "a\tb  ",
                                "<think>\nhm\n\n</think>\n\nYes.", "<think></think>No", "\n<think>\n\n</think>\n\n\nWell "])
        return noise(draw, draw.randrange(1, 12)) if kind == 1 else words(draw, groups, 1)

    out = []
    for _ in range(count):
        messages = [{"role": "system", "content": text()}] if draw.random() < 0.4 else []
        for _ in range(draw.randrange(1, 4)):
            messages += [{"role": "user", "content": text()}, {"role": "assistant", "content": text()}]
        out.append(messages)
    return out


def write_model(folder, family, template, read):
    make, bos, eos = family
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": eos, "chat_template": template}
    if bos is not None:
        config["bos_token"] = bos
    (folder / "tokenizer.json").write_text(json.dumps({**make(read), "truncation": None, "padding": None}))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def their_ids(tokenizer, messages):
    try:
        return tokenizer.apply_chat_template(messages, tokenize=True, return_dict=False)
    except Exception as refused:  # jinja2's, raised by the template
        return str(refused)


def our_ids(snug, folder, chats):
    """Of all of them; or the sentence by which Snug refuses the first, where it refuses all."""
    data, out = folder / "chats.jsonl", folder / "samples.bin"
    data.write_text("".join(json.dumps({"messages": chat}) + "\n" for chat in chats))
    command = [snug, "tokenize", folder, "--data", data, "-o", out, "--overwrite", "--quiet"]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    return read_samples(out) if ran.returncode == 0 else ran.stderr.strip().splitlines()[0]


def read_samples(path):
    """Negative numbers are tokens that are not learned."""
    data = path.read_bytes()
    assert data[:8] == b"SNUG.SMP"
    width, count = int.from_bytes(data[12:16], "little"), int.from_bytes(data[16:24], "little")
    body = memoryview(data)[64:64 + width * count].cast("h" if width == 2 else "i")
    ids = [~token if token < 0 else token for token in body]
    ends = memoryview(data)[(64 + width * count + 7) // 8 * 8:].cast("q").tolist()
    return [ids[first:last] for first, last in zip([0] + ends, ends)]


def compare_some(what, tokenizer, args, folder, chats):
    """Conversations that either side refuses or takes as a whole."""
    theirs, ours = [their_ids(tokenizer, chat) for chat in chats], our_ids(args.snug, folder, chats)
    refusal = next((answer for answer in theirs if isinstance(answer, str)), None)
    if isinstance(ours, str) or refusal is not None:
        print(f"    {what}: refused here ({ours.split('jsonl', 1)[-1] if isinstance(ours, str) else 'NO'}), "
              f"by the template ({refusal or 'no'})", flush=True)
        return isinstance(ours, str)
    differ = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    print(f"    {what}: {len(chats)} conversations, {sum(map(len, theirs)):,} ids, "
          f"{len(ours)} samples here, {len(differ)} differ", flush=True)
    for i in differ[:1]:
        a, b = ours[i], theirs[i]
        at = next(j for j, (x, y) in enumerate(zip(a + [None], b + [None])) if x != y)
        print(f"      the first: conversation {i}, token {at}: ours {tokenizer.convert_ids_to_tokens(a[at - 2:at + 4])}, "
              f"theirs {tokenizer.convert_ids_to_tokens(b[at - 2:at + 4])}")
    return len(ours) == len(theirs) and not differ


def compare(name, args, chats):
    from transformers import PreTrainedTokenizerFast
    print(name)
    family = next(FAMILIES[key] for key in FAMILIES if name.startswith(key))
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_model(folder, family, (args.templates / f"{name}.jinja").read_text(), reader(args.folder))
        tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
        alone = [chat for chat in chats if chat[0]["role"] == "user"]
        told = [chat for chat in chats if chat[0]["role"] == "system"]
        return (compare_some("without a system message", tokenizer, args, folder, alone) &
                compare_some("with one", tokenizer, args, folder, told))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("templates", type=pathlib.Path)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--leave-out", default="", help="a file of code points, one a line, in hexadecimal")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    import transformers
    print(f"transformers {transformers.__version__}")
    known = {chr(int(line, 16)) for line in pathlib.Path(args.leave_out).read_text().split()} if args.leave_out else set()
    chats = conversations(args.conversations, known)
    names = sorted(path.stem for path in args.templates.glob("*.jinja"))
    fine = [compare(name, args, chats) for name in names if not args.only or name in args.only.split(",")]
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()

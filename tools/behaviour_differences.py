"""What differs between two answers of snug, for compare_behaviour.py, and which differences are intended."""

import json
import re
import sys
from pathlib import Path

SECTIONS = ("program", "words", "new fields", "intended")


class Map:
    """The intended changes: see the comments in compare_behaviour_map.txt."""

    def __init__(self, path):
        self.rules = {name: [] for name in SECTIONS}
        section = None
        for number, line in enumerate(Path(path).read_text().splitlines(), 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("[") and line[1:-1] in SECTIONS:
                section = line[1:-1]
                continue
            parts = re.split(r"\s=>(?:\s+|$)", line, maxsplit=1)
            if section is None or len(parts) != 2:
                sys.exit(f"{path}:{number}: not a section of {SECTIONS} nor a line 'regex => text'")
            self.rules[section].append((re.compile(parts[0], re.MULTILINE), parts[1]))

    def apply(self, section, text):
        for pattern, replacement in self.rules[section]:
            text = pattern.sub(replacement, text)
        return text

    def matching(self, section, text):
        """The text of the first pattern that matches, or None."""
        return next((said for pattern, said in self.rules[section] if pattern.search(text)), None)


def json_differences(old, new, intended, path=""):
    """Field by field; numbers exactly, texts after the map of words."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(k for k in new if k not in old)]:
            at = f"{path}.{key}" if path else key
            if key not in new:
                yield f"{at}: gone"
            elif key not in old:
                if intended.matching("new fields", at) is None:
                    yield f"{at}: new"
            else:
                yield from json_differences(old[key], new[key], intended, at)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries, now {len(new)}"
        for i, (a, b) in enumerate(zip(old, new)):
            yield from json_differences(a, b, intended, f"{path}[{i}]")
    else:
        if isinstance(old, str) and isinstance(new, str):
            old, new = intended.apply("words", old), intended.apply("words", new)
        if type(old) is not type(new) or repr(old) != repr(new):
            yield f"{path}: {old!r}, now {new!r}"


def program_lines(text, intended):
    """One line per op and value, without alignment: a longer name moves columns and line breaks."""
    joined = re.sub(r",\n\s+", ", ", text)
    lines = (" ".join(line.split()) for line in joined.splitlines())
    mapped = intended.apply("program", "\n".join(lines))
    return [line for line in mapped.splitlines() if line.strip()]


def line_differences(old, new, what):
    for i, (a, b) in enumerate(zip(old, new), 1):
        if a != b:
            yield f"{what} {i}: {a!r}, now {b!r}"
            return
    if len(old) != len(new):
        yield f"{what}s: {len(old)}, now {len(new)}"


def said(text, intended):
    return [line for line in intended.apply("words", text).splitlines() if line.strip()]


def text_differences(old, new, intended, what):
    """Messages and files of text, after the map of words."""
    return line_differences(said(old, intended), said(new, intended), what)


def printed_differences(old, new, intended):
    """Of what was printed as JSON."""
    if old and new:
        return json_differences(json.loads(old), json.loads(new), intended)
    return ["it is printed by one of them only"] if old or new else []

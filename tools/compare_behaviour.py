#!/usr/bin/env python3
"""Compares what two snug binaries answer: tools/compare_behaviour.py OLD NEW

Plans: `plan --json --explain` and `plan --program` over drawn settings (families, budgets, recipes, devices), until
--settings of them are plans that fit. Every JSON field, every line of the program and every exit code must be the same.
With --losses, also trains on the CPU and compares losses, norms, learning rates and bytes of every step to the bit.
Changes that are meant stand in compare_behaviour_map.txt. Exit code 1: something differs.
"""

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from behaviour_settings import MODELS, ROOT, TRAINED, fixed_settings, plan_setting, train_setting

SECTIONS = ("program", "words", "new fields", "intended")
TIMES = ("tokens_per_s",)  # of a training: a clock's, not the program's
FITS, DOES_NOT_FIT = 0, 3  # exit codes
SHOWN = 10  # differences that are printed in full


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
        """The text beside the first pattern that matches, or None."""
        return next((beside for pattern, beside in self.rules[section] if pattern.search(text)), None)


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


class Binaries:
    """Runs both binaries in the same surroundings: the repository's root, an empty cache, a fixed number of threads."""

    def __init__(self, old, new, cache):
        self.paths = {"old": os.path.abspath(old), "new": os.path.abspath(new)}
        self.env = dict(os.environ, XDG_CACHE_HOME=cache, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", LC_ALL="C")

    def run(self, which, words):
        command = [self.paths[which], *words]
        try:
            done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return Answer("no answer in 300 s", "", "")
        return Answer(done.returncode, done.stdout, done.stderr)

    def both(self, words):
        return self.run("old", words), self.run("new", words)

    def arena(self, words):
        """(arena, context) in bytes of OLD's plan, or None where it refuses."""
        answer = self.run("old", ["plan", *words, "--json"])
        if answer.code != FITS:
            return None
        plan = json.loads(answer.out)
        return plan["arena_bytes"], plan["context_bytes"]


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
    """One line per op and value, without alignment: a longer name moves columns and breaks lines elsewhere."""
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


def said(answer, intended):
    return [line for line in intended.apply("words", answer.err).splitlines() if line.strip()]


def plan_differences(binaries, words, intended):
    """(OLD's exit code, what differs)."""
    old, new = binaries.both(["plan", *words, "--json", "--explain"])
    found = []
    if old.code != new.code:
        return old.code, [f"exit code: {old.code}, now {new.code}: {new.err.strip()[:300]}"]
    found += line_differences(said(old, intended), said(new, intended), "message line")
    if old.out and new.out:
        found += json_differences(json.loads(old.out), json.loads(new.out), intended)
    elif bool(old.out) != bool(new.out):
        found.append("a plan is printed by one of them only")
    code = old.code
    old, new = binaries.both(["plan", *words, "--program"])
    if old.code != new.code:
        found.append(f"exit code of --program: {old.code}, now {new.code}")
    found += line_differences(program_lines(old.out, intended), program_lines(new.out, intended), "program line")
    return code, found


def train_differences(binaries, words, intended):
    old, new = binaries.both(["train", *words, "--json"])
    if old.code != new.code:
        return old.code, [f"exit code: {old.code}, now {new.code}: {new.err.strip()[:300]}"]
    steps = [[json.loads(line) for line in answer.out.splitlines()] for answer in (old, new)]
    if old.code == FITS and not steps[0]:
        return old.code, ["no step is printed"]
    for step in steps[0] + steps[1]:
        for field in TIMES:
            step.pop(field, None)
    return old.code, list(json_differences(*steps, intended, "steps"))


class Tally:
    """Counts settings, and keeps what differs."""

    def __init__(self, intended):
        self.intended = intended
        self.counts = Counter()
        self.coverage = Counter()
        self.reasons = Counter()
        self.failures = []

    def add(self, verb, words, code, found):
        line = shlex.join(["snug", verb, *words])
        self.counts["compared"] += 1
        self.counts["fits" if code == FITS else "does not fit" if code == DOES_NOT_FIT else "refused"] += 1
        if code == FITS:
            self.coverage[words[0]] += 1
        reason = self.intended.matching("intended", line) if found else None
        if reason is not None:
            self.counts["different as intended"] += 1
            self.reasons[reason] += 1
        elif found:
            self.counts["different"] += 1
            self.failures.append((line, found))
        else:
            self.counts["identical"] += 1

    def table(self, title, families):
        rows = ("compared", "fits", "does not fit", "refused", "identical", "different as intended", "different")
        lines = [title] + [f"  {row:<24}{self.counts[row]:>6}" for row in rows]
        by_family = {family: sum(self.coverage[name] for name in names) for family, names in families.items()}
        by_family["examples"] = self.coverage["--config"]
        lines.append("  done, by family: " + ", ".join(f"{family} {n}" for family, n in by_family.items() if n))
        lines += [f"  intended: {reason} ({n})" for reason, n in self.reasons.items()]
        for line, found in self.failures[:SHOWN]:
            lines.append(f"  {line}")
            lines += [f"      {what[:400]}" for what in found[:3]]
            if len(found) > 3:
                lines.append(f"      and {len(found) - 3} more")
        if len(self.failures) > SHOWN:
            lines.append(f"  and {len(self.failures) - SHOWN} more settings that differ")
        return "\n".join(lines)


def compare_plans(binaries, intended, wanted, seed, pool):
    """Goes through settings, in rounds of a fixed size so that a seed always gives the same ones, until enough fit."""
    fixed = fixed_settings()
    tally = Tally(intended)

    def one(number):
        words = fixed[number] if number < len(fixed) else plan_setting(seed, number, binaries.arena)
        return words, *plan_differences(binaries, words, intended)

    number, most = 0, 4 * wanted
    while tally.counts["fits"] < wanted and number < most:
        numbers = range(number, number + min(16, wanted))
        for words, code, found in pool.map(one, numbers):
            tally.add("plan", words, code, found)
        number = numbers.stop
    return tally


def compare_trainings(binaries, intended, wanted, seed, pool):
    tally = Tally(intended)
    settings = [train_setting(seed, number) for number in range(wanted)]
    answers = pool.map(lambda words: train_differences(binaries, words, intended), settings)
    for words, (code, found) in zip(settings, answers):
        tally.add("train", words, code, found)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--settings", type=int, default=160, help="plans that fit to compare (160)")
    parser.add_argument("--losses", type=int, nargs="?", const=30, default=0, help="trainings to compare (30 if bare)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wording", default=str(ROOT / "tools/compare_behaviour_map.txt"), help="intended changes")
    args = parser.parse_args()
    intended = Map(args.wording)
    print(f"old: {args.old}\nnew: {args.new}\nseed {args.seed}")
    ok = True
    with tempfile.TemporaryDirectory() as cache, ThreadPoolExecutor(args.jobs) as pool:
        binaries = Binaries(args.old, args.new, cache)
        if args.settings > 0:
            plans = compare_plans(binaries, intended, args.settings, args.seed, pool)
            print(plans.table("plans", MODELS))
            if plans.counts["fits"] < args.settings:
                print(f"  too few settings fit: {args.settings} were asked for")
            ok = ok and not plans.failures and plans.counts["fits"] >= args.settings
        if args.losses > 0:
            trainings = compare_trainings(binaries, intended, args.losses, args.seed, pool)
            print(trainings.table("trainings", {f: [m[0] for m in models] for f, models in TRAINED.items()}))
            ok = ok and not trainings.failures
    print("the same" if ok else "NOT the same")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compares what two snug binaries answer: tools/compare_behaviour.py OLD NEW [--settings 40] [--all]

Plans: `plan --json --explain` and `plan --program` over drawn settings (families, budgets, recipes, offload, adapters,
ranks, meshes, devices), until --settings of them are plans that fit. Every JSON field, every line of the program and
every exit code must be the same. --all compares also, for five plans each,
  --losses   trainings on the CPU: losses, norms, learning rates and bytes of every step to the bit, and run.toml
  --fits     `fit` of a batch, a sequence or a model
  --ladders  `ladder --device null`
  --resumes  runs that OLD begins and both continue from copies: losses to the bit, the saved state, run.toml,
             `checkpoint`, and the plan of run.toml
Intended changes are in compare_behaviour_map.txt. Exit code 1: something differs.
"""

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from behaviour_differences import Map, json_differences, line_differences, printed_differences
from behaviour_differences import program_lines, text_differences
from behaviour_settings import MODELS, ROOT, TRAINED_TOO, fit_setting, fixed_settings, ladder_setting
from behaviour_settings import plan_setting, resume_setting, train_setting

TIMES = ("tokens_per_s",)  # of a training: a clock's, not the program's
FITS, DOES_NOT_FIT = 0, 3  # exit codes
SHOWN = 10  # differences that are printed in full
FIXED = 5  # of so many plans one is not drawn, until all of them have been
SAVED = ("model.safetensors", "adapter_model.safetensors", "step-00000004/state.safetensors")


class Answer:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def without(self, folder):
        """The same without the name of a directory that the other binary does not share."""
        return Answer(self.code, *(text.replace(str(folder), "") for text in (self.out, self.err)))


class Binaries:
    """Runs both binaries in the same surroundings: the repository's root, an empty cache, no GPU, two threads."""

    def __init__(self, old, new, work):
        self.paths = {"old": os.path.abspath(old), "new": os.path.abspath(new)}
        self.work = Path(work)
        surroundings = {"XDG_CACHE_HOME": str(self.work / "cache"), "CUDA_VISIBLE_DEVICES": "-1", "LC_ALL": "C"}
        self.env = dict(os.environ, OMP_NUM_THREADS="2", OMP_WAIT_POLICY="passive", **surroundings)

    def folder(self):
        return Path(tempfile.mkdtemp(dir=self.work))

    def run(self, which, words):
        command = [self.paths[which], *words]
        try:
            done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=300)
        except subprocess.TimeoutExpired:
            return Answer("no answer in 300 s", "", "")
        return Answer(done.returncode, done.stdout, done.stderr)

    def both(self, words):
        return self.run("old", words), self.run("new", words)

    def plan(self, words):
        """The JSON of OLD's plan, or None where it refuses."""
        answer = self.run("old", ["plan", *words, "--json"])
        return json.loads(answer.out) if answer.code == FITS else None


def in_any_order(toml):
    """The lines of each table sorted: their order means nothing."""
    tables = toml.split("\n[")
    return "\n[".join("\n".join([table.split("\n")[0], *sorted(table.split("\n")[1:])]) for table in tables)


def code_difference(old, new):
    return [f"exit code: {old.code}, now {new.code}: {new.err.strip()[:300]}"] if old.code != new.code else []


def answer_differences(old, new, intended):
    """Exit code, messages and JSON."""
    if found := code_difference(old, new):
        return found
    found = list(text_differences(old.err, new.err, intended, "message line"))
    return found + list(printed_differences(old.out, new.out, intended))


def plan_differences(binaries, words, intended):
    """(OLD's exit code, what differs), as of every comparison here."""
    old, new = binaries.both(["plan", *words, "--json", "--explain"])
    found = answer_differences(old, new, intended)
    if old.code != new.code:
        return old.code, found
    code = old.code
    old, new = binaries.both(["plan", *words, "--program"])
    if old.code != new.code:
        found.append(f"exit code of --program: {old.code}, now {new.code}")
    found += line_differences(program_lines(old.out, intended), program_lines(new.out, intended), "program line")
    return code, found


def fit_differences(binaries, words, intended):
    old, new = binaries.both(["fit", *words, "--json", "--quiet"])
    return old.code, answer_differences(old, new, intended)


def ladder_differences(binaries, words, intended):
    old, new = binaries.both(["ladder", *words, "--json", "--quiet"])
    return old.code, answer_differences(old, new, intended)


def step_differences(old, new, intended):
    """Of what two trainings printed."""
    if found := code_difference(old, new):
        return found
    if old.code != FITS:
        return list(text_differences(old.err, new.err, intended, "message line"))
    steps = [[json.loads(line) for line in answer.out.splitlines()] for answer in (old, new)]
    if not steps[0]:
        return ["no step is printed"]
    for step in steps[0] + steps[1]:
        for field in TIMES:
            step.pop(field, None)
    return list(json_differences(*steps, intended, "steps"))


def in_folder(words, folder):
    return [word.replace("{work}", str(folder)) for word in words]


def file_of(folder, name):
    path = folder / name
    return path.read_bytes() if path.exists() else None


def run_differences(old, new, intended):
    """Of two directories that trainings have written: the settled recipe, the model and the state."""
    recipes = [(file_of(run, "run.toml") or b"").decode().replace(str(run.parent), "") for run in (old, new)]
    recipes = [in_any_order(recipe) for recipe in recipes]
    found = list(text_differences(*recipes, intended, "run.toml line"))
    return found + [f"{name} differs" for name in SAVED if file_of(old, name) != file_of(new, name)]


def train_differences(binaries, words, intended):
    folders = {which: binaries.folder() for which in ("old", "new")}
    answers = []
    for which, folder in folders.items():
        command = ["train", *in_folder(words, folder), "--json", "--quiet", "--out", str(folder / "run")]
        answers.append(binaries.run(which, command).without(folder))
    found = step_differences(*answers, intended)
    found += run_differences(*(folder / "run" for folder in folders.values()), intended)
    for folder in folders.values():
        shutil.rmtree(folder)
    return answers[0].code, found


def resume_differences(binaries, setting, intended):
    """OLD trains; both go on from a copy of what it saved in the middle, and look at what is there."""
    words, more = setting
    begun = binaries.folder()
    first = binaries.run("old", ["train", *in_folder(words, begun), "--quiet", "--out", str(begun / "run")])
    if first.code != FITS:
        shutil.rmtree(begun)
        return first.code, []
    answers = {}
    folders = {}
    for which in ("old", "new"):
        folders[which] = folder = binaries.folder()
        run = folder / "run"
        shutil.copytree(begun / "run", run)
        going_on = ["train", "--resume", str(run / "step-00000002"), *in_folder(more, folder), "--json", "--quiet"]
        commands = [going_on, ["checkpoint", str(run), "--json"], ["plan", "--config", str(run / "run.toml"), "--json"]]
        answers[which] = [binaries.run(which, command).without(folder) for command in commands]
    old, new = answers["old"], answers["new"]
    found = step_differences(old[0], new[0], intended)
    for i, what in (1, "checkpoint"), (2, "plan of run.toml"):
        found += [f"{what}: {difference}" for difference in answer_differences(old[i], new[i], intended)]
    found += run_differences(folders["old"] / "run", folders["new"] / "run", intended)
    for folder in (begun, *folders.values()):
        shutil.rmtree(folder)
    return old[0].code, found


def catalogue_differences(binaries, intended):
    """Of the lists of models and GPUs; and every family of OLD's models must be drawn."""
    found = []
    for verb in "models", "gpus":
        old, new = binaries.both([verb, "--json"])
        found += [f"{verb}: {difference}" for difference in answer_differences(old, new, intended)]
    families = {model["family"] for model in json.loads(binaries.run("old", ["models", "--json"]).out)}
    return found + [f"no model of the family {family} is drawn" for family in sorted(families - set(MODELS))]


class Tally:
    """Counts settings, and keeps what differs."""

    def __init__(self, intended):
        self.intended = intended
        self.counts = Counter()
        self.models = Counter()
        self.options = Counter()
        self.reasons = Counter()
        self.failures = []

    def add(self, line, words, code, found):
        self.counts["compared"] += 1
        self.counts["fits" if code == FITS else "does not fit" if code == DOES_NOT_FIT else "refused"] += 1
        if code == FITS:
            self.models[words[0]] += 1
            self.options.update({word[2:] for word in words if word.startswith("--")})
        reason = self.intended.matching("intended", line) if found else None
        if reason is not None:
            self.counts["different as intended"] += 1
            self.reasons[reason] += 1
        elif found:
            self.counts["different"] += 1
            self.failures.append((line, found))
        else:
            self.counts["identical"] += 1

    def table(self, title):
        rows = ("compared", "fits", "does not fit", "refused", "identical", "different as intended", "different")
        lines = [title] + [f"  {row:<24}{self.counts[row]:>6}" for row in rows]
        names = {family: {**models, **TRAINED_TOO.get(family, {})} for family, models in MODELS.items()}
        names["examples"] = ["--config"]
        families = {family: sum(self.models[name] for name in names[family]) for family in names}
        families["other"] = self.models.total() - sum(families.values())
        for what, counted in ("family", families), ("option", dict(self.options.most_common())):
            lines.append(f"  done, by {what}: " + ", ".join(f"{name} {n}" for name, n in counted.items() if n))
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
        is_fixed = number % FIXED == 0 and number // FIXED < len(fixed)
        words = fixed[number // FIXED] if is_fixed else plan_setting(seed, number, binaries.plan)
        return words, *plan_differences(binaries, words, intended)

    number, most = 0, 4 * wanted
    while tally.counts["fits"] < wanted and number < most:
        numbers = range(number, number + min(16, wanted))
        for words, code, found in pool.map(one, numbers):
            tally.add(shlex.join(["snug", "plan", *words]), words, code, found)
        number = numbers.stop
    return tally


def compare_all(differences, verb, settings, binaries, intended, pool):
    """Of settings that are all compared, whatever becomes of them."""
    tally = Tally(intended)
    answers = pool.map(lambda setting: differences(binaries, setting, intended), settings)
    for setting, (code, found) in zip(settings, answers):
        words, more = setting if isinstance(setting, tuple) else (setting, [])
        line = shlex.join(["snug", verb, *words]) + (", then --resume " + shlex.join(more) if verb == "resume" else "")
        tally.add(line, [*words, *more], code, found)
    return tally


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--settings", type=int, default=160, help="plans that fit to compare (160)")
    parser.add_argument("--all", action="store_true", help="the others too: one of each for five plans")
    for kind in "losses", "fits", "ladders", "resumes":
        parser.add_argument(f"--{kind}", type=int, nargs="?", const=30, help="so many (30 if bare)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--wording", default=str(ROOT / "tools/compare_behaviour_map.txt"), help="intended changes")
    args = parser.parse_args()
    intended = Map(args.wording)
    print(f"old: {args.old}\nnew: {args.new}\nseed {args.seed}")
    ok = True
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(args.jobs) as pool:
        binaries = Binaries(args.old, args.new, work)
        if args.settings > 0:
            catalogue = catalogue_differences(binaries, intended)
            print(*catalogue, sep="\n", end="\n" if catalogue else "")
            plans = compare_plans(binaries, intended, args.settings, args.seed, pool)
            print(plans.table("plans"), flush=True)
            if plans.counts["fits"] < args.settings:
                print(f"  too few settings fit: {args.settings} were asked for")
            ok = not catalogue and not plans.failures and plans.counts["fits"] >= args.settings
        others = {
            "trainings": (args.losses, train_setting, train_differences, "train"),
            "fits": (args.fits, lambda *key: fit_setting(*key, binaries.plan), fit_differences, "fit"),
            "ladders": (args.ladders, ladder_setting, ladder_differences, "ladder"),
            "resumed runs": (args.resumes, resume_setting, resume_differences, "resume"),
        }
        for title, (asked, setting_of, differences, verb) in others.items():
            wanted = asked if asked is not None else max(1, args.settings // 5) if args.all else 0
            if wanted > 0:
                settings = [setting_of(args.seed, number) for number in range(wanted)]
                tally = compare_all(differences, verb, settings, binaries, intended, pool)
                print(tally.table(title), flush=True)
                ok = ok and not tally.failures
    print("the same" if ok else "NOT the same")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())

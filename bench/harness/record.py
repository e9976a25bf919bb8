"""What was measured, kept: a file for each program in bench/data, from which bench/results.md is made.

A file is a list of measurements. `--write` keeps the new one in their place, `--add` beside them: so many repetitions can be collected in pieces for
which the machine is quiet. A measurement says when, of which commit, by which command and seed it was made, on what machine, with which
MPIs and how much others disturbed it; its rows have a value for each repetition, null where there is none. All measurements of a file are of one
kind of machine: a median over two of them would be of neither."""

import collections
import json
import os
import subprocess

QUICK = "quick"             # the name of what `--quick` keeps: few rows of many programs
KIND = ("cpu", "architecture", "cores_used", "nproc")       # what tells two kinds of machine apart; not the version of a kernel


class OtherMachine(Exception):
    """What was measured here cannot stand beside what is recorded; the message is a sentence for the user."""


def kind(machine):
    return tuple(machine[name] for name in KIND)


def _git(root, *arguments):
    """What it says, or None when it fails."""
    found = subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else None


def commit(root):
    """Of the checkout, and the last one that changed what is measured; with a plus when that is changed and not committed."""
    code = ("--", "src", "maint", "configure.ac", "Makefile.am")
    return {"commit": _git(root, "rev-parse", "--short", "HEAD") or "unknown",
            "code": (_git(root, "log", "-1", "--format=%h", *code) or "unknown") + ("+" if _git(root, "status", "--porcelain", *code) else "")}


def quick_is_older(root, recorded):
    """Whether the quick rows are of older code than one of the tables they repeat, or of code that is not known here: they would contradict it."""
    def codes(measurements):
        return {one["code"].removesuffix("+") for one in measurements}

    quick = recorded.get(QUICK, [])
    tables = codes(one for program in {row["bench"] for one in quick for row in one["rows"]} for one in recorded.get(program, []))
    return any(old != new and _git(root, "merge-base", "--is-ancestor", new, old) is None for old in codes(quick) for new in tables)


def measurement(runs, **about):
    """The rows of these runs, with what else is known about them."""
    rows, repetitions = {}, 1 + max(run["repetition"] for run in runs)
    for run in runs:
        row = rows.setdefault((run["bench"], run["metric"], run["size"], run["ranks"]), {
            "bench": run["bench"], "metric": run["metric"], "size": run["size"], "ranks": run["ranks"], "unit": run["unit"], "values": {}})
        row["values"].setdefault(run["mpi"], [None] * repetitions)[run["repetition"]] = float(f"{run['value']:.4g}")
    return {**about, "rows": list(rows.values())}


def _text(measurements):
    """A row is a line."""
    parts = []
    for one in measurements:
        about = json.dumps({name: value for name, value in one.items() if name != "rows"}, indent=1)
        parts.append(about[:-2] + ',\n "rows": [\n  ' + ",\n  ".join(json.dumps(row) for row in one["rows"]) + "\n ]\n}")
    return "[" + ",\n".join(parts) + "]\n"


def load(folder):
    """{program: its measurements}."""
    found = {}
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                found[name.removesuffix(".json")] = json.load(file)
    return found


def check_machine(folder, program, machine):
    """Raises OtherMachine where repetitions of this machine cannot be added to those that are there."""
    for one in load(folder).get(program, []):
        if kind(one["machine"]) != kind(machine):
            raise OtherMachine(f"what is recorded of '{program}' was measured on another kind of machine ({one['machine']['cpu']}, {one['machine']['architecture']}, "
                               f"{one['machine']['cores_used']} of {one['machine']['nproc']} cores): --add would mix them, --write replaces it")


def keep(folder, program, new, add):
    if add:
        check_machine(folder, program, new["machine"])
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, program + ".json")
    before = load(folder).get(program, []) if add else []
    with open(path + ".new", "w") as file:
        file.write(_text(before + [new]))
    os.replace(path + ".new", path)


def runs(measurements):
    """As they were measured. A repetition is one of a command that ran once, whatever programs it measured; and one of a kind of machine has no
    ratio to one of another kind."""
    found, times = [], collections.Counter()
    for one in measurements:
        session = (kind(one["machine"]), one["command"], one["seed"])
        for bench in {row["bench"] for row in one["rows"]}:
            times[bench, session] += 1
        for row in one["rows"]:
            about = {name: row[name] for name in ("bench", "metric", "size", "ranks", "unit")}
            for mpi, values in row["values"].items():
                found += [{"mpi": mpi, "repetition": (*session, times[row["bench"], session], repetition), "value": value, **about}
                          for repetition, value in enumerate(values) if value is not None]
    return found

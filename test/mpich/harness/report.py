"""What remains of a run: the log of failures, the list of what failed, JUnit XML, and the table in results.md."""

import json
import os
import xml.etree.ElementTree as xml
from collections import Counter, defaultdict

COLUMNS = ("passed", "failed", "xfail", "skipped")


def write_log(path, outcomes, command):
    """The output of every test that did not pass."""
    with open(path, "w") as log:
        for outcome in outcomes:
            if outcome.status in ("failed", "xfail"):
                log.write(f"==== {outcome.test.name}: {outcome.reason} ({outcome.status}, {outcome.seconds:.1f} s)\n"
                          f"$ cd {outcome.test.directory} && {command(outcome.test)}\n{outcome.output}\n")


def write_names(path, outcomes):
    with open(path, "w") as names:
        for outcome in outcomes:
            if outcome.status == "failed":
                names.write(f"{outcome.test.name}  # {outcome.reason}\n")


def write_times(path, outcomes):
    with open(path, "w") as times:
        for outcome in sorted(outcomes, key=lambda o: -o.seconds):
            times.write(f"{outcome.seconds:.2f}\t{outcome.status}\t{outcome.test.name}\n")


def write_junit(path, outcomes):
    status = Counter(o.status for o in outcomes)
    suite = xml.Element("testsuite", name="mpich", tests=str(len(outcomes)), failures=str(status["failed"]),
                        skipped=str(status["skipped"] + status["xfail"]))
    for outcome in outcomes:
        case = xml.SubElement(suite, "testcase", classname=outcome.test.directory.replace("/", "."),
                              name=outcome.test.name, time=f"{outcome.seconds:.3f}")
        if outcome.status == "failed":
            printable = "".join(c if c.isprintable() or c in "\n\t" else "?" for c in outcome.output)
            xml.SubElement(case, "failure", message=outcome.reason).text = printable
        elif outcome.status in ("skipped", "xfail"):
            xml.SubElement(case, "skipped", message=outcome.reason)
    xml.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def write_record(path, outcomes, command, seconds, expected, place=None):
    """All that results_page() needs of a run. `place`: what the page calls it, if it is another one than there."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as out:
        json.dump({"command": command, "seconds": round(seconds), "place": place, "outcomes": [
            {"name": o.test.name, "directory": o.test.directory, "status": o.status, "cause": expected.get(o.test.name) or o.reason}
            for o in outcomes]}, out, indent=0)


def counted(outcomes):
    # An expected failure that passes is a pass, and is named below.
    return Counter("passed" if o["status"] == "unexpected" else o["status"] for o in outcomes)


def cell(count):
    """What a directory has found, the short way where all passed."""
    return ", ".join(str(count[name]) if name == "passed" else f"{count[name]} {name}" for name in COLUMNS if count[name]) or ""


def results_page(records, commit, date):
    """The page about some set-ups, [(title, record)], all run at this commit."""
    lines = ["# MPICH's test suite", "", f"Written by `test/mpich/results` at {commit}, {date}.", "",
             "`xfail`: failures with a known cause, listed in `test/mpich/xfail`, or expected by MPICH's own lists; they run all the same. "
             "`skipped`: tests that need more memory or another language than there was.", "",
             "| set-up | command | " + " | ".join(COLUMNS) + " | minutes |", "|---|---|" + "---:|" * (len(COLUMNS) + 1)]
    for title, record in records:
        total = counted(record["outcomes"])
        lines.append(f"| {title} | `{record['command']}` | " + " | ".join(str(total[name]) for name in COLUMNS) +
                     f" | {(record['seconds'] + 59) // 60} |")
    by_directory = [defaultdict(list) for _ in records]
    for place, (_, record) in zip(by_directory, records):
        for outcome in record["outcomes"]:
            place[outcome["directory"]].append(outcome)
    lines += ["", "| directory, and how many passed | " + " | ".join(title for title, _ in records) + " |", "|---|" + "---:|" * len(records)]
    for directory in sorted({name for place in by_directory for name in place}):
        lines.append(f"| {directory} | " + " | ".join(cell(counted(place[directory])) for place in by_directory) + " |")
    for status, title in (("failed", "Failed"), ("unexpected", "Passed, though they are listed as failures"), ("xfail", "Expected failures")):
        found = defaultdict(list)
        for name, record in records:
            for outcome in record["outcomes"]:
                if outcome["status"] == status:
                    found[outcome["name"], outcome["cause"]].append(name)
        if found:
            lines += ["", f"## {title}", ""]
            lines += [f"- `{name}` ({', '.join(where)}): {cause}" for (name, cause), where in found.items()]
    return "\n".join(lines) + "\n"


def relative(path):
    """Shorter, and free of this machine's directories, when the path is below the current directory."""
    shorter = os.path.relpath(path)
    return path if shorter.startswith("..") else shorter

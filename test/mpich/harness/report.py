"""What remains of a run: the log of failures, the list of what failed, JUnit XML, and the table in results.md."""

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


def write_results(path, outcomes, command, expected):
    counts = defaultdict(Counter)
    for outcome in outcomes:
        # An expected failure that passes is a pass; the summary of the run tells about it.
        counts[outcome.test.directory]["passed" if outcome.status == "unexpected" else outcome.status] += 1
    total = sum(counts.values(), Counter())

    def row(name, count):
        return f"| {name} | " + " | ".join(str(count[column]) for column in COLUMNS) + " |\n"

    with open(path, "w") as out:
        out.write("# MPICH's test suite\n\n"
                  f"Written by `{command} --write`.\n\n"
                  "`xfail`: failures with a known cause, listed in `test/mpich/xfail`. `skipped`: tests that MPICH itself "
                  "expects to fail, or that need more memory than there was.\n\n"
                  f"| directory | {' | '.join(COLUMNS)} |\n|---|" + "---:|" * len(COLUMNS) + "\n")
        for directory in sorted(counts):
            out.write(row(directory, counts[directory]))
        out.write(row("**all**", total))
        for status, title in (("failed", "Failed"), ("xfail", "Expected failures")):
            chosen = [o for o in outcomes if o.status == status]
            if chosen:
                out.write(f"\n## {title}\n\n")
                for outcome in chosen:
                    out.write(f"- `{outcome.test.name}`: {expected.get(outcome.test.name) or outcome.reason}\n")


def relative(path):
    """Shorter, and free of this machine's directories, when the path is below the current directory."""
    shorter = os.path.relpath(path)
    return path if shorter.startswith("..") else shorter

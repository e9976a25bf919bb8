"""The first screen of bench/results.md, and every row that is lost with its reason, as far as one is known.

Reasons are kept by hand in bench/data/reasons.md, a table of four columns: the title of a table, a row of it, sizes, the reason. In the first two * stands for
anything, sizes are `8 B`, `256 KB..`, `..64 B`, `1 KB..64 KB` or, where all are meant, empty; what fits first counts. In tables of times and rates alike a
figure above 1 says here how many times slower ours is."""

import re
from collections import Counter
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .summary import geometric_mean
from .text import markdown_table, number, spread

WORST = 10              # rows on the first screen
NOT_KNOWN = "not looked into"
SURE = (("5 or more", 5, None), ("3 or 4", 3, 4), ("1 or 2", 1, 2))


class WrongReason(Exception):
    """In the table of reasons; the message is a sentence for the user."""


@dataclass
class Lost:
    """A row that the better peer wins."""
    table: str
    label: str
    peer: str
    slowness: float         # None: ours has no result
    quartiles: tuple
    repetitions: int        # in which both have a result
    reason: str

    def cells(self):
        figure = spread(self.slowness, self.quartiles) if self.slowness else "no result"
        return [self.table, self.label, figure, self.peer, str(self.repetitions), self.reason]


HEADINGS = ["Table", "Row", "ours/better", "Better peer", "Repetitions", "Reason"]
TEXT_COLUMNS = (0, 1, 3, 5)


SIZE = re.compile(r"(\d+) (B|KB|MB)")
UNITS = {"B": 1, "KB": 1 << 10, "MB": 1 << 20}


def _sizes(text):
    """The least and the most, of a cell."""
    def size(one, other):
        found = SIZE.fullmatch(one)
        if one and not found:
            raise WrongReason(f"'{text}' are no sizes of a reason: 8 B, 256 KB.., ..64 B and 1 KB..64 KB are")
        return int(found[1]) * UNITS[found[2]] if found else other

    least, dots, most = text.partition("..")
    return size(least, 0), size(most if dots else least, float("inf"))


def read_reasons(text, titles):
    """[(table, row, (least size, most), reason)] of a text in markdown. Raises WrongReason for a table that is none of `titles`, and for sizes in the
    reason, where nothing looks whether they fit."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines() if line.startswith("|")][2:]
    for row in rows:
        if len(row) != 4:
            raise WrongReason(f"a reason has a table, a row, sizes and a text, not {row}")
        if SIZE.match(row[3]):
            raise WrongReason(f"the sizes of a reason stand in their column, not at the beginning of '{row[3]}'")
        if not any(fnmatchcase(title, row[0]) for title in titles):
            raise WrongReason(f"there is no table '{row[0]}' for which a reason is given")
    return [(table, row, _sizes(sizes), reason) for table, row, sizes, reason in rows]


def _reason(reasons, title, label, size):
    return next((reason for table, row, (least, most), reason in reasons if fnmatchcase(title, table) and fnmatchcase(label, row) and least <= size <= most), NOT_KNOWN)


def _turned(summary, key, peer):
    ratio, quartiles = summary.ratio("ours", peer, key), summary.ratio_quartiles("ours", peer, key)
    if ratio and summary.higher_is_better(key):
        return 1 / ratio, (1 / quartiles[1], 1 / quartiles[0])
    return ratio, quartiles


def lost_rows(summary, tables, reasons):
    found = []
    for table in tables:
        for key in table.keys:
            peer = summary.better_peer(key)
            if summary.verdict(key, peer) == "lost":
                label = table.section.label(key)
                found.append(Lost(table.title, label, peer, *_turned(summary, key, peer), summary.compared(key, peer),
                                  _reason(reasons, table.section.title, label, key[2])))
    return found


def not_run(jobs, keys):
    """What there is no row of, among the programs of these jobs and the numbers of ranks that they run on."""
    there = {(key[0], key[3]) for key in keys}
    missing = []
    for program in dict.fromkeys(job.program for job in jobs):
        wanted = dict.fromkeys(job.ranks for job in jobs if job.program == program)
        gone = [ranks for ranks in wanted if (program, ranks) not in there]
        missing += [f"`{program}`"] if len(gone) == len(wanted) else [f"`{program}`, {ranks} ranks" for ranks in gone]
    return missing


def _place_row(title, tables, mean):
    """Places have nothing in common that a mean over all of them could be of."""
    counts = sum((table.counts.get("better", Counter()) for table in tables), Counter())
    return [title, str(sum(len(table.keys) for table in tables)), *(str(counts[verdict]) for verdict in ("won", "noise", "lost")),
            number(geometric_mean([value for table in tables for value in table.slowness])) if mean else "-"]


def in_short(summary, tables, lost, names, missing, bars, machines):
    """`names` are the titles of the peers, `machines` texts, of those that have a counted row; `missing` what not_run() found, `bars` a sentence."""
    places = dict.fromkeys(table.place for table in tables)
    rows = [_place_row(place, [table for table in tables if table.place == place], True) for place in places] + [_place_row("**all**", tables, False)]
    counts = [summary.compared(key, summary.better_peer(key)) for table in tables for key in table.keys]
    sure = ", ".join(f"{sum(least <= count <= (most or count) for count in counts)} have {name}" for name, least, most in SURE)
    lines = ["## In short", "",
             f"MPICH-Composite (`ours`) against the better of {', '.join(names)}, row by row in the same runs, on {' and on '.join(machines)}. "
             "Won and lost are by more than chance; a mean below 1 says that ours takes less time. With more ranks than cores sleeping is compared with spinning.", "",
             markdown_table(["Place", "Rows", "Won", "Within noise", "Lost", "Mean of ours/better"], rows), "",
             f"How sure: of {len(counts)} rows {sure} repetitions. {bars} "
             + (f"Not run: {'; '.join(missing)}." if missing else "All programs of the harness were run on all their numbers of ranks."), ""]
    if lost:
        worst = sorted(lost, key=lambda row: row.slowness or float("inf"), reverse=True)[:WORST]
        lines += [f"The worst {len(worst)} of {len(lost)} rows that are lost; all are under [Rows lost](#rows-lost). Above 1 ours is slower, also where a rate is measured.", "",
                  markdown_table(HEADINGS, [row.cells() for row in worst], TEXT_COLUMNS), ""]
    return lines


def lost_lines(lost):
    known = sum(row.reason != NOT_KNOWN for row in lost)
    return ["## Rows lost", "", f"All {len(lost)} of them, {known} with a reason (`bench/data/reasons.md`). Above 1 ours is slower, also where a rate is measured.", "",
            markdown_table(HEADINGS, [row.cells() for row in lost], TEXT_COLUMNS), ""] if lost else []

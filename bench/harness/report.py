"""The table on the terminal, and bench/results.md. In both every figure is a ratio first; the times and rates that it comes
from stand beside it."""

from dataclasses import dataclass

from . import bars as bars_module
from .measure import DISTURBED
from .text import markdown_table, number, plain_table, quantity, size_text

INIT_NAMES = {"init": "MPI_Init", "job": "whole job", "rss": "RSS after MPI_Init", "pss": "PSS after MPI_Init",
              "rss_all_pairs": "RSS, all pairs talked", "pss_all_pairs": "PSS, all pairs talked", "hwm": "highest RSS"}


@dataclass(frozen=True)
class Section:
    title: str
    program: str
    wanted: object          # which keys belong here
    label: object           # what the first column says
    note: str = ""
    order: object = None    # sorts the keys; None: as measured


def _size(key):
    return size_text(key[2])


def _put_label(key):
    return f"{size_text(key[2])} {key[1].split('_')[0]}"


def _put_wanted(kind):
    """Time for short puts, bandwidth for long ones: one says what the other says."""
    return lambda key: (key[1] == f"latency_{kind}" and key[2] < 65536) or (key[1] == f"bandwidth_{kind}" and key[2] >= 65536)


SECTIONS = [
    Section("One-way time", "pingpong", lambda key: key[1] == "latency", _size, "Ping-pong between two ranks."),
    Section("Bandwidth", "pingpong", lambda key: key[1] == "bandwidth" and key[2] >= 4096, _size,
            "Message size over the one-way time of the same ping-pong."),
    Section("One-way time with MPI_ANY_SOURCE", "anysource", lambda key: True, _size),
    Section("Message rate", "rate", lambda key: True, _size, "One direction, a window of 64 messages."),
    Section("Bi-directional bandwidth", "bibw", lambda key: True, _size, "Both directions together, a window of 4 messages."),
    Section("Put and flush, memory of MPI_Win_allocate", "put", _put_wanted("allocate"), _put_label),
    Section("Put and flush, memory of the user (MPI_Win_create)", "put", _put_wanted("create"), _put_label),
    Section("Collectives", "coll", lambda key: True,
            lambda key: f"{key[1]}{' ' + size_text(key[2]) if key[2] else ''}, {key[3]} ranks",
            "Time per operation, of the slowest rank. The root of the broadcast moves; 4 KB of the all-to-all is what each "
            "pair exchanges."),
    Section("Start and memory", "init", lambda key: True, lambda key: f"{INIT_NAMES.get(key[1], key[1])}, {key[3]} ranks",
            "MPI_Init in the slowest rank; the whole job is mpiexec from start to end; memory is the mean over the ranks.",
            lambda key: (key[3], list(INIT_NAMES).index(key[1]))),
    Section("A rank blocked in MPI_Recv", "idle", lambda key: True, lambda key: "share of a core"),
]


def _columns(summary, mpis):
    """(heading, function of a key) for each ratio."""
    names = [mpi.name for mpi in mpis]
    peers = [name for name in names if name != "ours"]
    if "ours" not in names:
        return [(f"{peers[0]}/{peers[1]}", lambda key: summary.ratio(peers[0], peers[1], key))] if len(peers) == 2 else []
    columns = [(f"ours/{peer}", lambda key, peer=peer: summary.ratio("ours", peer, key)) for peer in peers]
    if len(peers) > 1:
        columns.insert(0, ("ours/better", lambda key: summary.ratio("ours", summary.better_peer(key), key)))
    return columns


def _section_rows(summary, mpis, section):
    keys = [key for key in summary.keys(section.program) if section.wanted(key)]
    if section.order:
        keys.sort(key=section.order)
    columns = _columns(summary, mpis)
    rows = [[section.label(key)] + [number(ratio(key)) for _, ratio in columns]
            + [quantity(summary.value(mpi.name, key), summary.units[key]) for mpi in mpis] for key in keys]
    headings = [""] + [heading for heading, _ in columns] + [mpi.name for mpi in mpis]
    better = "higher is better" if keys and summary.higher_is_better(keys[0]) else "lower is better"
    if len({summary.higher_is_better(key) for key in keys}) > 1:
        better = "latency: lower is better; bandwidth: higher is better"
    return headings, rows, better


LIMIT_ROWS = [
    # (title, what the MPIs do, what the machine does)
    ("8 B one-way time / core-to-core flag", ("pingpong", "latency", 8, 2), ("limits", "flag", 8, 0)),
    ("64 KB bandwidth / one CMA call", ("pingpong", "bandwidth", 65536, 2), ("limits", "cma", 65536, 0)),
    ("1 MB bandwidth / one CMA call", ("pingpong", "bandwidth", 1 << 20, 2), ("limits", "cma", 1 << 20, 0)),
    ("4 MB bandwidth / one CMA call", ("pingpong", "bandwidth", 4 << 20, 2), ("limits", "cma", 4 << 20, 0)),
    ("1 MB bandwidth / memcpy", ("pingpong", "bandwidth", 1 << 20, 2), ("limits", "memcpy", 1 << 20, 0)),
    ("4 MB bandwidth / memcpy", ("pingpong", "bandwidth", 4 << 20, 2), ("limits", "memcpy", 4 << 20, 0)),
    ("8 ranks' barrier / hand-off between two processes of a core", ("coll", "barrier", 0, 8), ("limits", "handoff", 8, 0)),
]


def _limit_rows(summary, mpis):
    headings = ["", *[f"{mpi.name}/limit" for mpi in mpis], "limit"]
    rows = []
    for title, key, limit_key in LIMIT_ROWS:
        limit = summary.value("machine", limit_key)
        if limit is None or key not in summary.units:
            continue
        values = [summary.value(mpi.name, key) for mpi in mpis]
        ratios = [number(value / limit if value is not None else None) for value in values]
        rows.append([title] + ratios + [quantity(limit, summary.units[limit_key])])
    return headings, rows


def _socket_sentence(summary):
    flag = summary.value("machine", ("limits", "flag", 8, 0))
    parts = []
    for metric, title in (("udp", "UDP"), ("tcp", "TCP"), ("udp_blocking", "UDP, asleep"), ("tcp_blocking", "TCP, asleep")):
        value = summary.value("machine", ("limits", metric, 8, 0))
        if flag and value:
            parts.append(f"{title} {number(value / flag)} ({quantity(value, 'us')})")
    return f"8 B one-way over loopback sockets, in core-to-core flags: {'; '.join(parts)}." if parts else ""


def terminal(summary, mpis, bars):
    parts = []
    for section in SECTIONS:
        headings, rows, better = _section_rows(summary, mpis, section)
        if rows:
            parts.append(f"{section.title} ({better})\n" + plain_table(headings, rows))
    limits = [[f"{key[1]}{' ' + size_text(key[2]) if key[2] else ''}", quantity(summary.value("machine", key), summary.units[key])]
              for key in summary.keys("limits")]
    if limits:
        parts.append("The machine without MPI\n" + plain_table(["", "value"], limits))
    if bars:
        parts.append("Bars\n" + plain_table(bars_module.HEADINGS, [bars_module.row(bar) for bar in bars]) + "\n"
                     + bars_module.counted(bars))
    return "\n\n".join(parts)


def markdown(summary, mpis, bars, machine, repetitions, failures, plots):
    """The text of bench/results.md; `plots` are the paths of the plots relative to it."""
    lines = [
        "# Results of the benchmarks", "",
        "Written by `bench/run --write`, which reproduces all of it; the command under a title reproduces that part. Every "
        "figure is a ratio of medians measured in the same run, in which the MPIs take turns; times and rates stand beside "
        "the ratios for orientation and do not travel to other machines. `ours/better` is against the better of the two "
        "peers.", "",
        f"Machine: {machine['cpu']} ({machine['architecture']}), {machine['cores_used']} of {machine['nproc']} cores used, "
        f"Linux {machine['kernel']}, {machine['compiler']}. {repetitions} repetition{'s' if repetitions != 1 else ''}, "
        f"{machine['date']}. Others took more than {100 * DISTURBED:.0f} % of the cores in {100 * machine['disturbed_runs']:.0f} % of the "
        "runs.", "",
        markdown_table(["Name", "MPI"], [[mpi.name, f"{mpi.title}: {mpi.version()}"] for mpi in mpis], (0, 1)), "",
        "## Bars", "", bars_module.counted(bars), "",
        markdown_table(bars_module.HEADINGS + ["Command"], [bars_module.row(bar) + [f"`{bar.command}`"] for bar in bars],
                       (0, 1, 2, 5, 6)), "",
    ]
    for section in SECTIONS:
        headings, rows, better = _section_rows(summary, mpis, section)
        if not rows:
            continue
        lines += [f"## {section.title}", "", f"`bench/run --only {section.program}`", "",
                  (section.note + " " if section.note else "") + better[0].upper() + better[1:] + ".", "",
                  markdown_table(headings, rows), ""]
        for title, plot in (("One-way time", "latency"), ("Bandwidth", "bandwidth"), ("Collectives", "collectives")):
            if section.title == title and plot + ".svg" in plots:
                lines += [f"![{title}]({plots[plot + '.svg']})", ""]
    headings, rows = _limit_rows(summary, mpis)
    if rows:
        lines += ["## Against the machine", "", "`bench/run --only limits,pingpong,coll`", "",
                  "What the machine does without MPI (`bench/limits.cc`) is 1. Two cores can copy together, so a bandwidth "
                  "above one CMA call is possible.", "", markdown_table(headings, rows), "", _socket_sentence(summary), ""]
    if failures:
        lines += ["## Runs that failed", ""]
        lines += [f"- {failure['mpi']}, {failure['job']}: {failure['reason']}." for failure in failures] + [""]
    return "\n".join(lines)

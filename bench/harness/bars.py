"""The bars: what this implementation must reach. Against the peers a bar is a whole table, in which no row may be lost; against itself, or without
comparison, it is what a requirement names."""

from dataclasses import asdict, dataclass

from .plan import (ALL_OPEN, ALONE, APPLICATION_RANKS, BY_ALL, BY_LEADERS, COC_COLLECTIVES, COC_RANKS, COMPOSITE, CROWD, CSHIFT_RANKS, CSHIFT_SIZES, FUZZY_HOST_RANKS,
                   IN_FLIGHT, LARGE, MCAST_HOST_RANKS, MCAST_MANY, MCAST_SIZES, OPEN, QUEUES, RANKS, SIXTEEN, SIZES, WITHOUT_DATA, loss_variant, mcast_members)
from .summary import NOISE
from .text import number, size_text

CROWDED_RANKS = (8, 16)


@dataclass
class Bar:
    what: str
    against: str
    rule: str
    command: str
    figure: float = None
    low: float = None           # quartiles over the repetitions
    high: float = None
    verdict: str = "not run"    # "met", "missed" or "not run"


def _judge(summary, bar, key, figure, spread, holds):
    """A bar for which all but ours have a result is missed: ours ran and failed."""
    if figure is not None:
        bar.figure = figure
        if spread:
            bar.low, bar.high = spread
        bar.verdict = "met" if holds(figure) else "missed"
    elif key in summary.units and summary.value("ours", key) is None:
        bar.verdict = "missed"
    return bar


def _table_bars(tables):
    """`tables` are of report.tables(): in none of them may a row be lost, or be slower than its slack allows."""
    bars = []
    for table in tables:
        slack = table.section.slack
        if slack:
            worst = max(table.slowness)
            bars.append(Bar(f"{table.title}: slowest of {len(table.keys)} rows", "better peer", f"<= {slack}", table.command, worst,
                            verdict="met" if worst <= slack else "missed"))
        else:
            lost = table.counts["better"]["lost"]
            bars.append(Bar(f"{table.title}: rows lost of {len(table.keys)}", "better peer", "= 0", table.command, lost, verdict="missed" if lost else "met"))
    return bars


def _ratio_bar(summary, what, against, rule, holds, key, other, other_key=None):
    """Ours against one other, or against itself elsewhere."""
    bar = Bar(what, against, rule, f"bench/run --only {','.join(dict.fromkeys([key[0], (other_key or key)[0]]))}")
    _judge(summary, bar, key, summary.ratio("ours", other, key, other_key),
           summary.ratio_quartiles("ours", other, key, other_key), holds)
    if summary.keys(key[0]) and summary.value("ours", key) is None:
        bar.verdict = "missed"      # the program ran, and none of the MPIs has this result
    return bar


def _way_bar(summary, what, against, rule, holds, key, other_key, command):
    """Ours against itself in the same job: if only one of the two is there, or neither and the program ran on as many ranks, ours
    failed."""
    bar = Bar(what, against, rule, command)
    _judge(summary, bar, key, summary.ratio("ours", "ours", key, other_key), summary.ratio_quartiles("ours", "ours", key, other_key),
           holds)
    if bar.figure is None and any(there[3] == key[3] for there in summary.keys(key[0])):
        bar.verdict = "missed"
    return bar


def _size_and_variant(key, what):
    variant = key[1].split(", ", 1)[1]
    return size_text(key[2]) + (f" ({variant})" if variant not in what else "")


def _worst_bar(summary, what, against, rule, holds, worst, pairs, command, where=_size_and_variant):
    """Ours against itself, `pairs` of keys, all of the same program and ranks: the worst of the ratios counts, and none may be
    missing if there are others. `where` says which one it was."""
    bar = Bar(what, against, rule, command)
    ratios = {pair: summary.ratio("ours", "ours", *pair) for pair in pairs}
    there = {pair: ratio for pair, ratio in ratios.items() if ratio is not None}
    if there:
        key, other_key = worst(there, key=there.get)
        bar.what += f", at {where(key, what)}"
        _judge(summary, bar, key, there[key, other_key], summary.ratio_quartiles("ours", "ours", key, other_key), holds)
    program, _, _, ranks = pairs[0][0]
    if len(there) < len(pairs) and any(key[3] == ranks for key in summary.keys(program)):
        bar.verdict = "missed"
    return bar


def _holds(rule):
    """The function of a rule "<= 1.5" or ">= 1.5"."""
    sign, limit = rule.split()
    return (lambda figure: figure <= float(limit)) if sign == "<=" else (lambda figure: figure >= float(limit))


def _rows_bar(summary, what, against, rule, rows, command):
    """Of rows, {label: (key, other, other key)} where None is the better peer and the same key, the worst. Missed when one of them is, or ours failed where
    others have a result; met when all are there and none is; else not run."""
    bar = Bar(what, against, rule, command)
    found, failed, missing = {}, False, []
    for label, (key, other, other_key) in rows.items():
        of = (other or summary.better_peer(key), key, other_key)
        ratio = summary.ratio("ours", *of)
        if ratio is not None:
            found[label] = (ratio, summary.ratio_quartiles("ours", *of))
        elif summary.value(of[0], other_key or key) is not None and summary.value("ours", key) is None and summary.keys(key[0], key[1]):
            failed = True       # but for a metric that the program did not have yet when it ran
        else:
            missing.append(label)
    if found:
        worst = (max if rule.startswith("<") else min)(found, key=lambda label: found[label][0])
        if len(rows) > 1:
            bar.what += f" (worst of {len(found)}: {worst}" + (f"; not run: {', '.join(missing)}" if missing else "") + ")"
        bar.figure, (bar.low, bar.high) = found[worst]
        if not _holds(rule)(bar.figure) or not missing:
            bar.verdict = "met" if _holds(rule)(bar.figure) else "missed"
    if failed:
        bar.verdict = "missed"
    return bar


def _peer_rows(program, metric, sizes, ranks=2):
    return {size_text(size): ((program, metric, size, ranks), None, None) for size in sizes}


def _collectives_bars(summary):
    """Of the table of collectives as a whole."""
    command, bars = "bench/run --only colltable", []
    for name, metrics in (("16 collectives", SIXTEEN), ("bcast and allreduce of written buffers", ("bcast written", "allreduce written"))):
        keys = [("colltable", metric, size, ranks) for ranks in RANKS for metric in metrics for size in ((0,) if metric in WITHOUT_DATA else SIZES["colltable"])]
        ratios = {key: summary.ratio("ours", summary.better_peer(key), key) for key in keys if summary.better_peer(key)}
        ratios = {key: float("inf") if ratio is None else ratio for key, ratio in ratios.items()}       # ours has no result
        worst = max(ratios, key=ratios.get, default=None)
        missing = len(keys) - len(ratios)
        of = f"{name}, {', '.join(map(str, RANKS))} ranks: " + "{}" + f", of {len(ratios)} rows" + (f" ({missing} not run)" if missing else "")
        share, above, mean = [Bar(of.format(what), "better peer", rule, command) for what, rule in (
            ("% at most 1.0", ">= 95"),
            ("above 1.1" + (f" (worst: {worst[1]} {size_text(worst[2])}, {worst[3]} ranks, {number(ratios[worst])})" if worst else ""), "<= 0"), ("mean", "<= 0.7"))]
        bars += [share, above, mean]
        if ratios:
            share.figure = 100 * sum(ratio <= 1 for ratio in ratios.values()) / len(ratios)
            above.figure = sum(ratio > 1.1 for ratio in ratios.values())
            mean.figure = sum(ratios.values()) / len(ratios)
        for bar in (share, above, mean):
            if ratios and (not missing or bar is above and above.figure):
                bar.verdict = "met" if _holds(bar.rule)(bar.figure) else "missed"
    firsts = {f"{metric}{' ' + size_text(size) if size else ''}, {ranks} ranks": (("colltable", f"{metric} first", size, ranks), "ours", ("colltable", f"{metric} later", size, ranks))
              for ranks in RANKS for metric in SIXTEEN for size in ((0,) if metric in WITHOUT_DATA else SIZES["first calls"])}
    return bars + [_rows_bar(summary, "the first call of a collective on a new communicator/a later one", "ours, later", "<= 10", firsts, command)]


def _point_to_point_bars(summary):
    """Whole tables of messages between two ranks."""
    def bar(what, rule, program, rows):
        return _rows_bar(summary, what, "better peer", rule, rows, f"bench/run --only {program}")

    pingpong, rate = SIZES["pingpong"], SIZES["rate"]
    small = ("pingpong", "latency", 8, 2)
    return [
        bar("one-way time, 0 to 64 B", "<= 0.85", "pingpong", _peer_rows("pingpong", "latency", (0, 1, 8, 64))),
        bar("one-way time, 256 B to 1 KB, 4 KB and 8 KB", "<= 0.95", "pingpong", _peer_rows("pingpong", "latency", (256, 512, 1024, 4096, 8192))),
        _rows_bar(summary, "8 B one-way time/core-to-core flag", "the machine", "<= 1.35", {"8 B": (small, "machine", ("limits", "flag", 8, 0))},
                  "bench/run --only pingpong,limits"),
        bar("bandwidth, 16 KB to 4 MB", ">= 1.3", "pingpong", _peer_rows("pingpong", "bandwidth", [size for size in pingpong if size >= 16384])),
        bar("both directions at once, every size", ">= 1.05", "bibw", _peer_rows("bibw", "bandwidth", SIZES["bibw"])),
        bar("message rate, 1 B to 8 KB", ">= 1.2", "rate", _peer_rows("rate", "rate", [size for size in rate if size <= 8192])),
        _rows_bar(summary, "one-way time over SHMEM, every size: any source/named source", "ours, named source", "<= 1.02",
                  {size_text(size): (("anysource", "latency", size, 2), "ours", ("anysource", "named", size, 2)) for size in SIZES["anysource"]},
                  "bench/run --only anysource"),
        bar("strided vectors, 4 KB to 1 MB", "<= 1.0", "strided", _peer_rows("strided", "latency", SIZES["strided"])),
        bar("2 and 4 threads with their own communicators, message rate", ">= 1.5", "threads",
            {f"{threads} threads": (("threads", f"{threads} threads with communicators", 8, 2), None, None) for threads in (2, 4)}),
        _rows_bar(summary, "many posted receives and unexpected messages, time of each/of 100", "ours, 100", "<= 2.0",
                  {f"{most:,} {kind} {order}": (("queues", f"{kind} {order}", most, 2), "ours", ("queues", f"{kind} {order}", 100, 2))
                   for kind, most in QUEUES.items() for order in ("in order", "in reverse")}, "bench/run --only queues"),
        bar("one-way time between hosts, every size", "<= 0.95", "net_pingpong", _peer_rows("net_pingpong", "latency", pingpong)),
        bar("streams between hosts, every size", ">= 1.1", "net_rate", _peer_rows("net_rate", "rate", SIZES["net_rate"])),
        bar("both directions at once between hosts, every size", ">= 1.1", "net_bibw", _peer_rows("net_bibw", "bandwidth", SIZES["bibw"])),
        *(bar(f"{name} between hosts, 2 to 8 ranks", "<= 1.0", program, {f"{ranks} ranks": ((program, "time", 0, ranks), None, None) for ranks in APPLICATION_RANKS[1:]})
          for name, program in (("SOR", "net_sor"), ("Othello", "net_othello"))),
    ]


def _mcast_bars(summary):
    bars = []
    places = [("mcast", ranks, f"{ranks} ranks") for ranks in CROWDED_RANKS]
    for program, ranks, where in [*places, ("net_mcast", MCAST_HOST_RANKS, f"{MCAST_HOST_RANKS} ranks on 4 hosts")]:
        command = "bench/run --only " + (f"mcast --ranks {ranks}" if program == "mcast" else program)

        def pairs(above, below):
            return [tuple((program, f"{way}, {variant}", size, ranks) for way in (above, below))
                    for size in MCAST_SIZES for variant in mcast_members(ranks)]

        bars.append(_worst_bar(summary, f"multicast/bcast, 8 B to 8 MB, {where}", "ours, a ready communicator", "<= 1.1",
                               lambda ratio: ratio <= 1.1, max, pairs("mcast", "bcast"), command))
        if program == "net_mcast":
            everyone = f"{ranks - 1} of {ranks - 1} workers"
            bars.append(_worst_bar(summary, f"multicast/a loop of sends, 8 B to 8 MB, {everyone}, {where}", "ours, sends", "<= 1.0", lambda ratio: ratio <= 1.0, max,
                                   [pair for pair in pairs("mcast", "send") if pair[0][1].endswith(f", {everyone}")], command))
        for metric, what in (("idle_messages", "messages"), ("idle_wakeups", "wake-ups more than without, mean of all rounds")):
            key = (program, metric, 1024, ranks)
            bar = Bar(f"not a member during 1000 multicasts, {where}: {what}", "none", "<= 0", command)
            bars.append(_judge(summary, bar, key, summary.value("ours", key), summary.quartiles("ours", key), lambda count: count <= 0))
    most = MCAST_MANY - 1
    bars.append(_worst_bar(summary, f"the master's time in MPIX_Mcast: {most} members/2 members", "ours, 2 members", "<= 1.1",
                           lambda ratio: ratio <= 1.1, max,
                           [tuple(("mcast", f"master, {members} members", size, MCAST_MANY) for members in (most, 2))
                            for size in (8, 1024)], "bench/run --only mcast"))
    return bars


def _notify_bars(summary):
    bars = []
    for device, bench, suffix, most in (("SHMEM", "notify", "", 0.7), ("UDP", "net_notify", ", UDP", 1.05),
                                        ("UCX", "net_notify", ", UCX", 1.05)):
        for other, name, against, limit in (("send", "send", "ours, MPI_Send", most),
                                            ("put_flush_send", "put, flush and send", "ours, put, flush and send", 0.5)):
            bars.append(_way_bar(summary, f"8 B one-way time over {device}: put and notify/{name}", against, f"<= {limit}",
                                 lambda ratio, limit=limit: ratio <= limit, (bench, "put_notify" + suffix, 8, 2),
                                 (bench, other + suffix, 8, 2), f"bench/run --only {bench}"))
    return bars


def _fuzzy_bars(summary):
    bars = []
    places = [("fuzzy", ranks, f"{ranks} ranks") for ranks in (2, *CROWDED_RANKS)]
    hosts = [("net_fuzzy", ranks, f"{ranks} ranks on 4 hosts") for ranks in FUZZY_HOST_RANKS]
    for program, ranks, where in places + hosts:
        command = "bench/run --only " + (f"fuzzy --ranks {ranks}" if program == "fuzzy" else program)
        start_and_wait, several, barrier, ibarrier, bitmap = [(program, metric, 0, ranks)
                                                              for metric in ("fuzzy", f"fuzzy_{IN_FLIGHT}", "barrier", "ibarrier", "bitmap")]
        bars += [
            _way_bar(summary, f"fuzzy barrier, {where}: start and wait/MPI_Barrier", "ours, MPI_Barrier", "<= 1.1",
                     lambda ratio: ratio <= 1.1, start_and_wait, barrier, command),
            _way_bar(summary, f"fuzzy barrier, {where}: start and wait/MPI_Ibarrier and MPI_Wait", "ours, MPI_Ibarrier", "<= 0.5",
                     lambda ratio: ratio <= 0.5, start_and_wait, ibarrier, command),
            # No more than the barrier of all, but for what cannot be told from chance.
            _rows_bar(summary, f"MPIX_Bitmap_barrier of all ranks/MPI_Barrier, {where}", "ours, MPI_Barrier", f"<= {1 + NOISE}", {"all": (bitmap, "ours", barrier)}, command),
        ]
        if program == "net_fuzzy":      # a rate is one over the time
            bars.append(_way_bar(summary, f"fuzzy barriers a second, {where}: {IN_FLIGHT} in flight/one at a time",
                                 "ours, one at a time", ">= 3", lambda ratio: ratio >= 3, start_and_wait, several, command))
    return bars


def _cshift_bars(summary):
    """The worst of the sizes, in each place."""
    places = [("cshift", "", ranks, f"{ranks} ranks") for ranks in CSHIFT_RANKS]
    hosts = [("net_cshift", f", {device}", 2, f"2 ranks on 2 hosts, {device}") for device in ("UDP", "UCX")]
    return [_worst_bar(summary, f"circular shift, {where}: barrier at the end of an array/no barrier", "ours, no barrier", "<= 1.05",
                       lambda ratio: ratio <= 1.05, max,
                       [tuple((program, mode + suffix, size, ranks) for mode in ("reclaim", "none")) for size in CSHIFT_SIZES],
                       f"bench/run --only {program}", lambda key, what: f"{key[2]} x {key[2]}")
            for program, suffix, ranks, where in places + hosts]


def _network_bars(summary):
    small = ("net_pingpong", "latency", 8, 2)
    crowd, pair = ("net_alltoone", "rate", 1024, CROWD), ("net_alltoone", "rate", 1024, 2)

    def bandwidth(loss):
        return ("net_loss", f"bandwidth, {loss_variant(loss)}", LARGE, 2)

    sockets = ("net_sockets", "udp", 0, CROWD)
    return [
        _ratio_bar(summary, "8 B one-way time between hosts: ours/raw UDP", "raw UDP", "<= 1.2", lambda ratio: ratio <= 1.2,
                   small, "machine", ("net_limits", "udp", 8, 0)),
        _ratio_bar(summary, f"1 KB all-to-one rate, {CROWD} ranks on 4 hosts: ours/one pair", "ours, one pair", ">= 0.5",
                   lambda ratio: ratio >= 0.5, crowd, "ours", pair),
        *(_ratio_bar(summary, f"2 MB bandwidth at {loss} % loss: ours/lossless", "ours, lossless", f">= {least}", _holds(f">= {least}"), bandwidth(loss), "ours", bandwidth(0))
          for loss, least in ((1, 0.6), (5, 0.4), (20, 0.15))),
        _judge(summary, Bar(f"UDP sockets of a process, {CROWD} ranks on 4 hosts", "one socket", "= 1",
                            "bench/run --only net_sockets"), sockets, summary.value("ours", sockets),
               summary.quartiles("ours", sockets), lambda count: count == 1),
    ]


def _composite_bars(summary):
    """Several devices in a job."""
    bars = []
    for device, bench, suffix in (("SHMEM", "anysource", ""), ("UCX", "net_anysource", ", UCX"), ("UDP", "net_anysource", ", UDP")):
        bars.append(_ratio_bar(summary, f"8 B one-way time over {device}: any source/named source", "ours, named source", "<= 1.1",
                               lambda ratio: ratio <= 1.1, (bench, "latency" + suffix, 8, 2), "ours",
                               (bench, "named" + suffix, 8, 2)))
    ranks = {variant: sum(int(host.split(":")[1]) for host in hosts) for variant, (hosts, _) in OPEN.items()}
    bars.append(_ratio_bar(summary, "8 B one-way time over SHMEM: UCX and UDP open/alone", "ours, SHMEM alone", "<= 1.1",
                           lambda ratio: ratio <= 1.1, ("net_all_open", f"latency, {ALL_OPEN}", 8, ranks[ALL_OPEN]), "ours",
                           ("net_all_open", f"latency, {ALONE}", 8, ranks[ALONE])))
    for metric, what in (("init", "MPI_Init"), ("init_last", "MPI_Init from the last rank's call on")):
        bars.append(_ratio_bar(summary, f"{what}, {COC_RANKS} ranks on 12 hosts: ours/mpich", "mpich (TCP)", "< 2",
                               lambda ratio: ratio < 2, ("net_init", f"{metric}, {COMPOSITE}", 0, COC_RANKS), "mpich"))
    for operation in ("barrier", "allreduce", "bcast", "reduce", "allgather"):
        for size in COC_COLLECTIVES[operation]:
            name = operation + (f" {size_text(size)}" if size else "")
            keys = [("net_colltable", f"{operation}, {way}", size, COC_RANKS) for way in (BY_LEADERS, BY_ALL)]
            bars.append(_way_bar(summary, f"{name}, {COC_RANKS} ranks on 12 hosts: by leaders/by all", "ours, by all ranks", "<= 0.6",
                                 lambda ratio: ratio <= 0.6, *keys, "bench/run --only net_colltable"))
    return bars


def _objects_bars(summary):
    def key(metric, size=0, program="objects"):
        return (program, metric, size, 2)

    def bar(what, against, rule, holds, metric, other):
        return _way_bar(summary, what, against, rule, holds, metric, other, f"bench/run --only {metric[0]}")

    def absolute(what, rule, holds, metric):
        return _judge(summary, Bar(what, "-", rule, "bench/run --only objects"), metric, summary.value("ours", metric), summary.quartiles("ours", metric), holds)

    return [
        bar("8 B past message between processes/MPI one-way", "ours, MPI", "<= 2.0", lambda ratio: ratio <= 2.0, key("past", 8), key("mpi_one_way", 8)),
        bar("1 MB past message between processes/MPI one-way", "ours, MPI", "<= 2.0", lambda ratio: ratio <= 2.0, key("past", 1 << 20), key("mpi_one_way", 1 << 20)),
        bar("8 B now/past message", "ours, past", "<= 3.0", lambda ratio: ratio <= 3.0, key("now", 8), key("past", 8)),
        absolute("past message in a process, us", "<= 1", lambda value: value <= 1, key("local_past", 8)),
        bar("past message in a process, 1 MB/8 B", "ours, 8 B", "<= 1.2", lambda ratio: ratio <= 1.2, key("local_past", 1 << 20), key("local_past", 8)),
        absolute("a switch of methods, ns", "<= 50", lambda value: value <= 50, key("switch")),
        absolute("a trap, us", "<= 10", lambda value: value <= 10, key("trap")),
        absolute("memory of an object, B", "< 300", lambda value: value < 300, key("object_bytes")),
        bar("list in four objects: one heap/own heaps", "ours, one heap", ">= 1.15", lambda ratio: ratio >= 1.15,
            key("list_common, two workers", 1000000), key("list_own, two workers", 1000000)),
        bar("8 B past message between hosts/MPI one-way", "ours, MPI", "<= 1.15", lambda ratio: ratio <= 1.15,
            key("past", 8, "net_objects"), key("mpi_one_way", 8, "net_objects")),
    ]


def judge(summary, tables):
    bars = _table_bars(tables)
    key = ("idle", "recv", 0, 2)
    bars.append(_judge(summary, Bar("rank blocked in MPI_Recv: % of a core", "one core", "< 2", "bench/run --only idle"), key,
                       summary.value("ours", key), summary.quartiles("ours", key), lambda percent: percent < 2))
    return (bars + _collectives_bars(summary) + _point_to_point_bars(summary) + _network_bars(summary) + _composite_bars(summary) + _mcast_bars(summary) + _notify_bars(summary)
            + _fuzzy_bars(summary) + _cshift_bars(summary) + _objects_bars(summary))


def as_json(bars):
    return [asdict(bar) for bar in bars]


def counted(bars):
    """One sentence."""
    counts = {verdict: sum(bar.verdict == verdict for bar in bars) for verdict in ("met", "missed", "not run")}
    return f"{counts['met']} bars met, {counts['missed']} missed, {counts['not run']} not run."


def row(bar):
    spread = f"{number(bar.low)} .. {number(bar.high)}" if bar.low is not None else ""
    return [bar.what, bar.against, bar.rule, str(bar.figure) if isinstance(bar.figure, int) else number(bar.figure), spread, bar.verdict]


HEADINGS = ["Bar", "Against", "Rule", "Figure", "Quartiles", "Verdict"]

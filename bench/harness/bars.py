"""The bars: what this implementation must reach. Against the peers a bar is a whole table, in which no row may be lost; against itself, or without
comparison, it is what a requirement names."""

from dataclasses import asdict, dataclass

from .plan import (ALL_OPEN, ALONE, BY_ALL, BY_LEADERS, COC_COLLECTIVES, COC_RANKS, COMPOSITE, CROWD, CSHIFT_RANKS, CSHIFT_SIZES, FUZZY_HOST_RANKS, IN_FLIGHT, LARGE,
                   MCAST_HOST_RANKS, MCAST_MANY, MCAST_SIZES, OPEN, loss_variant, mcast_members)
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
        if table.slack:
            worst = max(table.slowness)
            bars.append(Bar(f"{table.title}: slowest of {len(table.keys)} rows", "better peer", f"<= {table.slack}", table.command, worst,
                            verdict="met" if worst <= table.slack else "missed"))
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
            bars.append(_worst_bar(summary, f"multicast/a loop of sends, 8 B to 8 MB, {where}", "ours, sends", "<= 1.0",
                                   lambda ratio: ratio <= 1.0, max, pairs("mcast", "send"), command))
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
        start_and_wait, several, barrier, ibarrier = [(program, metric, 0, ranks)
                                                      for metric in ("fuzzy", f"fuzzy_{IN_FLIGHT}", "barrier", "ibarrier")]
        bars += [
            _way_bar(summary, f"fuzzy barrier, {where}: start and wait/MPI_Barrier", "ours, MPI_Barrier", "<= 1.1",
                     lambda ratio: ratio <= 1.1, start_and_wait, barrier, command),
            _way_bar(summary, f"fuzzy barrier, {where}: start and wait/MPI_Ibarrier and MPI_Wait", "ours, MPI_Ibarrier", "<= 0.5",
                     lambda ratio: ratio <= 0.5, start_and_wait, ibarrier, command),
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
    lossy, lossless = [("net_loss", f"bandwidth, {loss_variant(loss)}", LARGE, 2) for loss in (1, 0)]
    sockets = ("net_sockets", "udp", 0, CROWD)
    return [
        _ratio_bar(summary, "8 B one-way time between hosts: ours/raw UDP", "raw UDP", "<= 1.3", lambda ratio: ratio <= 1.3,
                   small, "machine", ("net_limits", "udp", 8, 0)),
        _ratio_bar(summary, f"1 KB all-to-one rate, {CROWD} ranks on 4 hosts: ours/one pair", "ours, one pair", ">= 0.5",
                   lambda ratio: ratio >= 0.5, crowd, "ours", pair),
        _ratio_bar(summary, "2 MB bandwidth at 1 % loss: ours/lossless", "ours, lossless", ">= 0.5",
                   lambda ratio: ratio >= 0.5, lossy, "ours", lossless),
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
    return (bars + _network_bars(summary) + _composite_bars(summary) + _mcast_bars(summary) + _notify_bars(summary)
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

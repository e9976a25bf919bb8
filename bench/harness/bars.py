"""The bars: what this implementation must reach, judged from the same run as everything else."""

from dataclasses import asdict, dataclass

from .plan import COLLECTIVES
from .text import number, size_text

COLLECTIVE_SIZES = {"barrier": 0, "allreduce": 8, "bcast": 65536, "alltoall": 4096}
CROWDED_RANKS = (8, 16)
BANDWIDTH_SIZES = tuple(65536 << i for i in range(7))       # 64 KB .. 4 MB


@dataclass
class Bar:
    what: str
    against: str
    rule: str
    command: str
    figure: float = None
    least: float = None         # over the repetitions
    greatest: float = None
    verdict: str = "not run"    # "met", "missed" or "not run"


def _judge(summary, bar, key, figure, spread, holds):
    """A bar for which all but ours have a result is missed: ours ran and failed."""
    if figure is not None:
        bar.figure = figure
        if spread:
            bar.least, bar.greatest = spread
        bar.verdict = "met" if holds(figure) else "missed"
    elif key in summary.units and summary.value("ours", key) is None:
        bar.verdict = "missed"
    return bar


def _against_better_peer(summary, key, what, rule, holds, command):
    better = summary.better_peer(key) if key in summary.units else None
    bar = Bar(what, f"better peer ({better})" if better else "better peer", rule, command)
    if better is None:
        return bar
    return _judge(summary, bar, key, summary.ratio("ours", better, key), summary.ratio_range("ours", better, key), holds)


def judge(summary):
    bars = [_against_better_peer(summary, ("pingpong", "latency", 8, 2), "8 B one-way time: ours/better", "<= 1.5",
                                 lambda ratio: ratio <= 1.5, "bench/run --only pingpong")]
    for size in BANDWIDTH_SIZES:
        bars.append(_against_better_peer(summary, ("pingpong", "bandwidth", size, 2), f"{size_text(size)} bandwidth: ours/better",
                                         ">= 1.0", lambda ratio: ratio >= 1.0, "bench/run --only pingpong"))
    for ranks in CROWDED_RANKS:
        for operation in COLLECTIVES:
            size = COLLECTIVE_SIZES[operation]
            key = ("coll", operation, size, ranks)
            what = f"{operation}{' ' + size_text(size) if size else ''}, {ranks} ranks"
            command = f"bench/run --only coll --ranks {ranks}"
            bars.append(_judge(summary, Bar(what + ": ours/openmpi", "openmpi", "<= 1.0", command), key,
                               summary.ratio("ours", "openmpi", key), summary.ratio_range("ours", "openmpi", key),
                               lambda ratio: ratio <= 1.0))
            bars.append(_judge(summary, Bar(what + ": mpich/ours", "mpich", ">= 100", command), key,
                               summary.ratio("mpich", "ours", key), summary.ratio_range("mpich", "ours", key),
                               lambda ratio: ratio >= 100))
    key = ("idle", "recv", 0, 2)
    bars.append(_judge(summary, Bar("rank blocked in MPI_Recv: % of a core", "one core", "< 2", "bench/run --only idle"), key,
                       summary.value("ours", key), summary.range("ours", key), lambda percent: percent < 2))
    return bars


def as_json(bars):
    return [asdict(bar) for bar in bars]


def counted(bars):
    """One sentence."""
    counts = {verdict: sum(bar.verdict == verdict for bar in bars) for verdict in ("met", "missed", "not run")}
    return f"{counts['met']} bars met, {counts['missed']} missed, {counts['not run']} not run."


def row(bar):
    spread = f"{number(bar.least)} .. {number(bar.greatest)}" if bar.least is not None else ""
    return [bar.what, bar.against, bar.rule, number(bar.figure), spread, bar.verdict]


HEADINGS = ["Bar", "Against", "Rule", "Ratio", "Over the repetitions", "Verdict"]

"""Medians and quartiles over the repetitions, ratios between MPIs, and what a ratio is worth."""

import math
from collections import defaultdict
from statistics import median, quantiles

HIGHER_IS_BETTER = ("GB/s", "msg/s")
# A difference below this is none; with fewer repetitions than JUDGED there are no quartiles to speak of, and it takes more.
NOISE, NOISE_OF_FEW, JUDGED = 0.02, 0.10, 3


def quartiles(values):
    """The first and the third; of a single value that one."""
    values = list(values)
    return tuple(quantiles(values, n=4, method="inclusive")[::2]) if len(values) > 1 else (values[0], values[0])


def geometric_mean(ratios):
    """None of none."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


class Summary:
    """Answers by key (bench, metric, size, ranks); None where there is no result."""

    def __init__(self, runs, peers):
        self.peers = peers
        self.units = {}
        self._values = defaultdict(dict)        # (mpi, key) -> {repetition: value}
        for run in runs:
            key = (run["bench"], run["metric"], run["size"], run["ranks"])
            self.units[key] = run["unit"]
            self._values[run["mpi"], key][run["repetition"]] = run["value"]

    def keys(self, bench=None, metric=None):
        """In the order in which they were first measured."""
        return [key for key in self.units if bench in (None, key[0]) and metric in (None, key[1])]

    def value(self, mpi, key):
        values = self._values.get((mpi, key))
        return median(values.values()) if values else None

    def quartiles(self, mpi, key):
        values = self._values.get((mpi, key))
        return quartiles(values.values()) if values else None

    def repetitions(self, mpi, key):
        return len(self._values.get((mpi, key), ()))

    def higher_is_better(self, key):
        return self.units[key] in HIGHER_IS_BETTER

    def better_peer(self, key):
        """The name of the better of the peers that have a result."""
        there = [peer for peer in self.peers if self.value(peer, key) is not None]
        if not there:
            return None
        best = max if self.higher_is_better(key) else min
        return best(there, key=lambda peer: self.value(peer, key))

    def _ratios(self, mpi, other, key, other_key=None):
        """Of the single repetitions, in which both ran one after the other."""
        above, below = self._values.get((mpi, key), {}), self._values.get((other, other_key or key), {})
        return [above[i] / below[i] for i in above if below.get(i)]

    def ratio(self, mpi, other, key, other_key=None):
        """The median of the ratios of the repetitions. Of the same key unless there is another for the other."""
        ratios = self._ratios(mpi, other, key, other_key)
        return median(ratios) if ratios else None

    def ratio_quartiles(self, mpi, other, key, other_key=None):
        ratios = self._ratios(mpi, other, key, other_key)
        return quartiles(ratios) if ratios else None

    def compared(self, key, peer):
        """How many repetitions have a result of both."""
        return len(self._ratios("ours", peer, key))

    def verdict(self, key, peer):
        """Of ours against a peer: "won" or "lost" when three quarters of the repetitions say so and the difference is more than noise, else
        "noise". One that only the peer has is lost; None when the peer has none."""
        if self.value("ours", key) is None and self.value(peer, key) is not None:
            return "lost"
        ratios = self._ratios("ours", peer, key)
        if not ratios:
            return None
        if self.higher_is_better(key):
            ratios = [1 / ratio for ratio in ratios]
        noise = NOISE if len(ratios) >= JUDGED else NOISE_OF_FEW
        low, high = quartiles(ratios)
        if high < 1 and median(ratios) < 1 - noise:
            return "won"
        return "lost" if low > 1 and median(ratios) > 1 + noise else "noise"

    def medians(self):
        """For the JSON file."""
        return [{"mpi": mpi, "bench": key[0], "metric": key[1], "size": key[2], "ranks": key[3], "unit": self.units[key],
                 "value": self.value(mpi, key), "quartiles": self.quartiles(mpi, key), "repetitions": len(values)}
                for (mpi, key), values in self._values.items()]

"""Medians over the repetitions, and ratios between MPIs."""

from collections import defaultdict
from statistics import median

HIGHER_IS_BETTER = ("GB/s", "msg/s")


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

    def range(self, mpi, key):
        values = self._values.get((mpi, key))
        return (min(values.values()), max(values.values())) if values else None

    def higher_is_better(self, key):
        return self.units[key] in HIGHER_IS_BETTER

    def better_peer(self, key):
        """The name of the better of the peers that have a result."""
        there = [peer for peer in self.peers if self.value(peer, key) is not None]
        if not there:
            return None
        best = max if self.higher_is_better(key) else min
        return best(there, key=lambda peer: self.value(peer, key))

    def ratio(self, mpi, other, key, other_key=None):
        """Of the same key unless there is another for the other."""
        above, below = self.value(mpi, key), self.value(other, other_key or key)
        return above / below if above is not None and below else None

    def ratio_range(self, mpi, other, key, other_key=None):
        """The ratios of the single repetitions, in which both ran one after the other: least and greatest."""
        above, below = self._values.get((mpi, key), {}), self._values.get((other, other_key or key), {})
        ratios = [above[i] / below[i] for i in above if below.get(i)]
        return (min(ratios), max(ratios)) if ratios else None

    def medians(self):
        """For the JSON file."""
        return [{"mpi": mpi, "bench": key[0], "metric": key[1], "size": key[2], "ranks": key[3], "unit": self.units[key],
                 "value": self.value(mpi, key), "least": min(values.values()), "greatest": max(values.values()),
                 "repetitions": len(values)} for (mpi, key), values in self._values.items()]

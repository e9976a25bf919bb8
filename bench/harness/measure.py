"""Runs all jobs, all repetitions. Inside a job the MPIs take turns, so that what disturbs one disturbs the others too, in another
order in each repetition, which a seed decides.

On a machine that others use as well, a run is disturbed: its figures say more about the neighbours. How much CPU time
others took is known for every run (all CPU time of the cores in use less that of our own processes). A job in which others
took more than DISTURBED is run again, all MPIs of it, as long as there is patience left."""

import collections
import os
import random
import sys
import time

from . import launch, machine
from .plan import EXAMPLES

DISTURBED = 0.05            # of the cores in use
TOO_DISTURBED = 0.25        # of the runs: then the figures are not worth keeping

# Debian's MPICH 4.0.2 often hangs in MPI_Finalize over TCP (see https://github.com/pmodels/mpich/pull/6596). Between hosts
# a peer gets this long to end after its last result, and the result counts. Ours has no such excuse.
PEER_FINALIZE_LIMIT_S = 0.5


class Progress:
    """One line that is rewritten on a terminal; one line per repetition elsewhere."""

    def __init__(self, total):
        self._total = total
        self._done = 0
        self._start = time.monotonic()
        self._terminal = sys.stderr.isatty()

    def _elapsed(self):
        seconds = int(time.monotonic() - self._start)
        return f"{seconds // 60}:{seconds % 60:02d}"

    def show(self, text):
        if self._terminal:
            print(f"\r\033[K[{self._done}/{self._total} {self._elapsed()}] {text}", end="", file=sys.stderr, flush=True)

    def done(self):
        self._done += 1

    def say(self, text):
        print(("\r\033[K" if self._terminal else "") + text, file=sys.stderr, flush=True)

    def repetition(self, number, count):
        if not self._terminal:
            self.say(f"[{self._done}/{self._total} {self._elapsed()}] repetition {number} of {count}")

    def finish(self):
        self.say(f"{self._done} jobs in {self._elapsed()} min.")


class Measurement:
    """After run(): `runs` has every result, `failures` every job that failed, `disturbances` the share of the cores that
    others took during each run that counts, `repetitions` how many there were, `seconds` how long each MPI took in each program."""

    def __init__(self, mpis, jobs, clusters, binaries, cores, repetitions, limit, patience, seed=0, within=None):
        self._mpis, self._jobs, self._clusters, self._binaries = mpis, jobs, clusters, binaries
        self._cores, self._repetitions, self._limit = cores, repetitions, limit
        self._random = random.Random(seed)
        self._patience = float(patience)        # seconds left for waiting and for running again
        self._progress = Progress(repetitions * len(jobs))
        self._given_up = set()
        self._within = within                   # seconds for all repetitions; None means as long as it takes
        self.repetitions = 0
        self.seconds = collections.defaultdict(collections.Counter)     # {program: {MPI: seconds}}
        self.runs, self.failures, self.disturbances = [], [], []

    def run(self):
        began = time.monotonic()
        for repetition in range(self._repetitions):
            if repetition and self._too_late(time.monotonic() - began):
                self._progress.say(f"{repetition} repetitions: there is no time for another.")
                break
            self._progress.repetition(repetition + 1, self._repetitions)
            for job in self._jobs:
                title = f"repetition {repetition + 1} of {self._repetitions}: {job}"
                self._await_quiet(title)
                results, shares = self._turns(job, repetition, title)
                while shares and max(shares) > DISTURBED and self._patience > 0:
                    self._await_quiet(title)
                    start = time.monotonic()
                    again, again_shares = self._turns(job, repetition, title + " (again: it was disturbed)")
                    self._patience -= time.monotonic() - start
                    if not again_shares or max(again_shares) < max(shares):
                        results, shares = again, again_shares
                self.runs += results
                self.disturbances += shares
                self._progress.done()
            self.repetitions += 1
        self._progress.finish()

    def _too_late(self, passed):
        """Whether one more repetition, as long as the others were, would end too late."""
        return self._within is not None and passed + passed / self.repetitions > self._within

    def disturbed(self):
        """The share of runs in which others took more than DISTURBED."""
        return sum(share > DISTURBED for share in self.disturbances) / max(1, len(self.disturbances))

    def _await_quiet(self, title):
        while self._patience > 0:
            start = time.monotonic()
            if machine.foreign_load(0.3) <= DISTURBED:
                return
            self._progress.show(title + " (waiting for a quiet machine)")
            self._patience -= time.monotonic() - start

    def _run(self, job, mpi):
        """The lines of one run and the seconds it took. Without an MPI, any mpiexec starts what runs on hosts."""
        command = [os.path.join(self._binaries, *([mpi.name] if mpi else []), job.executable), *job.arguments]
        if job.executable not in EXAMPLES:
            command += ["--limit", str(self._limit)]
        environment = dict(job.environment)
        if mpi and mpi.name != "ours":
            environment.update(job.peer_environment)
        if not job.cluster:
            return launch.run((mpi.launch(job.ranks, self._cores) if mpi else []) + command, self._limit, environment)
        cluster = self._clusters[job.cluster]
        starter = mpi or next(mpi for mpi in self._mpis if mpi.between_hosts is not None)
        command = cluster.launch(starter.launcher, job.hosts) + ["-n", str(job.ranks or len(job.hosts))] + command
        with cluster.losing(job.loss):
            return launch.run(command, self._limit, {**starter.between_hosts, **environment},
                              None if starter.name == "ours" else PEER_FINALIZE_LIMIT_S)

    def _note_failure(self, job, name, repetition, failure):
        record = {"mpi": name, "job": str(job), "reason": str(failure), "messages": failure.messages}
        if failure.complete and any(record.items() <= earlier.items() for earlier in self.failures):
            return      # once is enough
        self.failures.append({**record, "repetition": repetition})
        if not failure.complete:
            self._given_up.add((name, job))
        self._progress.say(f"{job}, {name}: {failure}"
                           + ("." if failure.complete else "; it is not tried again in this run."))
        for message in failure.messages.splitlines()[:5]:
            self._progress.say("    " + message)

    def _turns(self, job, repetition, title):
        """One job, each MPI once: the results, and what others took of the cores during each run."""
        results, shares = [], []
        turns = [mpi for mpi in self._mpis if mpi.runs(job)] if job.ranks else [None]
        self._random.shuffle(turns)
        for mpi in turns:
            name = mpi.name if mpi else "machine"
            if (name, job) in self._given_up:
                continue
            self._progress.show(title + (f", {mpi.title}" if mpi else ""))
            usage, start = machine.Usage(), time.monotonic()
            try:
                lines, seconds = self._run(job, mpi)
            except launch.JobFailure as failure:
                lines, seconds = failure.results, None
                self._note_failure(job, name, repetition, failure)
            shares.append(usage.foreign_share())
            self.seconds[job.program][name] += time.monotonic() - start
            if job.program == "init" and seconds is not None:
                lines.append({"metric": "job", "size": 0, "value": seconds * 1e3, "unit": "ms"})
            for line in lines:
                if "library" in line and mpi:
                    mpi.library = line["library"]
                elif "skipped" in line and repetition == 0:
                    self._progress.say(f"{job.program} {line['metric']} skipped: {line['skipped']}.")
                elif "value" in line:
                    metric = line["metric"] + (f", {job.variant}" if job.variant else "")
                    results.append({"mpi": name, "repetition": repetition, "ranks": job.ranks, **line, "bench": job.program,
                                    "metric": metric, "foreign_share": round(shares[-1], 3)})
        return results, shares

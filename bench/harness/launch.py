"""Runs one job with a time limit and reads its output lines.

The limit holds twice: every program ends itself with an alarm, and here the launcher is asked to end and, if it does not,
killed. Launchers put ranks into process groups and sessions of their own, so each job carries a mark in its environment, and
whatever still has it when the launcher has gone is killed too. Such orphans become children of this process, so that their CPU
time counts as ours."""

import ctypes
import json
import os
import re
import signal
import subprocess
import time

MARK = "MPICH_COMPOSITE_BENCH_JOB"
GRACE_S = 10        # from the limit inside the programs to the signal from here, and from SIGTERM to SIGKILL
REAP_S = 2          # for killed processes to go
LOOK_S = 0.1        # how often a job is looked at that may not end after its last result
PR_SET_CHILD_SUBREAPER = 36

# What a program says when only MPI_Finalize is left: bench.h, and the examples.
FINISHED = re.compile(r'"finished"|: PASS$', re.MULTILINE)
# The time of an example: "sor: 128 x 128 points, 2 ranks, 410 sweeps in 0.084342 s", "jacobi: solved in 0.123 s; checking".
EXAMPLE_TIME = re.compile(r"\w+: .* in ([0-9.]+) s(; checking)?")
# The times of an example with several ways: "cshift: reclaim, 256 x 256 points, 2 ranks, 6.5473 us".
EXAMPLE_WAY = re.compile(r"\w+: (\w+), (\d+) x \d+ points, \d+ ranks?, ([0-9.]+) us")


class JobFailure(Exception):
    """The job did not do what it should. `results` are the lines it printed before; `complete` when these are all and it
    only did not end; `messages` are its own words, which may name hosts and paths."""

    def __init__(self, what, results, messages="", complete=False):
        super().__init__(what)
        self.results = results
        self.messages = messages
        self.complete = complete


def adopt_orphans():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def parse(output):
    results = []
    for line in output.splitlines():
        example = EXAMPLE_TIME.fullmatch(line)
        if example:
            results.append({"metric": "time", "size": 0, "value": float(example[1]) * 1e6, "unit": "us"})
        way = EXAMPLE_WAY.fullmatch(line)
        if way:
            results.append({"metric": way[1], "size": int(way[2]), "value": float(way[3]), "unit": "us"})
        if not line.startswith("{"):
            continue
        try:
            results.append(json.loads(line))
        except ValueError:
            continue        # a line cut short by the end of its program
    return results


def kill_job(mark):
    """Kills every process whose environment carries the mark."""
    wanted = f"{MARK}={mark}".encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if wanted in file.read().split(b"\0"):
                    os.kill(int(entry), signal.SIGKILL)
        except OSError:
            continue        # it has just ended, or belongs to someone else


def end(process, mark):
    """Asks the launcher to end its job, then does not ask any more."""
    for stop in (process.terminate, lambda: (kill_job(mark), process.kill())):
        stop()
        try:
            return process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def reap():
    """Waits for the orphans of a job that has ended; nothing else is started meanwhile."""
    deadline = time.monotonic() + REAP_S
    try:
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(0.01)
    except ChildProcessError:
        pass        # none is left


def wait(process, limit, finalize_limit):
    """What the job printed; raises TimeoutExpired at the limit."""
    if finalize_limit is None:
        return process.communicate(timeout=limit)
    now = time.monotonic()
    deadline, finished = now + limit, None
    while True:
        try:
            return process.communicate(timeout=LOOK_S)
        except subprocess.TimeoutExpired as pause:
            now = time.monotonic()
            if finished is None and FINISHED.search((pause.stdout or b"").decode(errors="replace")):
                finished = now
            if now >= deadline or (finished is not None and now >= finished + finalize_limit):
                raise


def run(command, limit, environment=None, finalize_limit=None):
    """The parsed lines and the seconds the whole job took. With `finalize_limit` a job that has printed its last result does not
    get more than these seconds to end."""
    mark = f"{os.getpid()}.{time.monotonic_ns()}"      # cold.c reads when that was
    start = time.monotonic()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               start_new_session=True, env={**os.environ, **(environment or {}), MARK: mark})
    try:
        output, errors = wait(process, limit + GRACE_S, finalize_limit)
    except subprocess.TimeoutExpired:
        output, _ = end(process, mark)
        if finalize_limit is not None and FINISHED.search(output):
            raise JobFailure(f"it had printed all its results, but did not end within {finalize_limit} s after that", parse(output), complete=True) from None
        raise JobFailure(f"it did not end within {limit} s", parse(output)) from None
    except BaseException:       # an interrupt leaves no rank behind either
        end(process, mark)
        raise
    finally:
        kill_job(mark)
        reap()
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        if elapsed >= limit:
            raise JobFailure(f"it did not end within {limit} s", parse(output))
        raise JobFailure(f"exit status {process.returncode}", parse(output), errors.strip())
    return parse(output), elapsed

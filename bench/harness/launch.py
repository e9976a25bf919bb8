"""Runs one job with a time limit and reads its output lines.

The limit holds twice: every program ends itself with an alarm, and here the launcher is asked to end and, if it does not,
killed. Launchers put ranks into process groups and sessions of their own, so each job carries a mark in its environment, and
whatever still has it when the launcher has gone is killed too."""

import json
import os
import signal
import subprocess
import time

MARK = "MPICH_COMPOSITE_BENCH_JOB"
GRACE_S = 10        # from the limit inside the programs to the signal from here, and from SIGTERM to SIGKILL


class JobFailure(Exception):
    """The job did not do what it should. `results` are the lines it printed before; `messages` are its own words, which
    may name hosts and paths."""

    def __init__(self, what, results, messages=""):
        super().__init__(what)
        self.results = results
        self.messages = messages


def parse(output):
    results = []
    for line in output.splitlines():
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


def run(command, limit):
    """The parsed lines and the seconds the whole job took."""
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    start = time.monotonic()
    process = subprocess.Popen(command + ["--limit", str(limit)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True,
                               env={**os.environ, MARK: mark})
    try:
        output, errors = process.communicate(timeout=limit + GRACE_S)
    except subprocess.TimeoutExpired:
        output, _ = end(process, mark)
        raise JobFailure(f"it did not end within {limit} s", parse(output)) from None
    except BaseException:       # an interrupt leaves no rank behind either
        end(process, mark)
        raise
    finally:
        kill_job(mark)
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        if elapsed >= limit:
            raise JobFailure(f"it did not end within {limit} s", parse(output))
        raise JobFailure(f"exit status {process.returncode}", parse(output), errors.strip())
    return parse(output), elapsed

"""Runs one job with a time limit and reads its output lines.

The limit holds twice: every program ends itself with an alarm, and here the launcher is asked to end and, if it does not,
killed with its process group. So no rank survives a job, and nothing waits for one that hangs."""

import json
import os
import signal
import subprocess
import time

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


def end(process):
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass
        try:
            return process.communicate(timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return "", ""


def run(command, limit):
    """The parsed lines and the seconds the whole job took."""
    start = time.monotonic()
    process = subprocess.Popen(command + ["--limit", str(limit)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        output, errors = process.communicate(timeout=limit + GRACE_S)
    except subprocess.TimeoutExpired:
        output, _ = end(process)
        raise JobFailure(f"it did not end within {limit} s", parse(output)) from None
    except BaseException:       # also an interrupt from the keyboard leaves no rank behind
        end(process)
        raise
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        if elapsed >= limit:
            raise JobFailure(f"it did not end within {limit} s", parse(output))
        raise JobFailure(f"exit status {process.returncode}", parse(output), errors.strip())
    return parse(output), elapsed

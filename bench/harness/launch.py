"""Runs one job with a time limit and reads its output lines.

The limit holds twice: every program ends itself with an alarm, and here the launcher is asked to end and, if it does not,
killed. Every job has a session of its own, and what is left in it when the launcher has gone is killed too: launchers put
ranks into process groups of their own, but not into other sessions."""

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


def kill_session(session):
    """Kills every process of a session that this program made."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat") as file:
                fields = file.read().rpartition(")")[2].split()     # state, parent, process group, session, ...
            if int(fields[3]) == session and fields[0] != "Z":
                os.kill(int(entry), signal.SIGKILL)
        except (OSError, IndexError, ValueError):
            continue        # it has just ended


def end(process):
    """Asks the launcher to end its job, then does not ask any more."""
    process.terminate()
    try:
        return process.communicate(timeout=GRACE_S)
    except subprocess.TimeoutExpired:
        kill_session(process.pid)
        return process.communicate()


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
    except BaseException:       # an interrupt leaves no rank behind either
        end(process)
        raise
    finally:
        kill_session(process.pid)
    elapsed = time.monotonic() - start
    if process.returncode != 0:
        if elapsed >= limit:
            raise JobFailure(f"it did not end within {limit} s", parse(output))
        raise JobFailure(f"exit status {process.returncode}", parse(output), errors.strip())
    return parse(output), elapsed

"""Runs one test as a job of mpiexec and makes sure that nothing of it stays.

The launcher is told the time limit (MPIEXEC_TIMEOUT) and ends a job that exceeds it.  Should it hang too, the job is killed
here some seconds later.  Every process of a job inherits one environment variable with a value of its own, so that all of
them are found, whatever process group, session or parent they have now, and are killed by process id.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass

from . import verdict

MARK = "MPICH_SUITE_JOB"
LAUNCHER_TIMED_OUT = "APPLICATION TIMED OUT"  # said by MPICH's mpiexec
LAUNCHER_GRACE_SECONDS = 10  # for mpiexec to end a job by itself
EXIT_GRACE_SECONDS = 2  # for processes of a job that are about to exit when mpiexec returns
SECONDS_TO_FAIL = 60  # for a test whose failure is known
KEPT_OUTPUT = 20000


@dataclass
class Outcome:
    test: object
    status: str  # passed, failed, skipped; then xfail or unexpected by the list of expected failures
    reason: str = ""
    seconds: float = 0.0
    timed_out: bool = False
    output: str = ""


def processes_of(mark):
    wanted = f"{MARK}={mark}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as environ:
                if wanted in environ.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass  # it ended, or is not ours
    return found


def kill_all(mark):
    """Kills until none is left: a process may have been forking when it was looked for.  True when there was one."""
    found = False
    for _ in range(50):
        processes = processes_of(mark)
        if not processes:
            break
        found = True
        for process in processes:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.02)
    return found


class Runner:
    def __init__(self, mpiexec, root, default_seconds, is_known=lambda name: False):
        """is_known(name): this failure is known, and need not be waited for longer than MPICH's own list says."""
        self.mpiexec = mpiexec
        self.root = root
        self.default_seconds = default_seconds
        self.is_known = is_known
        self._lock = threading.Lock()
        self._count = 0
        self._running = set()
        self._stopped = False

    def limit(self, test):
        if f"{test.directory}/{test.program}" in verdict.MUST_TIME_OUT:
            return test.seconds
        if test.suite_xfail or self.is_known(test.name):  # many of those hang
            return test.seconds or SECONDS_TO_FAIL
        return max(test.seconds, self.default_seconds)

    def command(self, test):
        return [self.mpiexec, "-n", str(test.ranks), *test.mpiexec_arguments, f"./{test.program}", *test.arguments]

    def run(self, test):
        limit = self.limit(test)
        with self._lock:
            self._count += 1
            mark = f"{os.getpid()}.{self._count}"
            self._running.add(mark)
        environment = dict(os.environ, **dict(pair.split("=", 1) for pair in test.environment))
        environment["MPIEXEC_TIMEOUT"] = str(limit)
        environment[MARK] = mark
        started = time.monotonic()
        # A file, not a pipe: a process left behind would keep a pipe open and us waiting.
        with tempfile.TemporaryFile() as output:
            job = subprocess.Popen(self.command(test), cwd=os.path.join(self.root, test.directory), env=environment,
                                   stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
            killed = []
            alarm = threading.Timer(limit + LAUNCHER_GRACE_SECONDS, lambda: killed.append(kill_all(mark)))
            alarm.start()
            if self._stopped:
                kill_all(mark)
            exit_status = job.wait()
            alarm.cancel()
            alarm.join()
            seconds = time.monotonic() - started
            left = self._sweep(mark)
            output.seek(0)
            text = output.read().decode(errors="replace")
        with self._lock:
            self._running.discard(mark)
        # Not from the seconds: they go on while somebody has stopped this process.
        timed_out = any(killed) or LAUNCHER_TIMED_OUT in text
        return self._judge(test, limit, exit_status, seconds, text, timed_out, left)

    def _judge(self, test, limit, exit_status, seconds, text, timed_out, left):
        if timed_out and f"{test.directory}/{test.program}" not in verdict.MUST_TIME_OUT:
            reason = f"timed out after {limit} s"
        else:
            timed_out = False
            reason = verdict.why_failed(test.result_rule, text, exit_status)
        if left:
            text += f"\n[{left} processes of the job were still there after mpiexec had returned, and were killed]\n"
        if len(text) > KEPT_OUTPUT:
            text = text[:KEPT_OUTPUT // 2] + "\n[...]\n" + text[-KEPT_OUTPUT // 2:]
        return Outcome(test, "failed" if reason else "passed", reason or "", seconds, timed_out, text)

    def _sweep(self, mark):
        deadline = time.monotonic() + EXIT_GRACE_SECONDS
        while True:
            left = len(processes_of(mark))
            if not left:
                return 0
            if time.monotonic() > deadline:
                kill_all(mark)
                return left
            time.sleep(0.05)

    def stop(self):
        """Ends all that is running, when the user interrupts."""
        self._stopped = True
        with self._lock:
            marks = list(self._running)
        for mark in marks:
            kill_all(mark)

"""Clusters on this machine for the programs that run between hosts, made by test/coc/cluster.

Each description of a cluster is made once, under a name of this process, and is removed when the measurement is over, however
it ends: only SIGKILL leaves it behind, and then `test/coc/cluster --name NAME down` removes it."""

import contextlib
import os
import signal
import subprocess
import sys

MAKE_LIMIT_S = 120
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class ClusterError(Exception):
    """A cluster could not be made or changed; the message is a sentence for the user."""


def _call(command):
    """What the command printed. It is in a session of its own: an interrupt from the terminal is ours to pass on."""
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=MAKE_LIMIT_S, stdin=subprocess.DEVNULL,
                                start_new_session=True)
    except OSError as error:
        raise ClusterError(f"'{os.path.relpath(command[0])}' cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(f"'{os.path.relpath(command[0])}' did not end within {MAKE_LIMIT_S} s") from error
    if result.returncode != 0:
        raise ClusterError(result.stderr.strip() or f"'{os.path.relpath(command[0])}' had status {result.returncode}")
    return result.stdout


@contextlib.contextmanager
def _deaf():
    """Removing a cluster is not interrupted."""
    before = {number: signal.signal(number, lambda *_: None) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Cluster:
    def __init__(self, tool, description):
        self._command = [tool, "--name", f"bench-{os.getpid()}-{os.path.basename(description)}"]
        self._description = description

    def __enter__(self):
        try:
            _call(self._command + ["up", self._description])
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        with _deaf():
            try:
                _call(self._command + ["down"])
            except ClusterError as error:       # the results are worth more
                print(f"A cluster is left behind: {error}.", file=sys.stderr)

    def launch(self, launcher, hosts):
        """The command line, up to the number of ranks, that starts ranks on these hosts: one on each in turn, or
        as many as a host:ranks says."""
        return self._command + ["run", "--mpiexec", launcher, "-hosts", ",".join(hosts)]

    @contextlib.contextmanager
    def losing(self, percent):
        """Inside, this share of all packets is lost."""
        if percent:
            _call(self._command + ["loss", str(percent)])
        try:
            yield
        finally:
            if percent:
                with _deaf():
                    _call(self._command + ["loss", "0"])


def check(tool):
    """Raises ClusterError when no cluster can be made here."""
    _call([tool, "can"])

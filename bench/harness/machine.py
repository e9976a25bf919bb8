"""What is measured on: facts that belong beside every figure, and the cores the measurement may use."""

import datetime
import functools
import os
import platform
import subprocess
import time


def distinct_cores(count):
    """The first `count` usable CPUs, one of each physical core first: two hardware threads are not two cores."""
    first_threads, siblings, seen = [], [], set()
    for cpu in sorted(os.sched_getaffinity(0)):
        try:
            with open(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") as file:
                core = file.read().strip()
        except OSError:
            core = str(cpu)
        (siblings if core in seen else first_threads).append(cpu)
        seen.add(core)
    return set((first_threads + siblings)[:count])


def use_cores(count):
    """Keep this process and all it starts to `count` cores; return how many there really are."""
    os.sched_setaffinity(0, distinct_cores(count))
    return len(os.sched_getaffinity(0))


COUNTING_ERROR_S = 0.03     # the kernel counts in ticks of 10 ms, on every core


@functools.cache
def kernel_network_threads():
    """The threads in which the kernel handles packets when there are too many for the system call that sent them."""
    names = {f"ksoftirqd/{cpu}" for cpu in os.sched_getaffinity(0)}
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/comm") as file:
                if file.read().strip() in names:
                    found.append(entry)
        except OSError:
            continue        # not a process, or it has just ended
    return found


class Usage:
    """Who has used the cores this process may use since this object was made. All that this process starts runs on the same
    cores; what happens on other cores of a large machine does not count. Packets count as ours."""

    def __init__(self):
        self._busy, self._total = self._machine()
        self._own = self._ours()

    def foreign_share(self):
        """The share that others used: neither this process nor any process it started and that has ended."""
        busy, total = self._machine()
        if total == self._total:
            return 0.0
        others = busy - self._busy - (self._ours() - self._own) - COUNTING_ERROR_S
        return min(1.0, max(0.0, others / (total - self._total)))

    @staticmethod
    def _machine():
        """CPU seconds: busy ones (for guests of a hypervisor: stolen ones too), and all."""
        names = {f"cpu{cpu}" for cpu in os.sched_getaffinity(0)}
        busy = total = 0
        with open("/proc/stat") as file:
            for line in file:
                name, *fields = line.split()
                if name in names:
                    ticks = [int(field) for field in fields[:8]]
                    busy += sum(ticks) - ticks[3] - ticks[4]        # less idle and waiting for input or output
                    total += sum(ticks)
        per_second = os.sysconf("SC_CLK_TCK")
        return busy / per_second, total / per_second

    @staticmethod
    def _ours():
        times = os.times()
        ticks = 0
        for thread in kernel_network_threads():
            with open(f"/proc/{thread}/stat") as file:
                ticks += sum(int(field) for field in file.read().rsplit(")", 1)[1].split()[11:13])
        return (times.user + times.system + times.children_user + times.children_system
                + ticks / os.sysconf("SC_CLK_TCK"))


def foreign_load(seconds):
    """The share of the cores that others use while this process does nothing but look."""
    usage = Usage()
    time.sleep(seconds)     # the length of the observation
    return usage.foreign_share()


def first_line(command):
    """The first line a command prints, or None when it cannot be run."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return output.splitlines()[0].strip() if output else None


def cpu_model():
    try:
        output = subprocess.run(["lscpu"], capture_output=True, text=True, timeout=20, check=True,
                                env={**os.environ, "LC_ALL": "C"}).stdout
    except (OSError, subprocess.SubprocessError):
        return platform.processor() or "unknown"
    for line in output.splitlines():
        if line.startswith("Model name:"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def describe(cores):
    return {
        "architecture": platform.machine(),
        "cpu": cpu_model(),
        "nproc": os.cpu_count(),
        "cores_used": cores,
        "kernel": platform.release(),
        "compiler": first_line([os.environ.get("CC", "cc"), "--version"]),
        "python": platform.python_version(),
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
    }

"""The MPIs under comparison: how each compiles a program and starts a job."""

import os
import re
import shutil
import subprocess


class BuildError(Exception):
    """A program could not be compiled; the message is a sentence for the user."""


# Of the options of configure: where something is or was, and what says nothing about the library.
PLACES = re.compile(r"--\w*-?prefix=|--\w+dir=|--docdir=|PM_CORE_|-ffile-prefix-map=|--build=|\w+=$|--disable-(option-checking|silent-rules|"
                    r"maintainer-mode|dependency-tracking)|FC?FLAGS=|F77=|FC=|-fallow-|BASH_SHELL=")


class Mpi:
    # What tells how it was built, the line of the options and the line of the compiler.
    about = ("mpichversion", "MPICH configure:", "MPICH CC:")

    def __init__(self, name, title, compiler, launcher, package, between_hosts=None):
        self.name = name
        self.title = title
        self.compiler = compiler
        self.launcher = launcher
        self.package = package
        self.between_hosts = between_hosts      # its environment there; None: test/coc/cluster cannot start it
        self.library = None         # what MPI_Get_library_version says, once a program has run

    def missing(self):
        """The commands of this MPI that are not there."""
        return [command for command in (self.compiler, self.launcher) if shutil.which(command) is None]

    def launch(self, ranks, cores):
        """The command line, up to the program, that starts `ranks` ranks. No binding is asked of any MPI."""
        return [self.launcher, "-n", str(ranks)]

    def runs(self, job):
        return (self.name == "ours" or not job.ours_only) and (not job.cluster or self.between_hosts is not None)

    def flags(self):
        """How it was built, without the places of the machine it was built on."""
        (command, *options), *lines = self.about[0].split(), *self.about[1:]
        try:
            said = subprocess.run([os.path.join(os.path.dirname(self.compiler), command), *options], capture_output=True, text=True, timeout=20).stdout
        except (OSError, subprocess.SubprocessError):
            return "unknown"
        found = " ".join(line.split(":", 1)[1].replace("'", "") for start in lines for line in said.splitlines() if line.strip().startswith(start))
        return " ".join(dict.fromkeys(word for word in found.split() if not PLACES.match(word))) or "unknown"

    def version(self):
        """Version and device, without the paths of the machine it was built on."""
        if not self.library:
            return "unknown"
        lines = [line.strip() for line in self.library.splitlines()]
        wanted = [line for line in lines if line.startswith(("MPICH Version", "MPICH Device", "Open MPI"))]
        return ", ".join((wanted or lines[:1])).replace("\t", " ").split(", package")[0]


class OpenMpi(Mpi):
    about = ("ompi_info -c", "Configure command line:", "C compiler:", "Build CFLAGS:")

    def launch(self, ranks, cores):
        command = super().launch(ranks, cores)
        if os.geteuid() == 0:
            command.append("--allow-run-as-root")
        if ranks > cores:
            # Tell it the number of cores, so that it knows that it is oversubscribed and yields.
            command += ["--host", f"localhost:{cores}", "--oversubscribe"]
        return command


def _installed(name, title, prefix, between_hosts):
    return Mpi(name, title, os.path.join(prefix, "bin", "mpicc"), os.path.join(prefix, "bin", "mpiexec"), None, between_hosts)


def ours(prefix):
    return _installed("ours", "MPICH-Composite", prefix, {})


def peers(same_source=None):
    """`same_source` is where bench/build-same-source has installed its MPICH."""
    tcp = {"UCX_TLS": "tcp,self"}
    return [Mpi("mpich", "Debian's MPICH", "mpicc.mpich", "mpiexec.mpich", "mpich and libmpich-dev", tcp),
            OpenMpi("openmpi", "Debian's Open MPI", "mpicc.openmpi", "mpiexec.openmpi", "openmpi-bin and libopenmpi-dev"),
            *([_installed("same-source", "MPICH's own device with our flags", same_source, tcp)] if same_source else [])]


def _for_language(command, source):
    """The compiler of the same MPI for C++ where a program NAME.c is there as NAME.cc only."""
    if os.path.exists(source) or not os.path.exists(source + "c"):
        return command, source
    folder, name = os.path.split(command[0])
    return [os.path.join(folder, name.replace("mpicc", "mpicxx")), "-std=c++20"], source + "c"


def object_library(prefix):
    """Whether there is one in this installation, and what a program with objects is compiled with."""
    there = os.path.exists(os.path.join(prefix, "include", "composite", "objects.hh"))
    return there, ["-L" + os.path.join(prefix, "lib"), "-lcomposite-objects"]


def compile_program(command, source, target, libraries=()):
    """Always compiles: it takes a fraction of a second, and an MPI reinstalled under the same name must not go unnoticed."""
    command, source = _for_language(command, source)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    full = command + ["-O2", "-pthread", "-o", target, source, "-lm", *libraries]
    try:
        result = subprocess.run(full, capture_output=True, text=True, timeout=120)
    except OSError as error:
        raise BuildError(f"'{command[0]}' cannot be run: {error.strerror}.") from error
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"'{' '.join(full)}' did not end within 120 s.") from error
    if result.returncode != 0:
        log = target + ".log"
        with open(log, "w") as file:
            file.write(" ".join(full) + "\n" + result.stdout + result.stderr)
        raise BuildError(f"'{command[0]}' could not compile {os.path.basename(source)}; its messages are in "
                         f"{os.path.relpath(log)}.")

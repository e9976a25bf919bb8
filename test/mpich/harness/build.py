"""Makes the suite ready to run: copies it, configures it for one MPI, and builds only the programs that are asked for.

The copy keeps the source tree clean and works although the tree may be configured in place.  What has been configured and
built is kept for the next run, as long as it would come out the same (see stamp()).
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass

from .progress import Progress

BUILT_SUFFIXES = (".o", ".lo", ".la", ".a", ".mod", ".log", ".out", ".cache", ".tap")
BUILT_NAMES = (".libs", ".deps", "config.status", "libtool", "stamp-h1", "testlist.dtp", "testlist.cvar", "autom4te.cache")


class Failure(Exception):
    """Something that the user can act on; the text says what."""


@dataclass
class Mpi:
    """The programs of the MPI under test.  An empty name: this language is not there."""
    mpicc: str
    mpicxx: str
    mpif77: str
    mpifort: str
    mpiexec: str

    @staticmethod
    def find(names, where):
        paths = {key: shutil.which(name) or "" for key, name in names.items()}
        for needed in ("mpicc", "mpiexec"):
            if not paths[needed]:
                raise Failure(f"there is no '{names[needed]}': {where}")
        return Mpi(**paths)

    def shown(self, wrapper):
        """The command behind a compiler wrapper."""
        show = subprocess.run([wrapper, "-show"], capture_output=True, text=True)
        if show.returncode != 0:
            raise Failure(f"'{wrapper} -show' failed: {show.stderr.strip() or show.stdout.strip()}")
        return show.stdout.strip()


def newest_static_library(mpi):
    """Programs that link libmpi statically must be linked again when it changes; shared libraries need nothing."""
    lib = os.path.join(os.path.dirname(os.path.dirname(mpi.mpicc)), "lib")
    if os.path.exists(os.path.join(lib, "libmpi.a")) and not os.path.exists(os.path.join(lib, "libmpi.so")):
        return os.stat(os.path.join(lib, "libmpi.a")).st_mtime_ns
    return None


class Build:
    def __init__(self, directory, source, mpi, jobs):
        self.directory = os.path.abspath(directory)
        self.source = os.path.join(os.path.abspath(source), "test", "mpi")
        self.root = os.path.join(self.directory, "suite")
        self.log = os.path.join(self.directory, "build.log")
        self.mpi = mpi
        self.jobs = jobs
        self.environment = self._with_ccache(dict(os.environ))
        os.makedirs(self.directory, exist_ok=True)
        self._lock = open(os.path.join(self.directory, "lock"), "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Failure(f"another run uses {self.directory}: wait for it, or give another --build directory") from None

    # The set-up ------------------------------------------------------------------------------------------------------

    def prepare(self):
        """After this the suite is configured for this MPI."""
        stamp_file = os.path.join(self.directory, "stamp")
        stamp = self._stamp()
        if os.path.exists(stamp_file):
            with open(stamp_file) as old:
                if old.read() == stamp:
                    return
            os.unlink(stamp_file)
        if not os.path.exists(os.path.join(self.source, "configure")):
            raise Failure(f"there is no MPICH test suite in {self.source}: --source names an unpacked MPICH tree")
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.source, self.root, ignore=self._built_files, symlinks=True)
        with open(self.log, "w"):
            pass
        self._allow_f08()
        self._step("configuring the suite", self._configure_command(), self.root)
        with open(stamp_file, "w") as new:
            new.write(stamp)

    def _stamp(self):
        with open(os.path.join(self.source, "version.m4")) if os.path.isdir(self.source) else open(os.devnull) as version:
            facts = [version.read(), asdict(self.mpi), self.mpi.shown(self.mpi.mpicc), self._configure_command(),
                     newest_static_library(self.mpi)]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest() + "\n"

    @staticmethod
    def _built_files(directory, names):
        """What a configure or make in the source tree may have left there."""
        present = set(names)
        return [name for name in names
                if name in BUILT_NAMES or name.endswith(BUILT_SUFFIXES) or f"{name}.in" in present]

    def _configure_command(self):
        mpi = self.mpi
        fortran = "no"
        if mpi.mpif77 and mpi.mpifort:
            fortran = "f77,f90,f08" if self._has_f08() else "f77,f90"
        # GNU Fortran 10 and later refuse old programs without this option, and other compilers do not know it.
        flags = "-O1"
        if fortran != "no" and self._compiles(mpi.mpifort, "      end\n", ".f", "-fallow-argument-mismatch"):
            flags += " -fallow-argument-mismatch"
        return ["./configure", "--disable-maintainer-mode", "--disable-dependency-tracking", "--enable-threads=multiple",
                f"--enable-fortran={fortran}", f"--enable-cxx={'yes' if mpi.mpicxx else 'no'}",
                f"MPICC={mpi.mpicc}", f"MPICXX={mpi.mpicxx}", f"MPIF77={mpi.mpif77}", f"MPIFC={mpi.mpifort}",
                f"MPIEXEC={mpi.mpiexec}", "CFLAGS=-O1", "CXXFLAGS=-O1", f"FFLAGS={flags}", f"FCFLAGS={flags}"]

    def _has_f08(self):
        program = "program main\n use mpi_f08\n call MPI_Init()\n call MPI_Finalize()\nend program\n"
        return self._compiles(self.mpi.mpifort, program, ".f90")

    def _allow_f08(self):
        """The suite's configure believes in the Fortran 2008 bindings only when MPICH's own configure calls it; we have seen
        them work, so the copy is told to believe us."""
        path = os.path.join(self.root, "configure")
        with open(path) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace('"$enable_f08" = "yes" -a "$FROM_MPICH" = "yes"', '"$enable_f08" = "yes"'))

    def _compiles(self, compiler, text, suffix, *flags):
        source = os.path.join(self.directory, f"try{suffix}")
        with open(source, "w") as out:
            out.write(text)
        tried = subprocess.run([compiler, *flags, "-c", source, "-o", os.path.join(self.directory, "try.o")],
                               cwd=self.directory, capture_output=True)
        return tried.returncode == 0

    # The programs ----------------------------------------------------------------------------------------------------

    def programs(self, tests):
        """Builds what these tests need.  A program that does not build is not an error here: see why_missing()."""
        by_directory = defaultdict(list)
        for test in tests:
            if test.program not in by_directory[test.directory]:
                by_directory[test.directory].append(test.program)
        total = sum(map(len, by_directory.values()))
        current = [""]

        def describe():
            built = sum(self.built(d, p) for d, programs in by_directory.items() for p in programs)
            return f"building the tests: {built} of {total} programs, in {current[0]}"

        with Progress(describe) as progress, open(self.log, "a") as log:
            for directory, programs in by_directory.items():
                current[0] = directory
                subprocess.run(["make", "-k", f"-j{self.jobs}", *programs], cwd=os.path.join(self.root, directory),
                               env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
            return progress.seconds

    def built(self, directory, program):
        path = os.path.join(self.root, directory, program)
        return os.path.isfile(path) and os.access(path, os.X_OK)

    def why_missing(self, test):
        made = subprocess.run(["make", test.program], cwd=os.path.join(self.root, test.directory), env=self.environment,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return made.stdout

    def check_library(self, test, prefix):
        """A program that finds some other libmpi would test the wrong one without anybody noticing."""
        program = os.path.join(self.root, test.directory, test.program)
        linked = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        for line in linked.splitlines():
            name, _, found = line.strip().partition(" => ")
            if name.startswith("libmpi.so") and not os.path.realpath(found.split(" (")[0]).startswith(
                    os.path.realpath(prefix) + os.sep):
                raise Failure(f"{test.directory}/{test.program} is linked with {found}, which is not in {prefix}: "
                              "set LD_LIBRARY_PATH, or build the MPI with run paths in its compiler wrappers")

    # ------------------------------------------------------------------------------------------------------------------

    def _with_ccache(self, environment):
        """MPICH's wrappers take another compiler from the environment: the same one, behind ccache."""
        if not shutil.which("ccache"):
            return environment
        for variable, wrapper in (("MPICH_CC", self.mpi.mpicc), ("MPICH_CXX", self.mpi.mpicxx)):
            if wrapper and variable not in environment:
                compiler = self.mpi.shown(wrapper).split()[0]
                if os.path.basename(compiler) != "ccache":
                    environment[variable] = f"ccache {compiler}"
        # Another checkout of the same layout then finds what this one compiled.
        together = os.path.commonpath([self.directory, os.path.abspath(self.mpi.mpicc)])
        if together != os.sep:
            environment.setdefault("CCACHE_BASEDIR", together)
        environment.setdefault("CCACHE_NOHASHDIR", "1")
        return environment

    def _step(self, title, command, directory):
        with Progress(lambda: title) as progress, open(self.log, "a") as log:
            progress.say(f"{title} (log: {self.log})")
            done = subprocess.run(command, cwd=directory, env=self.environment, stdin=subprocess.DEVNULL, stdout=log,
                                  stderr=subprocess.STDOUT)
        if done.returncode != 0:
            with open(self.log) as log:
                sys.stdout.writelines(log.readlines()[-15:])
            raise Failure(f"{title} failed: see {self.log}")

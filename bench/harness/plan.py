"""Which programs run, on how many ranks, with which arguments."""

from dataclasses import dataclass

PAIR_PROGRAMS = ("pingpong", "anysource", "rate", "bibw", "put")
PROGRAMS = ("limits",) + PAIR_PROGRAMS + ("coll", "init", "idle")
COLLECTIVES = ("barrier", "allreduce", "bcast", "alltoall")


@dataclass(frozen=True)
class Job:
    program: str
    ranks: int              # 0: not an MPI program
    arguments: tuple = ()

    def __str__(self):
        operation = f" {self.arguments[self.arguments.index('--operation') + 1]}" if "--operation" in self.arguments else ""
        return self.program + operation + (f", {self.ranks} ranks" if self.ranks else "")


def plan(only, ranks, cores, quick):
    """All jobs of one repetition. A collective has a job of its own: one that never ends costs only itself."""
    budget = 0.03 if quick else 0.15
    time = ("--time", str(budget))
    # With more ranks than cores the scheduler is part of what is measured: average over more of it.
    crowded_time = ("--time", str(budget * 3))
    jobs = []
    for program in PROGRAMS:
        if program not in only:
            continue
        if program == "limits":
            jobs.append(Job(program, 0, time))
        elif program in PAIR_PROGRAMS:
            jobs.append(Job(program, 2, time))
        elif program == "coll":
            jobs += [Job(program, count, (crowded_time if count > cores else time) + ("--operation", operation))
                     for count in ranks for operation in COLLECTIVES]
        elif program == "init":
            jobs += [Job(program, count) for count in ranks]
        elif program == "idle":
            jobs.append(Job(program, 2, ("--duration", "1" if quick else "3")))
    return jobs

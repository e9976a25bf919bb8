"""Which programs run, on how many ranks, with which arguments."""

from dataclasses import dataclass

PAIR_PROGRAMS = ("pingpong", "anysource", "rate", "bibw", "put")
NETWORK_PROGRAMS = ("net_limits", "net_pingpong", "net_alltoone", "net_loss", "net_recovery", "net_sockets", "net_sor",
                    "net_othello")
PROGRAMS = ("limits",) + PAIR_PROGRAMS + ("coll", "init", "idle") + NETWORK_PROGRAMS
GROUPS = {"network": NETWORK_PROGRAMS}
EXECUTABLES = {"net_loss": "pingpong", "net_recovery": "pingpong"}      # the others are named like their program
COLLECTIVES = ("barrier", "allreduce", "bcast", "alltoall")
EXAMPLES = ("sor", "othello")       # in examples/, and not with the arguments and the output of bench.h

# The descriptions of the clusters, of test/coc. On the first the kernel hands 64 KB over at once, as with a network card that
# cuts them up; on the second each packet goes, and is lost, by itself.
HOSTS, LOSSY_HOSTS = "four-hosts", "lossy-hosts"
CROWD = 16                          # ranks on four hosts
LOSSES = (0, 1, 5, 20)              # percent
HOPELESS_LOSS = 20                  # for TCP: ours alone
RECOVERY_LOSSES = (1, 5)
RECOVERIES = ("selective", "go_back_n")
LARGE = 2 << 20
APPLICATION_RANKS = (1, 2, 4, 8)
APPLICATION_SIZES = {"sor": "128", "othello": "7"}


@dataclass(frozen=True)
class Job:
    program: str            # as in PROGRAMS
    ranks: int              # 0: not an MPI program
    arguments: tuple = ()
    cluster: str = ""       # the description of the cluster it runs on; empty: this machine
    hosts: tuple = ()
    loss: int = 0           # percent of the packets
    environment: tuple = () # of pairs
    ours_only: bool = False
    variant: str = ""       # tells results of the same program apart

    @property
    def executable(self):
        return EXECUTABLES.get(self.program, self.program.removeprefix("net_"))

    def __str__(self):
        operation = f" {self.arguments[self.arguments.index('--operation') + 1]}" if "--operation" in self.arguments else ""
        return (self.program + operation + (f", {self.variant}" if self.variant else "")
                + (f", {self.ranks} ranks" if self.ranks else ""))


def loss_variant(percent, recovery=""):
    return f"{percent} % loss" + (f", {recovery}" if recovery else "")


def _network_jobs(program, time, long_time):
    """Ranks are dealt out to the hosts in turn, so that the neighbours of a rank are on other hosts."""
    pair, all_four = ("a", "b"), ("a", "b", "c", "d")
    large = long_time + ("--sizes", str(LARGE))
    if program == "net_limits":
        between = time + ("--between", ",".join(pair))
        return [Job(program, 0, between, HOSTS, pair), Job(program, 0, between, LOSSY_HOSTS, pair, variant="packets")]
    if program == "net_pingpong":
        return [Job(program, 2, time, HOSTS, pair)]
    if program == "net_alltoone":
        return [Job(program, 2, long_time, HOSTS, pair), Job(program, CROWD, long_time, HOSTS, all_four)]
    if program == "net_loss":
        return [Job(program, 2, large, LOSSY_HOSTS, pair, loss, (), loss >= HOPELESS_LOSS, loss_variant(loss))
                for loss in LOSSES]
    if program == "net_recovery":
        return [Job(program, 2, large, LOSSY_HOSTS, pair, loss, (("MPIR_CVAR_CH4_COMPOSITE_UDP_RECOVERY", recovery),), True,
                    loss_variant(loss, recovery)) for loss in RECOVERY_LOSSES for recovery in RECOVERIES]
    if program == "net_sockets":
        return [Job(program, CROWD, (), HOSTS, all_four)]
    return [Job(program, ranks, (APPLICATION_SIZES[program.removeprefix("net_")],), HOSTS, all_four[:ranks])
            for ranks in APPLICATION_RANKS]


def plan(only, ranks, cores, quick):
    """All jobs of one repetition. A collective has a job of its own: one that never ends costs only itself."""
    budget = 0.03 if quick else 0.15
    time = ("--time", str(budget))
    # With more ranks than cores the scheduler is part of what is measured, and with losses chance: average over more of it.
    long_time = ("--time", str(budget * 3))
    jobs = []
    for program in PROGRAMS:
        if program not in only:
            continue
        if program == "limits":
            jobs.append(Job(program, 0, time))
        elif program in PAIR_PROGRAMS:
            jobs.append(Job(program, 2, time))
        elif program == "coll":
            jobs += [Job(program, count, (long_time if count > cores else time) + ("--operation", operation))
                     for count in ranks for operation in COLLECTIVES]
        elif program == "init":
            jobs += [Job(program, count) for count in ranks]
        elif program == "idle":
            jobs.append(Job(program, 2, ("--duration", "1" if quick else "3")))
        else:
            jobs += _network_jobs(program, time, long_time)
    return jobs

"""Which programs run, on how many ranks, with which arguments."""

import os
from dataclasses import dataclass

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAIR_PROGRAMS = ("pingpong", "anysource", "strided", "sendrecv", "put", "notify")
PAIRS_PROGRAMS = ("cold", "rate", "bibw")       # of one pair or several at once
UDP_PROGRAMS = ("net_limits", "net_pingpong", *(f"net_{program}" for program in PAIRS_PROGRAMS), "net_twohosts", "net_alltoone", "net_loss", "net_recovery", "net_sockets", "net_sor", "net_othello")
COC_PROGRAMS = ("net_jacobi", "net_alltoall", "net_colltable")      # on a cluster of clusters
NETWORK_PROGRAMS = (UDP_PROGRAMS + ("net_mcast", "net_ucx", "net_rma", "net_anysource", "net_all_open", "net_init") + COC_PROGRAMS
                    + ("net_notify", "net_fuzzy", "net_cshift", "net_objects"))
PROGRAMS = (("limits",) + PAIR_PROGRAMS + ("queues",) + PAIRS_PROGRAMS + ("rma", "threads", "coll", "colltable", "fuzzy", "background", "cshift", "laplace", "mcast", "init", "idle", "objects")
            + NETWORK_PROGRAMS)
ON_DEMAND = ("colltable", "net_twohosts")       # only when they are named: each as long as all others together
OBJECT_PROGRAMS = ("objects", "net_objects")        # C++, with the object library
GROUPS = {"network": NETWORK_PROGRAMS, "coc": COC_PROGRAMS, "mcast": ("mcast", "net_mcast"),
          "sync": ("notify", "fuzzy", "background", "cshift", "laplace", "net_notify", "net_fuzzy", "net_cshift"),
          "composite": ("net_ucx", "net_rma", "anysource", "net_anysource", "net_all_open", "net_init", *COC_PROGRAMS, "threads")}
# The others are named like their program.
EXECUTABLES = {"net_loss": "pingpong", "net_recovery": "pingpong", "net_ucx": "pingpong", "net_rma": "rma", "net_all_open": "pingpong",
               "net_alltoall": "coll", "net_colltable": "colltable", "net_twohosts": "colltable"}
COLLECTIVES = ("barrier", "allreduce", "bcast", "alltoall")
# Of colltable: all that have a row, and those that are also measured with a buffer that the caller writes.
FIRST_CALLS = "first"
SIXTEEN = ("barrier", "bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "allgatherv", "alltoall", "alltoallv", "reduce_scatter",
           "scan", "ibarrier", "ibcast", "iallreduce", "ialltoall")
TABLE = (*SIXTEEN, "bcast_written", "allreduce_written", FIRST_CALLS)
WITHOUT_DATA = ("barrier", "ibarrier")
# Beyond the table: only when they are named.
TABLE_MORE = ("igather", "iscatter", "iallgather", "ialltoallv", "ireduce", "ireduce_scatter", "iscan", "neighbor_allgather", "neighbor_alltoall",
              "ineighbor_alltoall")
RANKS = (2, 4, 8, 16)
EXAMPLES = ("sor", "othello", "jacobi", "cshift", "laplace")    # in examples/, and not with the arguments and the output of bench.h

# The descriptions of the clusters. On the first the kernel hands 64 KB over at once, as with a network card that cuts them up; on
# the second each packet goes, and is lost, by itself.
HOSTS, LOSSY_HOSTS = "test/coc/four-hosts", "test/coc/lossy-hosts"
COLD_SIZES = (8, 1024, 16384, 262144)
# What bars ask for of a program, so that a size that is not measured is noticed.
SIZES = {
    "pingpong": (0, 1, 8, 64, *(256 << i for i in range(15))), "anysource": (8, 1024, 65536, 1 << 20), "strided": tuple(4096 << i for i in range(0, 10, 2)),
    "rate": (1, 8, 64, 256, *(1024 << i for i in range(11))), "net_rate": (1, 8, 64, 256, *(1024 << i for i in range(13))),
    "bibw": (1, 64, *(1024 << i for i in range(13))), "colltable": tuple(1 << i for i in range(0, 21, 2)), "first calls": (8, 65536),
}
QUEUES = {"posted": 10000, "unexpected": 100000}    # as bench/queues.c measures them, and 100 of each
SEVERAL_SIZES = {"rate": "8,1024,65536", "bibw": "1024,65536,1048576"}      # of several pairs; one alone has all sizes
RMA_CROWD = 8                       # on one host: seven on the memory of one
CROWD = 16                          # ranks on four hosts
LOSSES = (0, 1, 5, 20)              # percent
HOPELESS_LOSS = 20                  # for TCP: ours alone
RECOVERY_LOSSES = (1, 5)
RECOVERIES = ("selective", "go_back_n")
LARGE = 2 << 20
APPLICATION_RANKS = (1, 2, 4, 8)
APPLICATION_SIZES = {"sor": "128", "othello": "7", "jacobi": "500", "laplace": "100"}


def _settings(**values):
    """Pairs of our settings: devices="shmem" and so on."""
    return tuple((f"MPIR_CVAR_CH4_COMPOSITE_{name.upper()}", value) for name, value in values.items())


# Two hosts on each of two devices.
ON_UCX = _settings(devices="shmem,ucx", networks="network lan ucx 10.77.0.0/24")
ON_UDP = _settings(devices="shmem,udp", networks="network lan udp 10.77.0.0/24")
SAME_UCX = (("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "lan"))      # for whoever is compared

# Host a plays ping-pong within itself; it reaches b by UCX, c by UDP, and both sleep. (Hosts with ranks, settings.)
THREE_HOSTS = "test/coc/two-networks"
ALONE, ALL_OPEN = "SHMEM alone", "UCX and UDP open"
_TWO_NETWORKS = "network lan ucx 10.77.0.0/24 priority 30; network wan udp 10.78.0.0/24 priority 10"
OPEN = {
    ALONE: (("a:2",), _settings(devices="shmem")),
    "UDP open": (("a:2", "c:1"), _settings(devices="shmem,udp", networks=_TWO_NETWORKS)),
    "UCX open": (("a:2", "b:1"), _settings(devices="shmem,ucx", networks=_TWO_NETWORKS)),
    ALL_OPEN: (("a:2", "b:1", "c:1"), _settings(devices="shmem,ucx,udp", networks=_TWO_NETWORKS)),
}

# The cluster of clusters of the paper's figure 3: eight hosts with two ranks each and four with one.
COC = "test/coc/figure-3"
COC_HOSTS = tuple(f"a{i}:2" for i in range(8)) + tuple(f"b{i}:1" for i in range(4))
COC_RANKS = 20
COC_WIRES = {"equal networks": COC, "slow LAN": "bench/figure-3-slow-lan"}
_COC_NETWORKS = os.path.join(ROOT, "test", "coc", "figure-3.networks")
COMPOSITE, UDP_BETWEEN, UDP_ALONE = "composite", "UDP between hosts", "UDP for every pair"
COC_WAYS = {
    COMPOSITE: _settings(devices="shmem,ucx,udp", networks=_COC_NETWORKS),
    UDP_BETWEEN: _settings(devices="shmem,udp", networks=_COC_NETWORKS),
    UDP_ALONE: _settings(devices="udp", networks=_COC_NETWORKS),
}
# Each host takes all cores of the machine for its own: a rank that polled would keep those of the other hosts from running.
COC_WAIT = _settings(wait="sleep")
COC_SIZES = (1024, 65536)           # of the all-to-all, for each pair
# Collectives there: by the leaders of hosts and clusters, and as if each rank were on a host of its own.
COC_COLLECTIVES = {"barrier": (0,), "allreduce": (8, 8192), "bcast": (65536,), "reduce": (8192,), "allgather": (4096,), "gather": (4096,), "scatter": (4096,), "reduce_scatter": (8192,),
                   "alltoall": (1024,), "scan": (8, 1024)}
BY_LEADERS, BY_ALL = "by leaders", "by all"
COC_HIERARCHY = {BY_LEADERS: (), BY_ALL: (("MPIR_CVAR_NOLOCAL", "1"), *_settings(
    **{f"coll_{operation}": "messages" for operation in COC_COLLECTIVES}))}

# Named, so that it does not matter what the environment of a run says.
WITHOUT_THREAD, WITH_THREAD = "without a progress thread", "with a progress thread"
PROGRESS_THREAD = {WITHOUT_THREAD: (("MPIR_CVAR_ASYNC_PROGRESS", "0"),), WITH_THREAD: (("MPIR_CVAR_ASYNC_PROGRESS", "1"),)}

# Of the multicast: 8 B to 8 MB. At some sizes the others run, too; with more ranks than cores they take long.
MCAST_SHORT = tuple(8 << i for i in range(0, 11, 2))                # up to 8 KB
MCAST_MIDDLE = 80 << 10
MCAST_SIZES = MCAST_SHORT + (16384, 32768, MCAST_MIDDLE) + tuple(131072 << i for i in range(7))
MCAST_COMPARED = (8, 8192, MCAST_MIDDLE, 8 << 20)
MCAST_HOST_RANKS = 8                # on four hosts
MCAST_MANY = 65                     # a master and 64 workers

FUZZY_HOST_RANKS = (4, 8)           # on four hosts: one on each, and two
IN_FLIGHT = 8                       # barriers of ours at once, of those that fuzzy measures
CSHIFT_SIZES = (64, 128, 256, 512)  # rows, and columns
CSHIFT_RANKS = (2, 8)               # on one host
_CSHIFT_SIZES = ("--sizes", ",".join(map(str, CSHIFT_SIZES)))


@dataclass(frozen=True)
class Job:
    program: str            # as in PROGRAMS
    ranks: int              # 0: not an MPI program
    arguments: tuple = ()
    cluster: str = ""       # the description of the cluster it runs on, below the root; empty: this machine
    hosts: tuple = ()       # names, or name:ranks where ranks are not dealt out in turn
    loss: int = 0           # percent of the packets
    environment: tuple = () # of pairs, for all MPIs
    ours_only: bool = False
    variant: str = ""       # tells results of the same program apart
    peer_environment: tuple = ()    # of pairs, for the others than ours

    @property
    def executable(self):
        return EXECUTABLES.get(self.program, self.program.removeprefix("net_"))

    def __str__(self):
        operation = f" {self.arguments[self.arguments.index('--operation') + 1]}" if "--operation" in self.arguments else ""
        return (self.program + operation + (f", {self.variant}" if self.variant else "")
                + (f", {self.ranks} ranks" if self.ranks else ""))


def loss_variant(percent, recovery=""):
    return f"{percent} % loss" + (f", {recovery}" if recovery else "")


def coc_variant(wires, way):
    return f"{wires}, {way}"


def mcast_members(ranks):
    """How many workers are members, by the name of the variant: about half of them, and all."""
    workers = ranks - 1
    return {f"{members} of {workers} workers": members for members in ((workers + 1) // 2, workers)}


def _mcast_jobs(program, all_ranks, long_time):
    """The ways against each other; the master's own time; workers that are no members."""
    # Of the hosts each takes all cores for its own, see COC_WAIT.
    place = dict(cluster=HOSTS, hosts=("a", "b", "c", "d"), environment=COC_WAIT) if program == "net_mcast" else {}
    jobs = []
    for ranks in all_ranks:
        for variant, members in mcast_members(ranks).items():
            arguments = long_time + ("--operation", "all", "--members", str(members), "--sizes")
            others_too = members < ranks - 1
            swept = [size for size in MCAST_SIZES if not (others_too and size in MCAST_COMPARED)]
            jobs.append(Job(program, ranks, arguments + (",".join(map(str, swept)),), ours_only=True, variant=variant, **place))
            if others_too:
                jobs.append(Job(program, ranks, arguments + (",".join(map(str, MCAST_COMPARED)),), variant=variant, **place))
        jobs.append(Job(program, ranks, ("--operation", "idle", "--duration", "0.8"), ours_only=True, **place))
    if program == "mcast":
        jobs.append(Job(program, MCAST_MANY, long_time + ("--operation", "master"), ours_only=True))
    return jobs


def _on_both_devices(program, arguments, ours_only=False):
    """Two hosts, once over UCX, where MPICH can be compared, and once over UDP."""
    pair = ("a", "b")
    return [Job(program, 2, arguments, HOSTS, pair, environment=ON_UCX + SAME_UCX, ours_only=ours_only, variant="UCX"),
            Job(program, 2, arguments, HOSTS, pair, environment=ON_UDP, ours_only=True, variant="UDP")]


def _sync_jobs(program, time, long_time):
    if program == "net_notify":
        return _on_both_devices(program, time)
    if program == "net_cshift":
        return _on_both_devices(program, time + _CSHIFT_SIZES, ours_only=True)
    # Of the hosts each takes all cores for its own, see COC_WAIT.
    return [Job(program, ranks, long_time, HOSTS, ("a", "b", "c", "d"), environment=ON_UDP + COC_WAIT)
            for ranks in FUZZY_HOST_RANKS]


def _composite_jobs(program, time, long_time):
    pair = ("a", "b")
    if program == "net_ucx":
        return [Job(program, 2, time, HOSTS, pair, environment=ON_UCX + SAME_UCX)]
    if program == "net_rma":
        return _on_both_devices(program, time + ("--sizes", "8"))
    if program == "net_anysource":
        return _on_both_devices(program, time)
    if program == "net_all_open":
        return [Job(program, sum(int(host.split(":")[1]) for host in hosts), long_time + ("--sizes", "8"), THREE_HOSTS, hosts,
                    environment=settings, ours_only=True, variant=variant) for variant, (hosts, settings) in OPEN.items()]
    if program == "net_init":
        # Of the networks only the LAN leads everywhere, and MPICH has to be told so.
        return [Job(program, COC_RANKS, ("--operation", "init"), COC, COC_HOSTS, environment=settings, ours_only=way != COMPOSITE,
                    variant=way, peer_environment=(("UCX_NET_DEVICES", "lan"),))
                for way, settings in COC_WAYS.items() if way != UDP_ALONE]
    if program == "net_colltable":
        return [Job(program, COC_RANKS, long_time + ("--operation", operation, "--sizes", ",".join(map(str, sizes))), COC, COC_HOSTS,
                    environment=COC_WAYS[COMPOSITE] + COC_WAIT + settings, ours_only=True, variant=way)
                for operation, sizes in COC_COLLECTIVES.items() for way, settings in COC_HIERARCHY.items()]
    arguments = {"net_jacobi": (APPLICATION_SIZES["jacobi"],),
                 "net_alltoall": long_time + ("--operation", "alltoall", "--sizes", ",".join(map(str, COC_SIZES)))}[program]
    return [Job(program, COC_RANKS, arguments, cluster, COC_HOSTS, environment=settings + COC_WAIT, ours_only=True,
                variant=coc_variant(wires, way)) for wires, cluster in COC_WIRES.items() for way, settings in COC_WAYS.items()]


def _udp_jobs(program, time, long_time):
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


def _place(program, ranks, cores):
    """Where a program runs that is the same on one host and on two. On hosts that share too few cores ours must be told so, see COC_WAIT."""
    if not program.startswith("net_"):
        return {}
    return dict(cluster=HOSTS, hosts=("a", "b"), environment=COC_WAIT if ranks > cores else ())


def _pairs_jobs(program, ranks, cores, time, long_time):
    kind = program.removeprefix("net_")
    jobs = []
    for count in ranks:
        own = ",".join(map(str, SIZES[program])) if program == "net_rate" else ""       # one pair has longer messages there than on a host
        sizes = map(str, COLD_SIZES) if kind == "cold" else [SEVERAL_SIZES[kind]] if count > 2 else [own]
        jobs += [Job(program, count, (long_time if count > cores else time) + (("--sizes", size) if size else ()), **_place(program, count, cores))
                 for size in sizes]
    return jobs


def _table_jobs(program, ranks, operations, cores, budget):
    short = ("--time", str(budget / 4))
    return [Job(program, count, short + ("--operation", operation) + (("--sizes", ",".join(map(str, SIZES["first calls"]))) if operation == FIRST_CALLS else ()),
                **_place(program, count, cores)) for count in ranks for operation in operations]


# The rows that tell most, in five minutes: programs, ranks, what they are to measure, and which metrics count.
QUICK = (
    ("pingpong", 2, ("--sizes", "8,4096,65536,1048576"), ("latency",)),
    ("cold", 2, ("--sizes", "8"), ("first", "first 100")),
    ("rate", 2, ("--sizes", "8,65536"), ("rate",)),
    ("bibw", 2, ("--sizes", "1048576"), ("bandwidth",)),
    ("put", 2, ("--sizes", "8"), ("latency_allocate",)),
    ("colltable", 2, ("--operation", "allreduce", "--sizes", "8,65536"), ("allreduce",)),
    ("colltable", 8, ("--operation", "barrier"), ("barrier",)),
    ("colltable", 8, ("--operation", "bcast", "--sizes", "65536"), ("bcast",)),
    ("colltable", 8, ("--operation", "alltoall", "--sizes", "4096"), ("alltoall",)),
    ("net_pingpong", 2, ("--sizes", "8,16384,1048576"), ("latency",)),
    ("net_rate", 2, ("--sizes", "64"), ("rate",)),
    ("net_bibw", 2, ("--sizes", "1048576"), ("bandwidth",)),
)


def quick_plan(only, cores):
    return [Job(program, ranks, ("--time", "0.05") + arguments, **_place(program, ranks, cores))
            for program, ranks, arguments, _ in QUICK if program in only]


def quick_rows():
    """How many there are."""
    return sum(len(metrics) * (arguments[-1].count(",") + 1) for _, _, arguments, metrics in QUICK)


def is_quick_row(key):
    return any(key[0] == program and key[1] in metrics for program, _, _, metrics in QUICK)


def plan(only, ranks, cores, smoke, operations=TABLE):
    """All jobs of one repetition. A collective has a job of its own: one that never ends costs only itself. `operations` are those of
    colltable and net_twohosts."""
    budget = 0.03 if smoke else 0.15
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
        elif program.removeprefix("net_") in PAIRS_PROGRAMS:
            jobs += _pairs_jobs(program, [count for count in ranks if count % 2 == 0], cores, time, long_time)
        elif program == "queues":
            jobs.append(Job(program, 2, time, ours_only=True))
        elif program == "rma":
            jobs += [Job(program, 2, time), *(Job(program, 2, time + ("--operation", f"swap_flush{memory}")) for memory in ("", "_create")),
                     Job(program, RMA_CROWD, long_time)]
        elif program == "threads":
            jobs.append(Job(program, 2, long_time))
        elif program == "coll":
            jobs += [Job(program, count, (long_time if count > cores else time) + ("--operation", operation))
                     for count in ranks for operation in COLLECTIVES]
        elif program in ("colltable", "net_twohosts"):
            jobs += _table_jobs(program, ranks, operations, cores, budget)
        elif program == "fuzzy":
            jobs += [Job(program, count, long_time if count > cores else time) for count in ranks]
        elif program == "background":
            jobs += [Job(program, 2, long_time, environment=settings, ours_only=True, variant=variant)
                     for variant, settings in PROGRESS_THREAD.items()]
        elif program == "cshift":
            jobs += [Job(program, count, (long_time if count > cores else time) + _CSHIFT_SIZES, ours_only=True)
                     for count in CSHIFT_RANKS]
        elif program == "laplace":
            jobs.append(Job(program, 2, (APPLICATION_SIZES[program],), ours_only=True))
        elif program in GROUPS["mcast"]:
            on_ranks = [count for count in ranks if count > 2] if program == "mcast" else [MCAST_HOST_RANKS]
            jobs += _mcast_jobs(program, on_ranks, long_time)
        elif program == "init":
            jobs += [Job(program, count) for count in ranks]
        elif program == "objects":
            # Worker threads only where they are measured.
            jobs += [Job(program, 2, time, ours_only=True), Job(program, 2, time + ("--operation", "list"), ours_only=True, variant="two workers")]
        elif program == "net_objects":
            jobs.append(Job(program, 2, time + ("--operation", "messages"), HOSTS, ("a", "b"), environment=ON_UDP, ours_only=True))
        elif program == "idle":
            jobs.append(Job(program, 2, ("--duration", "1" if smoke else "3")))
        else:
            jobs_of = _udp_jobs if program in UDP_PROGRAMS else _sync_jobs if program in GROUPS["sync"] else _composite_jobs
            jobs += jobs_of(program, time, long_time)
    return jobs

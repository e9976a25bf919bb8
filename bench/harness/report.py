"""The tables on the terminal, and bench/results.md from what is recorded in bench/data. In both every figure is a ratio first; the times and
rates that it comes from stand beside it. Rows won and lost are counted by table, and nothing is chosen."""

import string
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from . import bars as bars_module, record, short
from .measure import DISTURBED
from .plan import (ALONE, APPLICATION_RANKS, APPLICATION_SIZES, BY_ALL, COC_COLLECTIVES, COC_RANKS, COMPOSITE, CROWD, LARGE, MCAST_COMPARED, MCAST_MANY, OPEN,
                   PROGRAMS, RANKS, RECOVERIES, WITH_THREAD, WITHOUT_THREAD, coc_variant, is_quick_row, loss_variant, plan, quick_rows)
from .summary import JUDGED, NOISE, NOISE_OF_FEW, Summary, geometric_mean
from .text import markdown_table, number, plain_table, quantities, quantity, size_text, spread

INIT_NAMES = {"init": "MPI_Init", "init_last": "MPI_Init from the last call on", "job": "whole job",
              "rss": "RSS after MPI_Init", "pss": "PSS after MPI_Init", "rss_all_pairs": "RSS, all pairs talked",
              "pss_all_pairs": "PSS, all pairs talked", "hwm": "highest RSS"}


@dataclass(frozen=True)
class Section:
    title: str
    program: str
    wanted: object          # which keys belong here
    label: object           # what the first column says
    note: str = ""
    order: object = None    # sorts the keys; None: as measured
    between_hosts: bool = False
    baseline: tuple = ()    # a name, and a function from a key to the key it is also compared with
    columns: object = None  # ratios of its own: a function of summary and MPIs; None: ours against the peers
    values: object = None   # quantities of its own, as (MPI, key); None: one for each MPI
    counted: bool = True    # among the rows won and lost; not what another table says already
    slack: float = None     # how much slower a row may be; None: none may be lost
    together: bool = False  # all numbers of ranks for which there are cores are one table
    matrix: bool = False    # operations by sizes, a table for each number of ranks


def _size(key):
    return size_text(key[2])


def _put_label(key):
    return f"{size_text(key[2])} {key[1].split('_')[0]}"


def _put_wanted(kind):
    """Time for short puts, bandwidth for long ones: one says what the other says."""
    return lambda key: (key[1] == f"latency_{kind}" and key[2] < 65536) or (key[1] == f"bandwidth_{kind}" and key[2] >= 65536)


RMA_OPERATIONS = {"put": "put", "get": "get", "acc": "accumulate", "get_acc": "get_accumulate", "fetch": "fetch_and_op", "swap": "compare_and_swap"}
RMA_WAYS = {"flush": "flush", "lock": "lock, unlock", "fence": "fence", "pscw": "post, start, complete, wait", "stream": "64, then a flush",
            "crowd": "flush, all ranks to one"}


def _rma_label(key):
    if ", " in key[1]:      # over a device
        return f"{_rma_label(_without_variant(key))}, {_variant(key)}"
    operation, way = key[1].removesuffix("_create").rsplit("_", 1)
    return f"{size_text(key[2])} {RMA_OPERATIONS[operation]}, {RMA_WAYS[way]}"


def _rma_sections():
    def section(title, wanted, note=""):
        return Section(f"One-sided, {title}", "rma", wanted, _rma_label, note)
    return [
        section("memory of MPI_Win_allocate", lambda key: key[3] == 2 and not key[1].endswith("_create"),
                "Rank 0 on memory of rank 1, which waits in MPI or takes part as the synchronisation asks it to."),
        section("memory of the user (MPI_Win_create)", lambda key: key[3] == 2 and key[1].endswith("_create")),
        section("many ranks at once", lambda key: key[3] > 2, "All ranks but one on memory of that one: one counter, and 1 KB for each."),
    ]


def _table_label(key):
    return f"{key[1]}{' ' + size_text(key[2]) if key[2] else ''}, {key[3]} ranks"


def _is_first(key):
    return key[1].endswith((" first", " later"))


def _table_sections(program, where, note):
    return [
        Section(f"Every collective{where}", program, lambda key: not _is_first(key), _table_label,
                "Time of a call after a barrier, mean over the ranks; the root is rank 0. `written`: the caller has written its buffer before each "
                f"call.{note} Each figure is ours/better with its quartiles; bold ones are lost.", lambda key: key[3], matrix=True),
        Section(f"First calls{where}", program, lambda key: key[1].endswith(" first"), lambda key: _table_label(key).replace(" first", ""),
                f"The first call on a new communicator.{note} `/later`: against the tenth on the same communicator.", lambda key: key[3],
                baseline=("later", lambda key: (key[0], key[1].replace("first", "later"), *key[2:]))),
    ]


def _matrix(summary, keys):
    """All ratios of these keys, a table for each number of ranks: operations by sizes."""
    sizes = sorted({key[2] for key in keys if key[2]}) or [0]
    lines = []
    for ranks in sorted({key[3] for key in keys}):
        ratios = {}
        for key in keys:
            better = summary.better_peer(key)
            if key[3] == ranks and better:
                mark = "**" if summary.verdict(key, better) == "lost" else ""
                ratios[key[1], key[2]] = mark + _ratio_cell(summary, ("ours", better, key)) + mark
        names = dict.fromkeys(name for name, _ in ratios)
        rows = [[name] + [ratios.get((name, size)) or (ratios.get((name, 0), "") if size == sizes[0] else "") for size in sizes] for name in names]
        lines += [f"{ranks} ranks:", "", markdown_table([""] + [size_text(size) for size in sizes], rows), ""]
    return lines


def _variant(key):
    """What follows the name of the metric."""
    return key[1].split(", ", 1)[1]


def _without_variant(key):
    return (key[0], key[1].split(", ")[0], *key[2:])


def _with_variant(key, variant):
    return (key[0], f"{key[1].split(', ')[0]}, {variant}", key[2], key[3])


def _named(key):
    """The same with a named source."""
    return (key[0], key[1].replace("latency", "named"), *key[2:])


def _alone(key):
    return ("net_all_open", f"latency, {ALONE}", key[2], sum(int(host.split(":")[1]) for host in OPEN[ALONE][0]))


def _composite(key):
    return _with_variant(key, coc_variant(_variant(key).split(", ")[0], COMPOSITE))


IDLE_NAMES = {"idle_messages": "messages", "idle_wakeups": "wake-ups, more than without, mean of all rounds",
              "idle_wakeups_most": "wake-ups, more than without, worst round", "idle_wakeups_at_rest": "wake-ups without, mean of all rounds"}
OTHER_WAYS = ("bcast", "create", "send")


def _other_ways(suffix):
    """Ratios of the other ways to our multicast; of the peers, which have none, those with a ready communicator."""
    def columns(summary, mpis):
        def ratio(mpi, way):
            return lambda key: (mpi, "ours", (key[0], key[1].replace(f"mcast{suffix}", way + suffix), *key[2:]), key)
        return ([(f"{way}/mcast", ratio("ours", way)) for way in OTHER_WAYS]
                + [(f"{mpi.name} bcast/mcast", ratio(mpi.name, "bcast")) for mpi in mpis if mpi.name != "ours"])
    return columns


def _no_ratios(summary, mpis):
    """Only ours can do it."""
    return []


def _mcast_sections(program, name, hosts_note):
    def section(title, suffix, note):
        return Section(f"{name}: {title}", program,
                       lambda key: key[1].startswith(f"mcast{suffix}, ") and key[2] in (*MCAST_COMPARED, 1 << 20),
                       lambda key: f"{size_text(key[2])}, {_variant(key)}", note,
                       lambda key: (key[3], int(_variant(key).split()[0]), key[2]), columns=_other_ways(suffix))
    return [
        section("until the master knows that all have it", "", "Rank 0 sends to some of its workers: by MPIX_Mcast to a bitmap "
                "(`mcast`), MPI_Bcast on a communicator made before (`bcast`), MPI_Comm_create_group, MPI_Bcast and MPI_Comm_free "
                "(`create`), one MPI_Send after the other (`send`). Mean of up to 100 runs without the top and bottom 10 %. A "
                f"ratio above 1 says that `mcast` is faster; the peers have none and are compared with ours.{hosts_note} In this "
                "time are the messages by which each member says that it has the data; they are the same for all ways."),
        section("until the last member has it", "_arrived", "The same runs, by the clock that all ranks of a machine share."),
        section("until the master's call returns", "_call", "The same runs: how long the master is kept."),
        Section(f"{name}: workers that are no members", program, lambda key: key[1] in IDLE_NAMES,
                lambda key: f"{IDLE_NAMES[key[1]]}, {_ranks(key)}", "During 1000 multicasts of 1 KB to others, "
                "blocked in MPI_Recv: messages sent and received, and how often the process woke up; the most of any such worker.", columns=_no_ratios),
    ]


# Of notify and fuzzy: what a row says of its metric.
NOTIFY_WAYS = {"put_notify": "put and notify", "put_notify_created": "put and notify, memory of the user", "put_flag": "put and flag",
               "put_flush_send": "put, flush and send", "send": "send"}
NOTIFY_CALLS = {"call": "MPIX_Put_notify", "call_put": "MPI_Put", "call_isend": "MPI_Isend"}
BARRIERS = {"barrier": "MPI_Barrier", "ibarrier": "MPI_Ibarrier and MPI_Wait", "ibarrier_8": "MPI_Ibarrier, 8 in flight",
            "bitmap": "MPIX_Bitmap_barrier", "fuzzy": "start and wait", "fuzzy_8": "start and wait, 8 in flight", "fuzzy_64": "start and wait, 64 in flight"}


def _metric_and_device(key):
    """The device is empty on this machine, where there is only one."""
    metric, _, device = key[1].partition(", ")
    return metric, device


def _notify_sections(program, name, note):
    def wanted(suffix, names):
        return lambda key: _metric_and_device(key)[0] in [metric + suffix for metric in names]

    def label(suffix, names):
        def text(key):
            metric, device = _metric_and_device(key)
            return ", ".join(part for part in (_size(key), device, names[metric.removesuffix(suffix)]) if part)
        return text

    def order(suffix, names):
        return lambda key: (_metric_and_device(key)[1], key[2], list(names).index(_metric_and_device(key)[0].removesuffix(suffix)))

    def baseline(metric):
        return lambda key: (key[0], ", ".join(part for part in (metric, _metric_and_device(key)[1]) if part), *key[2:])

    long = 65536        # time for short ones, bandwidth for long ones: one says what the other says
    return [
        Section(f"{name}: one-way time", program, lambda key: key[2] < long and wanted("", NOTIFY_WAYS)(key), label("", NOTIFY_WAYS),
                f"Ping-pong{note} in which a rank that gets data is also told so: by MPIX_Put_notify and MPIX_Win_wait_notify, in "
                "memory of MPI_Win_allocate and of the user; by MPIX_Put_flag and a look at the own memory; by MPI_Put, "
                "MPI_Win_flush and an empty message; by MPI_Send and MPI_Recv. `/send`: against this last one, in the same job.",
                order("", NOTIFY_WAYS), baseline=("send", baseline("send"))),
        Section(f"{name}: bandwidth", program, lambda key: key[2] >= long and wanted("_bandwidth", NOTIFY_WAYS)(key),
                label("_bandwidth", NOTIFY_WAYS), "Size over the one-way time of the same ping-pong.",
                order("_bandwidth", NOTIFY_WAYS), baseline=("send", baseline("send_bandwidth"))),
        Section(f"{name}: time of a call that does not wait", program, wanted("", NOTIFY_CALLS), label("", NOTIFY_CALLS),
                "What the caller spends: 64 are issued, which alone is timed, and then completed. `/isend`: against MPI_Isend.",
                order("", NOTIFY_CALLS), baseline=("isend", baseline("call_isend"))),
    ]


def _fuzzy_section(program, title, note):
    return Section(title, program, lambda key: True, lambda key: f"{BARRIERS[key[1]]}, {_ranks(key)}",
                   "Time per barrier, of the slowest rank. `start and wait`: MPIX_Barrier_start and MPIX_Barrier_wait; with several in "
                   f"flight, all are started before the first one is waited for. The bitmap of MPIX_Bitmap_barrier has all ranks. `/barrier`: against MPI_Barrier, in the same job.{note}",
                   lambda key: (key[3], list(BARRIERS).index(key[1])),
                   baseline=("barrier", lambda key: (key[0], "barrier", *key[2:])))


CSHIFT_MODES = {"entry": "barrier before each shift", "reclaim": "barrier at the end of an array", "none": "no barrier"}
LAPLACE_WAYS = {"serial": "one rank alone", "exchange": "exchange, then compute", "overlap": "compute the inside meanwhile"}


def _cshift_section(program, title, note):
    def label(key):
        mode, device = _metric_and_device(key)
        return ", ".join(part for part in (f"{key[2]} x {key[2]}", device or _ranks(key), CSHIFT_MODES[mode]) if part)

    def none(key):
        return (key[0], key[1].replace(_metric_and_device(key)[0], "none"), *key[2:])

    return Section(title, program, lambda key: True, label, "Time of a shift by one row in `examples/cshift.cc`, of the slowest rank, "
                   "with a barrier at the beginning of every shift, at the end of an array's life where nobody waits for it, and "
                   f"without any. `/none`: against this last one, in the same job.{note}",
                   lambda key: (_metric_and_device(key)[1], key[3], key[2], list(CSHIFT_MODES).index(_metric_and_device(key)[0])),
                   baseline=("none", none), columns=_no_ratios)


# Of background: what a row says of its metric. A row is a result without the thread; the one with it stands beside.
BACKGROUND = {"latency": "8 B one-way time", "computing": "computing in both ranks", "seen": "until the start is seen, median",
              "seen_most": "until the start is seen, 9 of 10 rounds"}


# Of objects: what a row says of its metric.
OBJECTS = {"mpi_one_way": "MPI_Send and MPI_Recv, one way", "past": "past message", "now": "now, there and back", "local_past": "past message in a process",
           "switch": "switch of methods", "future_local": "call in a thread, by get()", "trap": "call in a thread, by a trap",
           "use_of_future": "one use of a future", "use_of_trap": "one use of a trap", "create": "creating an object in a process",
           "object_bytes": "memory of an object", "list_common": "list in four objects, one heap", "list_own": "list in four objects, own heaps"}


def _objects_section(program, title, note):
    def metric(key):
        return key[1].split(", ")[0]

    return Section(title, program, lambda key: True, lambda key: OBJECTS[metric(key)] + (f", {size_text(key[2])}" if key[2] in (8, 1 << 20) else ""),
                   f"Messages between objects ([doc/objects.md](../doc/objects.md)) and between MPI ranks, in the same job.{note}",
                   lambda key: (list(OBJECTS).index(metric(key)), key[2]), columns=_no_ratios)


def _background_section():
    def with_thread(key):
        return _with_variant(key, WITH_THREAD)

    return Section("The progress thread", "background", lambda key: _variant(key) == WITHOUT_THREAD,
                   lambda key: BACKGROUND[key[1].split(", ")[0]],
                   "The same program without and with `MPIR_CVAR_ASYNC_PROGRESS=1`, 2 ranks. The first row is what the thread costs a "
                   "program that makes calls all the time; the second what it costs one that makes none, a fixed amount of computing "
                   "in both ranks; the others what it brings to one that computes and looks at a flag: how long it does not know that "
                   "the other rank has started a fuzzy barrier. Without the thread it learns that in its next call, here after 5 ms "
                   "of computing; with it as soon as the thread has woken up, which naps for half a millisecond at a time while the "
                   "rank makes calls itself.",
                   columns=lambda summary, mpis: [("with/without", lambda key: ("ours", "ours", with_thread(key), key))],
                   values=[("without", lambda key: ("ours", key)), ("with", lambda key: ("ours", with_thread(key)))])


def _ranks(key):
    return f"{key[3]} rank" + ("s" if key[3] > 1 else "")


def _on_ranks(ranks):
    return lambda key: (*key[:3], ranks)


def _pairs_sections(prefix, first_use, rate, both, note):
    return [
        Section(first_use, prefix + "cold", lambda key: True, lambda key: f"{_size(key)}, {key[1]}, {_ranks(key)}",
                "One-way time: the means of the first 1, 10 and 100 ping-pongs of a job, and of many later ones; of several pairs at once, the slowest."
                + note, lambda key: key[3], baseline=("later", lambda key: (key[0], "later", *key[2:]))),
        Section(rate, prefix + "rate", lambda key: True, lambda key: f"{_size(key)}, {_ranks(key)}",
                "One direction, a window of 64 messages, all pairs together." + note, lambda key: key[3]),
        Section(both, prefix + "bibw", lambda key: True, lambda key: f"{_size(key)}, {_ranks(key)}",
                "Both directions together, a window of 4 messages, all pairs together." + note, lambda key: key[3]),
    ]


# Between hosts. The MPIs of these sections are those with an environment for it.
NETWORK_SECTIONS = [
    Section("Between hosts: one-way time", "net_pingpong", lambda key: key[1] == "latency", _size,
            "One rank on each of two hosts, `ours` over UDP, `mpich` over TCP (`UCX_TLS=tcp,self`). Hosts are network "
            "namespaces joined by a bridge (`test/coc/cluster`, `test/coc/four-hosts`)."),
    Section("Between hosts: bandwidth", "net_pingpong", lambda key: key[1] == "bandwidth" and key[2] >= 4096, _size,
            "Message size over the one-way time of the same ping-pong. The kernel may hand over 64 KB at once, as with a network "
            "card that cuts messages up.", counted=False),
    *_pairs_sections("net_", "Between hosts: first use", "Between hosts: message rate", "Between hosts: both directions",
                     " The two of a pair are on two hosts, `ours` over UDP, the others over TCP."),
    *_table_sections("net_twohosts", " on two hosts", " `ours` over UDP between hosts, the others over TCP."),
    Section("Between hosts: all to one", "net_alltoone", lambda key: True, lambda key: f"{size_text(key[2])}, {_ranks(key)}",
            f"Messages a second at rank 0, to which all others send blocks of 64. 2 ranks are on two hosts; {CROWD} are on "
            "four, so that the others of rank 0's host come over shared memory.",
            baseline=("one pair", _on_ranks(2)), together=True),
    Section("Between hosts: loss", "net_loss", lambda key: key[1].startswith("bandwidth"),
            lambda key: f"{_size(key)}, {_variant(key)}",
            "Bandwidth of a ping-pong when packets are lost, each by itself: here the kernel may not hand over more than a "
            "packet at once (`test/coc/lossy-hosts`), which slows everything.",
            baseline=("lossless", lambda key: _with_variant(key, loss_variant(0)))),
    Section("Between hosts: ways of recovery", "net_recovery", lambda key: key[1].startswith("bandwidth"),
            lambda key: f"{_size(key)}, {_variant(key)}",
            "The same, with `MPIR_CVAR_CH4_COMPOSITE_UDP_RECOVERY` set.",
            baseline=(RECOVERIES[0], lambda key: _with_variant(key, f"{_variant(key).split(', ')[0]}, {RECOVERIES[0]}"))),
    Section("Between hosts: sockets", "net_sockets", lambda key: True, lambda key: f"{key[1].upper()}, {_ranks(key)}",
            "The most that any rank has open when all pairs have talked.", counted=False),
    Section("Between hosts: SOR", "net_sor", lambda key: True, _ranks,
            f"Time of `examples/sor.c` with {APPLICATION_SIZES['sor']} points: neighbours exchange rows.",
            baseline=("one rank", _on_ranks(1)), together=True),
    Section("Between hosts: Othello", "net_othello", lambda key: True, _ranks,
            f"Time of `examples/othello.c` to depth {APPLICATION_SIZES['othello']}: rank 0 hands out positions, so 2 ranks are not "
            "faster than one.",
            baseline=("one rank", _on_ranks(1)), together=True),
    *_mcast_sections("net_mcast", "Multicast between hosts", " Two ranks on each of four hosts; those that wait do not poll "
                     "(`MPIR_CVAR_CH4_COMPOSITE_WAIT=sleep`), since all hosts share the same cores."),
    Section("Between hosts over UCX: one-way time", "net_ucx", lambda key: key[1] == "latency", _size,
            "One rank on each of two hosts, both MPIs with the same UCX, transport and interface (`UCX_TLS=tcp,self`, "
            "`UCX_NET_DEVICES=lan`).", slack=1.15),
    Section("Between hosts over UCX: bandwidth", "net_ucx", lambda key: key[1] == "bandwidth" and key[2] >= 4096, _size,
            "Message size over the one-way time of the same ping-pong.", counted=False),
    Section("One-sided between hosts", "net_rma", lambda key: "_create" not in key[1], _rma_label,
            "One rank on each of two hosts, memory of MPI_Win_allocate; over UCX both MPIs with the same transport and interface."),
    Section("Between hosts: one-way time with MPI_ANY_SOURCE", "net_anysource", lambda key: key[1].startswith("latency"),
            lambda key: f"{_size(key)}, {_variant(key)}", "`/named`: against receives that name the other rank, in the same job.",
            baseline=("named", _named)),
    Section("Several devices open", "net_all_open", lambda key: key[1].startswith("latency"),
            lambda key: f"{_size(key)}, {_variant(key)}",
            "One-way time between two ranks of a host, while they have peers on other hosts by other devices "
            "(`test/coc/two-networks`). These peers sleep in MPI_Recv.", baseline=("alone", _alone)),
    Section("Several devices open: the peers that sleep", "net_all_open", lambda key: key[1].startswith("idle"), _variant,
            "Share of a core that the busiest of them used meanwhile."),
    Section("Start on a cluster of clusters", "net_init", lambda key: True,
            lambda key: f"{INIT_NAMES[key[1].split(', ')[0]]}, {_variant(key)}",
            f"MPI_Init in the slowest of {COC_RANKS} ranks on 12 hosts (`test/coc/figure-3`), and from the last rank's call "
            "to the last return, which leaves out how long the hosts take to start their ranks. `composite` opens SHMEM, UCX and "
            "UDP; `mpich` is over TCP on the LAN."),
    Section("A cluster of clusters: Jacobi", "net_jacobi", lambda key: True, _variant,
            f"Time of `examples/jacobi.c`, {APPLICATION_SIZES['jacobi']} iterations, {COC_RANKS} ranks on the 12 hosts of the "
            "paper's figure 3. `composite` is SHMEM within a host, UCX (over TCP) on each of the two system area networks, UDP on "
            "the LAN between them; the paper leaves open whether mixing them pays off. A ratio above 1 says that `composite` is "
            "faster. On `equal networks` the devices are all that differs; on the `slow LAN` each packet goes by itself. All "
            "hosts share the same cores, so a rank that waits does not poll (`MPIR_CVAR_CH4_COMPOSITE_WAIT=sleep`).", baseline=("composite", _composite)),
    Section("A cluster of clusters: all-to-all", "net_alltoall", lambda key: True, lambda key: f"{_size(key)}, {_variant(key)}",
            "Time of MPI_Alltoall by the size of the block for each pair, on the same ranks and hosts.",
            lambda key: key[2], baseline=("composite", _composite)),
    Section("A cluster of clusters: collectives", "net_colltable", lambda key: True,
            lambda key: key[1].split(", ")[0] + (f" {_size(key)}" if key[2] else "") + f", {_variant(key)}",
            f"Time of a call, mean of {COC_RANKS} ranks on the same hosts. `by leaders`: one rank of each host sends and receives between hosts, and one "
            "host of each cluster between clusters (doc/collectives.md). `by all`: by MPICH's algorithms over the same devices, as if each rank were on a "
            "host of its own (`MPIR_CVAR_NOLOCAL=1`, `MPIR_CVAR_CH4_COMPOSITE_COLL_...=messages`). `/by all`: against it.",
            lambda key: (list(COC_COLLECTIVES).index(key[1].split(", ")[0]), key[2]),
            baseline=(BY_ALL, lambda key: _with_variant(key, BY_ALL))),
    *_notify_sections("net_notify", "Put and notify between hosts", " between one rank on each of two hosts,"),
    _fuzzy_section("net_fuzzy", "Barriers between hosts", " One rank and two on each of four hosts, `ours` over UDP, `mpich` over "
                   "TCP; of ours those that wait do not poll (`MPIR_CVAR_CH4_COMPOSITE_WAIT=sleep`), since all hosts share the same cores."),
    _cshift_section("net_cshift", "Circular shift between hosts", " One rank on each of two hosts."),
    _objects_section("net_objects", "Objects between hosts", " One rank on each of two hosts, over UDP."),
]

SECTIONS = [
    Section("One-way time", "pingpong", lambda key: key[1] == "latency", _size, "Ping-pong between two ranks."),
    Section("Bandwidth", "pingpong", lambda key: key[1] == "bandwidth" and key[2] >= 4096, _size,
            "Message size over the one-way time of the same ping-pong.", counted=False),
    Section("One-way time with MPI_ANY_SOURCE", "anysource", lambda key: key[1] == "latency", _size,
            "`/named`: against receives that name the other rank, in the same job.", baseline=("named", _named)),
    Section("One-way time of strided vectors", "strided", lambda key: True, _size, "Blocks of 64 bytes, and as many between them."),
    Section("Both ways at once", "sendrecv", lambda key: True, lambda key: f"{key[1]} {_size(key)}",
            "Time until both ranks have sent and received: a message each by MPI_Sendrecv, and two each, as to the neighbours of a ring."),
    Section("Queues", "queues", lambda key: True, lambda key: f"{key[2]:,} {key[1]}",
            "Time of a message of 4 bytes and a tag of its own where so many receives are posted before the first one comes, or so many messages wait before the "
            "first receive; asked for in the order of sending, or in reverse. `/100`: against 100 of them, in the same job.",
            columns=_no_ratios, baseline=("100", lambda key: (*key[:2], 100, key[3]))),
    *_pairs_sections("", "First use", "Message rate", "Bi-directional bandwidth", ""),
    Section("Threads", "threads", lambda key: True, lambda key: f"{_size(key)}, {key[1]}",
            "Messages a second between two ranks under MPI_THREAD_MULTIPLE, both ways together: rank 0 with one thread that sends "
            "and receives in turn, with a thread for each, and both ranks with a thread for each; then both with 2, 4 and "
            "8 threads, each of which sends and receives in turn on a communicator of its own. All but the first have more threads than two cores.", baseline=("one thread", lambda key: (key[0], "one thread", *key[2:]))),
    Section("Put and flush, memory of MPI_Win_allocate", "put", _put_wanted("allocate"), _put_label),
    Section("Put and flush, memory of the user (MPI_Win_create)", "put", _put_wanted("create"), _put_label),
    *_rma_sections(),
    *_notify_sections("notify", "Put and notify", " between two ranks,"),
    Section("Collectives", "coll", lambda key: True,
            lambda key: f"{key[1]}{' ' + size_text(key[2]) if key[2] else ''}, {key[3]} ranks",
            "Time per operation, of the slowest rank. The root of the broadcast moves; 4 KB of the all-to-all is what each "
            "pair exchanges."),
    *_table_sections("colltable", "", ""),
    _fuzzy_section("fuzzy", "Barriers", ""),
    _background_section(),
    _cshift_section("cshift", "Circular shift", ""),
    _objects_section("objects", "Objects", " Two ranks. The list has a million elements and runs on two worker threads; memory is beside the object's own data."),
    Section("Laplace's equation", "laplace", lambda key: True, lambda key: LAPLACE_WAYS[key[1]],
            "Time of an iteration of `examples/laplace.c` on 1024 x 1024 points and 2 ranks, which write their border rows with "
            "MPIX_Put_notify and then wait for those of the other, or compute first what does not depend on them. `/exchange`: "
            "against waiting first, in the same job.", columns=_no_ratios,
            baseline=("exchange", lambda key: (key[0], "exchange", *key[2:]))),
    *_mcast_sections("mcast", "Multicast", ""),
    Section("Multicast: the master's own time", "mcast", lambda key: key[3] == MCAST_MANY,
            lambda key: f"{size_text(key[2])}, {_variant(key)}", f"Time of a call of MPIX_Mcast with {MCAST_MANY} ranks, by the number "
            "of members.", columns=_no_ratios, baseline=("2 members", lambda key: _with_variant(key, "2 members"))),
    Section("Start and memory", "init", lambda key: True, lambda key: f"{INIT_NAMES.get(key[1], key[1])}, {key[3]} ranks",
            "MPI_Init in the slowest rank; the whole job is mpiexec from start to end; memory is the mean over the ranks.",
            lambda key: (key[3], list(INIT_NAMES).index(key[1]))),
    Section("A rank blocked in MPI_Recv", "idle", lambda key: True, lambda key: "share of a core"),
] + [replace(section, between_hosts=True) for section in NETWORK_SECTIONS]


def _columns(summary, mpis):
    """(heading, function from a key to what the ratio is of) for each ratio."""
    names = [mpi.name for mpi in mpis]
    peers = [name for name in names if name != "ours"]
    if not peers:
        return []
    if "ours" not in names:
        return [(f"{peers[0]}/{peers[1]}", lambda key: (peers[0], peers[1], key))] if len(peers) == 2 else []
    columns = [(f"ours/{peer}", lambda key, peer=peer: ("ours", peer, key)) for peer in peers]
    if len(peers) > 1:
        columns.insert(0, ("ours/better", lambda key: ("ours", summary.better_peer(key), key)))
    return columns


def _ratio_cell(summary, of):
    return spread(summary.ratio(*of), summary.ratio_quartiles(*of))


def _keys(summary, section):
    keys = [key for key in summary.keys(section.program) if section.wanted(key)]
    return sorted(keys, key=section.order) if section.order else keys


def _section_rows(summary, mpis, section, keys, with_quartiles=False):
    """Headings and rows for these keys. On a terminal the quartiles of the quantities are left out."""
    columns = section.columns(summary, mpis) if section.columns else None
    if section.between_hosts or columns is not None:
        mpis = [mpi for mpi in mpis if any(summary.value(mpi.name, key) is not None for key in keys)]
    if columns is None:
        columns = _columns(summary, mpis)
    if section.baseline:
        name, baseline_of = section.baseline
        columns += [(f"{mpi.name}/{name}", lambda key, mpi=mpi: (mpi.name, mpi.name, key, baseline_of(key))) for mpi in mpis]
    values = section.values or [(mpi.name, lambda key, mpi=mpi: (mpi.name, key)) for mpi in mpis]

    def value_cell(key, of):
        return quantities(summary.value(*of), summary.quartiles(*of) if with_quartiles else None, summary.units[key])

    rows = [[section.label(key)] + [_ratio_cell(summary, ratio(key)) for _, ratio in columns] + [value_cell(key, value(key)) for _, value in values]
            for key in keys]
    return [""] + [heading for heading, _ in columns + values], rows


def _better(summary, keys):
    directions = {summary.higher_is_better(key) for key in keys}
    if len(directions) > 1:
        return "latency: lower is better; bandwidth: higher is better"
    return "higher is better" if True in directions else "lower is better"


@dataclass
class Table:
    """The rows of a section on a number of ranks, and how they stand against the better peer and each of them."""
    title: str
    section: Section
    crowded: bool           # more ranks than cores
    keys: list
    repetitions: int        # of the row with the fewest
    counts: dict = field(default_factory=dict)      # {peer or "better": Counter of "won", "noise", "lost"}
    slowness: list = field(default_factory=list)    # of each row, against the better peer: above 1 ours is slower

    @property
    def command(self):
        return f"bench/run --only {self.section.program}"

    @property
    def place(self):
        return ("between hosts" if self.section.between_hosts else "one host") + (", more ranks than cores" if self.crowded else ", a core for each rank")


def _count(summary, table):
    for key in table.keys:
        better = summary.better_peer(key)
        for name, peer in [("better", better), *((peer, peer) for peer in summary.peers)]:
            verdict = summary.verdict(key, peer)
            if verdict:
                table.counts.setdefault(name, Counter())[verdict] += 1
        ratio = summary.ratio("ours", better, key)
        if ratio:
            table.slowness.append(1 / ratio if summary.higher_is_better(key) else ratio)
    return table


def tables(summary, cores):
    """All tables in which ours and a peer can be compared."""
    found = []
    for section in SECTIONS if any(summary.value("ours", key) is not None for key in summary.keys()) else []:
        groups = {}
        for key in _keys(summary, section) if section.counted else []:
            if summary.better_peer(key):
                groups.setdefault((key[3] > cores, 0 if section.together else key[3]), []).append(key)
        for (crowded, ranks), keys in sorted(groups.items()):
            title = section.title + (f", {ranks} ranks" if ranks and len(groups) > 1 else "") + (", more ranks than cores" if crowded else "")
            found.append(_count(summary, Table(title, section, crowded, keys, min(summary.repetitions("ours", key) for key in keys))))
    return found


def _counted_row(title, group, peers):
    def cell(peer):
        counts = sum((table.counts.get(peer, Counter()) for table in group), Counter())
        return " / ".join(str(counts[verdict]) for verdict in ("won", "noise", "lost")) if counts else "-"

    slowness = [value for table in group for value in table.slowness] if len({table.place for table in group}) == 1 else []
    return [title, str(sum(len(table.keys) for table in group)), cell("better"),
            number(geometric_mean(slowness)), *(cell(peer) for peer in peers),
            str(min(table.repetitions for table in group))]


def counted(found, peers, machine_of=None):
    """Headings and rows: by place, all, and each table. `machine_of` are the letters of the machines of programs, where there are several."""
    places = [(place, [table for table in found if table.place == place]) for place in dict.fromkeys(table.place for table in found)]
    groups = places + ([("all", found)] if len(places) > 1 else [])
    rows = [_counted_row(f"**{place}**", group, peers) for place, group in groups] + [_counted_row(table.title, [table], peers) for table in found]
    headings = ["Table", "Rows", "Better peer", "Mean", *peers, "Repetitions"]
    if machine_of:
        letters = [{machine_of[table.section.program] for table in group} for group in [*(group for _, group in groups), *([table] for table in found)]]
        return headings + ["Machine"], [row + [", ".join(sorted(one))] for row, one in zip(rows, letters)]
    return headings, rows


COUNTED_NOTE = ("Rows **won / within noise / lost**, against the better peer and against each. Won or lost: three quarters of the repetitions say so, and the "
                f"median differs by more than {100 * NOISE:.0f} % (with fewer than {JUDGED} repetitions {100 * NOISE_OF_FEW:.0f} %). Mean: the geometric one "
                "of ours/better, turned so that below 1 ours is better. What one table says and another one says as well is counted once.")
CROWDED_NOTE = ("More ranks than cores: these rows compare ways of waiting, not ways of sending. Who polls keeps the one from running for whom he waits; `ours` "
                "sleeps, `openmpi` yields its core, MPICH's own device polls.")


PLOTS = (("One-way time", "latency"), ("Bandwidth", "bandwidth"), ("Collectives", "collectives"),
         ("Between hosts: one-way time", "net_latency"), ("Between hosts: bandwidth", "net_bandwidth"),
         ("Between hosts over UCX: one-way time", "ucx_latency"), ("Between hosts over UCX: bandwidth", "ucx_bandwidth"),
         ("Multicast: until the master knows that all have it", "mcast"),
         ("Multicast between hosts: until the master knows that all have it", "net_mcast"),
         ("A cluster of clusters: Jacobi", "coc"))
CALL = 44 * 1448        # bytes that a raw UDP stream gives the kernel at once

LIMIT_ROWS = [
    # (title, what the MPIs do, what the machine does)
    ("8 B one-way time / core-to-core flag", ("pingpong", "latency", 8, 2), ("limits", "flag", 8, 0)),
    ("64 KB bandwidth / one CMA call", ("pingpong", "bandwidth", 65536, 2), ("limits", "cma", 65536, 0)),
    ("1 MB bandwidth / one CMA call", ("pingpong", "bandwidth", 1 << 20, 2), ("limits", "cma", 1 << 20, 0)),
    ("4 MB bandwidth / one CMA call", ("pingpong", "bandwidth", 4 << 20, 2), ("limits", "cma", 4 << 20, 0)),
    ("1 MB bandwidth / memcpy", ("pingpong", "bandwidth", 1 << 20, 2), ("limits", "memcpy", 1 << 20, 0)),
    ("4 MB bandwidth / memcpy", ("pingpong", "bandwidth", 4 << 20, 2), ("limits", "memcpy", 4 << 20, 0)),
    ("8 ranks' barrier / hand-off between two processes of a core", ("coll", "barrier", 0, 8), ("limits", "handoff", 8, 0)),
    ("8 B one-way time between hosts / raw UDP", ("net_pingpong", "latency", 8, 2), ("net_limits", "udp", 8, 0)),
    ("2 MB bandwidth between hosts / raw UDP stream", ("net_pingpong", "bandwidth", LARGE, 2), ("net_limits", "stream", CALL, 0)),
    ("2 MB bandwidth between hosts, single packets / raw UDP stream",
     ("net_loss", f"bandwidth, {loss_variant(0)}", LARGE, 2), ("net_limits", "stream, packets", CALL, 0)),
]


def _limit_rows(summary, mpis):
    headings = ["", *[f"{mpi.name}/limit" for mpi in mpis], "limit"]
    rows = []
    for title, key, limit_key in LIMIT_ROWS:
        limit = summary.value("machine", limit_key)
        if limit is None or key not in summary.units:
            continue
        ratios = [summary.ratio(mpi.name, "machine", key, limit_key) for mpi in mpis]
        if any(ratios):
            rows.append([title] + [number(ratio) for ratio in ratios] + [quantity(limit, summary.units[limit_key])])
    return headings, rows


def _limit_lines(summary, mpis):
    headings, rows = _limit_rows(summary, mpis)
    return ["## Against the machine", "", "`bench/run --only limits,pingpong,coll,net_limits,net_pingpong,net_loss`", "",
            "What the machine does without MPI (`bench/limits.cc`) is 1. Two cores can copy together, so a bandwidth "
            "above one CMA call is possible.", "", markdown_table(headings, rows), "", _socket_sentence(summary), ""] if rows else []


def _socket_sentence(summary):
    flag = summary.value("machine", ("limits", "flag", 8, 0))
    parts = []
    for metric, title in (("udp", "UDP"), ("tcp", "TCP"), ("udp_blocking", "UDP, asleep"), ("tcp_blocking", "TCP, asleep")):
        value = summary.value("machine", ("limits", metric, 8, 0))
        if flag and value:
            parts.append(f"{title} {number(value / flag)} ({quantity(value, 'us')})")
    return f"8 B one-way over loopback sockets, in core-to-core flags: {'; '.join(parts)}." if parts else ""


def _paper_lines(summary, cores):
    """The measurements of the paper that PM(UDP) starts from, beside ours. It prints its times as graphs only."""
    def against_tcp(*key):
        return number(summary.ratio("ours", "mpich", key))

    def application(program):
        return ", ".join(f"{against_tcp(program, 'time', 0, ranks)} ({ranks} ranks)" for ranks in APPLICATION_RANKS[1:] if ranks <= cores)

    def sockets(mpi, metric):
        return quantity(summary.value(mpi, ("net_sockets", metric, 0, CROWD)), "sockets")

    order = "slower than TCP with a connection for every pair, faster than TCP over a {}"
    rows = [
        ["ping-pong, UDP/TCP", "about 1.1", against_tcp("net_pingpong", "latency", 8, 2) + " (8 B)"],
        ["Othello, UDP/TCP", order.format("torus, a ring, a tree and a chain, in this order"), application("net_othello")],
        ["SOR, UDP/TCP", order.format("ring, a torus, a tree and a chain, in this order"), application("net_sor")],
        ["sockets of a process, UDP and TCP", "2 and 59 (60 processes)",
         f"{sockets('ours', 'udp')} and {sockets('mpich', 'tcp')} ({CROWD} ranks)"],
    ]
    return ["## Between hosts: beside the paper", "", "`bench/run --only net_pingpong,net_sockets,net_sor,net_othello`", "",
            "T. Tezuka, T. Sueyoshi, I. Arita: *Implementation and Evaluation of a UDP-based Communication Protocol for DSE* "
            "compares a protocol over UDP with TCP in the same two applications. **Its column is the paper's own**, from other "
            "machines: SPARCstation 20 and 10 Mbit/s Ethernet for the ping-pong, FreeBSD and 1 to 8 processes for the "
            "applications, whose times it shows in graphs only. Here UDP is `ours` and TCP is `mpich`. Below 1, UDP is "
            "faster. Applications on as many ranks as there are cores: with more, it would be sleeping against polling.", "",
            markdown_table(["", "the paper", "here"], rows, (0, 1, 2)), ""]


def terminal(summary, mpis, bars, found):
    parts = []
    for section in SECTIONS:
        keys = _keys(summary, section)
        if keys:
            parts.append(f"{section.title} ({_better(summary, keys)})\n" + plain_table(*_section_rows(summary, mpis, section, keys)))
    for bench, where in (("limits", "The machine"), ("net_limits", "Between hosts,")):
        limits = [[f"{key[1]}{' ' + size_text(key[2]) if key[2] else ''}",
                   quantity(summary.value("machine", key), summary.units[key])] for key in summary.keys(bench)]
        if limits:
            parts.append(f"{where} without MPI\n" + plain_table(["", "value"], limits))
    if bars:
        bars = [bar for bar in bars if bar.verdict != "not run"]
        parts.append("Bars\n" + plain_table(bars_module.HEADINGS, [bars_module.row(bar) for bar in bars]) + "\n" + bars_module.counted(bars))
    if found:
        headings, rows = counted(found, summary.peers)
        parts.append("Rows won / within noise / lost\n" + plain_table(headings, [[row[0].strip("*"), *row[1:]] for row in rows]))
    return "\n\n".join(parts)


def quick_lines(summary, mpis, cores, table=markdown_table):
    """The rows of --quick: one table, whatever they are of."""
    def label(key):
        what = " ".join(dict.fromkeys([key[0], *key[1].split("_"), *([size_text(key[2])] if key[2] else [])]))
        return f"{what}, {key[3]} ranks" + (", more than cores" if key[3] > cores else "")

    keys = [key for key in summary.keys() if is_quick_row(key)]
    verdicts = Counter(summary.verdict(key, summary.better_peer(key)) for key in keys)
    missing = quick_rows() - len(keys)
    return [f"Of {len(keys)} rows, against the better peer: {verdicts['won']} won, {verdicts['noise']} within noise, {verdicts['lost']} lost"
            + (f"; {missing} more were not run" if missing else "") + ". A time: lower is better; a rate: higher is better.", "",
            table(*_section_rows(summary, mpis, Section("", "", None, label), keys))]


def _plural(count, what):
    return f"{count} {what}{'s' if count != 1 else ''}"


def _all_of(measurements, name):
    return ", ".join(dict.fromkeys(str(one[name]) for one in measurements))


def _machine_texts(measurements):
    """{kind of machine: text}, the one of most measurements first."""
    kinds = Counter(record.kind(one["machine"]) for one in measurements)
    found = {}
    for kind, _ in kinds.most_common():
        facts = [one["machine"] for one in measurements if record.kind(one["machine"]) == kind]
        found[kind] = (f"{facts[0]['cpu']} ({facts[0]['architecture']}), {facts[0]['cores_used']} of {facts[0]['nproc']} cores used, Linux {_all_of(facts, 'kernel')}, "
                       f"{_all_of(facts, 'compiler')}")
    return found


def _machine_letters(measurements):
    """{kind of machine: its letter on the page}; empty where there is one kind only."""
    texts = _machine_texts(measurements)
    return dict(zip(texts, string.ascii_uppercase)) if len(texts) > 1 else {}


def _when(measurements):
    return f"{_all_of(measurements, 'date')}, commit {_all_of(measurements, 'commit')} (code of {_all_of(measurements, 'code')})"


def _about(measurements, letters):
    """When, of which commit, how often, with which seed, and how quiet it was; a line."""
    summary = summary_of(measurements)
    counts = sorted({summary.repetitions(mpi, key) for mpi in ("ours", "machine") for key in summary.keys()} - {0})
    repetitions = _plural(counts[-1], "repetition") if len(counts) == 1 else f"{counts[0]} to {counts[-1]} repetitions"
    disturbed = max(one["disturbed_runs"] for one in measurements)
    machine = letters.get(record.kind(measurements[0]["machine"]))
    return (f"{repetitions}, {f'machine {machine}, ' if machine else ''}{_when(measurements)}, seed {_all_of(measurements, 'seed')}; others "
            f"took more than {100 * DISTURBED:.0f} % of the cores in {100 * disturbed:.0f} % of the runs.")


def recorded_mpis(measurements):
    """As they were last."""
    found = {mpi["name"]: SimpleNamespace(**mpi) for one in measurements for mpi in one["mpis"]}
    return sorted(found.values(), key=lambda mpi: ("ours", "mpich", "openmpi", "same-source").index(mpi.name))


def summary_of(measurements):
    return Summary(record.runs(measurements), [mpi.name for mpi in recorded_mpis(measurements) if mpi.name != "ours"])


def _section_lines(summary, mpis, section, about, plots, cores):
    keys = _keys(summary, section)
    better = _better(summary, keys)
    lines = [f"## {section.title}", "", f"`bench/run --only {section.program}`: {about}", "",
             (section.note + " " if section.note else "") + better[0].upper() + better[1:] + ".", ""]
    for crowded in (False, True):
        part = [key for key in keys if (key[3] > cores) == crowded]
        if part:
            compared = crowded and section.columns is None and any(summary.better_peer(key) for key in part)
            lines += ([CROWDED_NOTE, ""] if compared else []) + (
                _matrix(summary, part) if section.matrix else [markdown_table(*_section_rows(summary, mpis, section, part, True)), ""])
    for title, plot in PLOTS:
        if section.title == title and plot + ".svg" in plots:
            lines += [f"![{title}](plots/{plot}.svg)", ""]
    return lines


def read_earlier(text):
    """{title: section} of a text in markdown."""
    parts = text.split("\n## ")[1:]
    return {part.split("\n", 1)[0]: ["## " + part.strip(), ""] for part in parts}


def markdown(recorded, earlier, plots, reasons=()):
    """The text of bench/results.md from {program: measurements}. A section that this harness has not measured is taken from `earlier`, if it is
    there. `plots` are the names of files in bench/plots, `reasons` what short.read_reasons() found."""
    whole = [one for program, measurements in recorded.items() if program != record.QUICK for one in measurements]
    everything = whole + recorded.get(record.QUICK, [])
    summary, mpis = summary_of(whole), recorded_mpis(everything)
    cores = min((one["machine"]["cores_used"] for one in everything), default=2)
    machines, letters = _machine_texts(everything), _machine_letters(everything)
    found = tables(summary, cores)
    bars = bars_module.judge(summary, found) if whole else []
    lost = short.lost_rows(summary, found, reasons)
    earlier, body, old = dict(earlier), [], []
    for section in SECTIONS:
        if _keys(summary, section):
            body += _section_lines(summary, mpis, section, _about(recorded[section.program], letters), plots, cores)
            earlier.pop(section.title, None)
        elif section.title in earlier:
            old.append(section.title)
            body += earlier.pop(section.title)
    lines = ["# Results of the benchmarks", ""]
    if found:
        compared = {peer for table in found for peer in table.counts}
        places = {record.kind(one["machine"]) for table in found for one in recorded[table.section.program]}
        lines += short.in_short(summary, found, lost, [mpi.title for mpi in mpis if mpi.name in compared], short.not_run(plan(PROGRAMS, RANKS, cores, False), summary.keys()),
                                bars_module.counted(bars), [text.split(", Linux")[0] for kind, text in machines.items() if kind in places])
    lines += [
        "## How to read this page", "",
        "Generated by `bench/run --report` from `bench/data/`, where every repetition of every row is; `bench/run --write` measures and records all of "
        "it, the command under a title that part. A figure is the median of the ratios of the repetitions, in each of which the MPIs take turns "
        "in an order that is drawn anew; in brackets its quartiles. `ours/better` is against the best of the peers. Times and rates stand beside "
        "for orientation and do not travel to other machines.", "",
        *(f"Machine {letters[kind]}: {text}." if letters else f"Machine: {text}." for kind, text in machines.items()), "",
        f"Measured: {_when(everything) if everything else 'nothing yet'}.", "",
        markdown_table(["Name", "MPI"], [[mpi.name, f"{mpi.title}: {mpi.version}"] for mpi in mpis], (0, 1)), "",
        "## Rows won and lost", ""]
    if found:
        headings, rows = counted(found, summary.peers, letters and {program: letters[record.kind(measurements[0]["machine"])] for program, measurements in recorded.items()})
        lines += [COUNTED_NOTE, "", markdown_table(headings, rows), ""]
    if record.QUICK in recorded:
        quick = recorded[record.QUICK]
        lines += [f"The rows that tell most, `bench/run --quick`: {_about(quick, letters)}", "",
                  *quick_lines(summary_of(quick), recorded_mpis(quick), cores), ""]
    if old:
        lines += [f"Not measured by this harness yet: {_plural(len(old), 'table')} below, which say so and are not counted here.", ""]
    lines += short.lost_lines(lost)
    if bars:
        lines += ["## Bars", "", bars_module.counted(bars), "",
                  markdown_table(bars_module.HEADINGS + ["Command"], [bars_module.row(bar) + [f"`{bar.command}`"] for bar in bars], (0, 1, 2, 5, 6)), ""]
    lines += body
    for title, ready, text in (
            ("Between hosts: beside the paper", "net_pingpong" in recorded, lambda: _paper_lines(summary, cores)),
            ("Against the machine", "limits" in recorded, lambda: _limit_lines(summary, mpis))):
        lines += text() if ready else []
        if ready:
            earlier.pop(title, None)
    lines += [line for section in earlier.values() for line in section]
    failures = dict.fromkeys(f"- {failure['mpi']}, {failure['job']}: {failure['reason']}." for one in whole for failure in one["failures"])
    if failures:
        lines += ["## Runs that failed", "", *failures, ""]
    if mpis:
        lines += ["## How the MPIs were built", "", *(f"- {mpi.name}: `{mpi.flags}`" for mpi in mpis), ""]
    return "\n".join(lines)

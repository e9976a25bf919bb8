/* Figures that were found by measuring: all in one place, each with the command that shows whether another one would be better. Those
 * that a user may set are the defaults of src/ch4/netmod/composite_cvars.c, too; a unit test compares both. For C and C++. */
#ifndef PM_TUNING_H_INCLUDED
#define PM_TUNING_H_INCLUDED

/* Waiting: how many polls that found nothing come before the first yield, and how many yields before the first sleep, and for how long. A
 * poll takes some 10 ns, a yield to another rank 1 to 2 us. Who sleeps takes the core from whoever wakes it, who has often more to say. But
 * who yields gets its share of the core, as long as others compute; so where it is known to be long, a few yields come before sleep. Who has a
 * core for itself yields once early, to see whether it has: that takes 0.3 us, so not in a short wait. Who gives the core back within
 * PM_MICROSECONDS_OF_COMPANY waits, too: in a collective it looks for a tenth of a millisecond before it yields. Who computes keeps it for some milliseconds.
 * Who has found nobody PM_GLANCES_ALONE times does not look for PM_MICROSECONDS_ALONE: over a network every wait is long enough for a look, and a
 * tenth of the time of a short message.
 * bench/run --only pingpong; bench/run --only coll --ranks 2,8; bench/run --only idle */
#define PM_POLLS_OWN_CORE 4000
#define PM_POLLS_BEFORE_GLANCE 400
#define PM_MICROSECONDS_OF_COMPANY 500
#define PM_TURNS_WITHOUT_GLANCE 4
#define PM_GLANCES_ALONE 4
#define PM_MICROSECONDS_ALONE 200
#define PM_YIELDS_OWN_CORE 200
#define PM_POLLS_SHARED_CORE 1
#define PM_YIELDS_SHARED_CORE 4000
#define PM_MICROSECONDS_OF_YIELDS 4000
#define PM_YIELDS_BEFORE_LONG 10
#define PM_POLLS_SLEEPER 50
/* A program may poll by itself (MPI_Test in a loop). With more ranks than cores it would keep those it waits for from running.
 * bench/run --only coll --ranks 8,16 */
#define PM_EMPTY_POLLS_BEFORE_YIELD 20
/* So often in a row another thread advances what goes by leaders later, until one stays away for 50 us.
 * test/coc/run "with a progress thread" */
#define PM_FOUND_BUSY 100

/* Large messages within a host go by the pipeline, not by CMA, as long as no more ranks share a core; where they do share cores, if so many
 * messages have gone to this peer before, and on x86 if they are a stream besides.
 * bench/run --only rate,bibw,cold --ranks 4,8,16 */
#define PM_PIPELINE_RANKS_A_CORE 4
#define PM_FIRST_MESSAGES_PULLED 128
#if defined(__x86_64__)
#define PM_PULL_WITHOUT_STREAM 1
#else
#define PM_PULL_WITHOUT_STREAM 0
#endif

/* Where each rank has a core for itself: on x86 long messages are pulled, and long collectives go by memory, from how many bytes on; of two
 * ranks, and an alltoall of two. The pipeline moves each byte from core to core twice, the second time on the way back to the ring's writer; on ARM that takes less than what
 * the kernel does for each page. bench/run --only pingpong,rate,bibw,sendrecv,colltable --ranks 2 */
#if defined(__x86_64__)
#define PM_PULL_WITH_OWN_CORES 1
#define PM_TEAM_OWN_CORES_PIECES ((size_t) 32 << 10)
#define PM_TEAM_PAIR_PIECES_LIMIT ((size_t) 8 << 10)
#define PM_TEAM_PAIR_ALLTOALL ((size_t) 16 << 10)
#else
#define PM_PULL_WITH_OWN_CORES 0
#define PM_TEAM_OWN_CORES_PIECES SIZE_MAX
#define PM_TEAM_PAIR_PIECES_LIMIT SIZE_MAX
#define PM_TEAM_PAIR_ALLTOALL SIZE_MAX
#endif

/* A long message that both ranks copy: from how many bytes on, and if it is one of a stream; into about how many parts, and how large these are. Each part
 * is a call of the kernel.
 * bench/run --only pingpong,rate,bibw,sendrecv --ranks 2 */
#define PM_JOINT_LIMIT ((size_t) 64 << 10)
#define PM_JOINT_STREAM_LIMIT ((size_t) 128 << 10)
#define PM_JOINT_PARTS 2
#define PM_JOINT_SMALLEST_PART ((size_t) 16 << 10)
#define PM_JOINT_LARGEST_PART ((size_t) 256 << 10)

/* So many more long messages to a peer than from it are a stream. bench/run --only pingpong,rate,bibw --ranks 2 */
#define PM_LONG_MESSAGES_AHEAD 8

/* Up to how many bytes MPI_Sendrecv goes by CMA, of ranks with cores of their own: there each copies once what the pipeline would have it copy
 * twice. Longer ones take long in the kernel. bench/run --only sendrecv */
#define PM_PULL_BOTH_WAYS_LIMIT 262144

/* Polls in a row that look at shared memory only, where nobody is reached otherwise. bench/run --only latency */
#define PM_SPARED_POLLS 63

/* A profile: after how many polls in vain a call is said to wait: more than an answer of another core takes. */
#define PM_POLLS_BEFORE_LATE 128

/* Polling devices that cost a system call: of how many polls of shared memory, and of how many yields, one takes the time; after how many
 * polls in which nobody spoke each has its turn every time; how seldom it has one while others speak, and while nobody here is
 * reached by it.
 * bench/run --only composite */
#define PM_NETWORK_POLL_WEIGHT 50
#define PM_NETWORK_YIELD_WEIGHT 4
#define PM_QUIET_BEFORE_ALL 64
#define PM_BUSY_INTERVAL 1024
#define PM_ALONE_INTERVAL 4096

/* Teams: how many ranks at most, of whose addresses a card has room; bytes of all boards that a rank makes, most of which are addresses only
 * until they are used, up to where new ones have as many pages as they want, up to where a communicator has one from the beginning and a
 * persistent request has one, and of those that are kept for the next communicator; how many collectives of one that has not go by before it gets
 * one; pages of each rank, and where ranks share cores. Where they do: up to how many bytes a broadcast and an alltoall (of all blocks, and of
 * more than so many ranks) go by pages, and from there on from memory to memory; how many turns the others give rank 0 after a barrier. Up to how
 * few bytes two ranks with cores of their own pass on at a time, into about how many pieces that divides what is longer, and from where on each
 * copies half of a broadcast that goes by memory, up to where of a gather, and up to where the root of a reduction reads what the other one has. Up to how
 * many ranks, with cores of their own and without, one reduces for all whatever is reduced, page by page; up to how many bytes each reduces all
 * for itself, and of all ranks together in an allreduce that ends later; up to how many a broadcast that ends later goes by pages; how much is
 * reduced at a time, so that it stays in the cache.
 * bench/run --only colltable --ranks 2,4,8,16 */
#define PM_TEAM_RANKS_LIMIT 126
#define PM_TEAM_BOARDS_LIMIT ((size_t) 512 << 20)
#define PM_TEAM_BOARDS_LARGE ((size_t) 64 << 20)
#define PM_TEAM_BOARDS_EARLY ((size_t) 256 << 20)
#define PM_TEAM_BOARDS_KEPT ((size_t) 32 << 20)
#define PM_TEAM_CALLS_BEFORE 2
#define PM_TEAM_PAGES 6
#define PM_TEAM_PAGES_CROWD 32
#define PM_TEAM_REDUCE_PIECES_RANKS 3
#define PM_TEAM_REDUCE_PIECES_CROWD PM_TEAM_RANKS_LIMIT
#if defined(__x86_64__)
#define PM_TEAM_BCAST_PIECES (256 * 1024)
#define PM_TEAM_ALLTOALL_PIECES_RANKS 2
#define PM_TEAM_ALLTOALL_PIECES ((size_t) 64 << 10)
#else
#define PM_TEAM_BCAST_PIECES (64 * 1024)
#define PM_TEAM_ALLTOALL_PIECES_RANKS 8
#define PM_TEAM_ALLTOALL_PIECES ((size_t) 512 << 10)
#endif
#define PM_TEAM_PAIR_PIECE ((size_t) 8 << 10)
#define PM_TEAM_PAIR_PIECES 8
#define PM_TEAM_PAIR_HALVES ((size_t) 64 << 10)
#define PM_TEAM_PAIR_GATHERED ((size_t) 256 << 10)
#define PM_TEAM_PAIR_REDUCED ((size_t) 256 << 10)
#define PM_TEAM_TURNS_FOR_FIRST 6
#define PM_TEAM_ALLREDUCE_WHOLE 2048
#define PM_TEAM_STARTED_WHOLE (128 * 1024)
#define PM_TEAM_STARTED_BCAST (256 * 1024)
#define PM_TEAM_REDUCE_PIECE (32 * 1024)

/* Between hosts: how many leaders tell one by themselves where messages are short, and up to how many bytes that is; up to how many bytes a
 * reduction, and all blocks together of a gather or scatter, of an allgather, of a rank in an alltoall, and of a scan go by the leaders; what is longer than
 * a piece is passed on piece by piece, and from where on along a chain: then nobody sends it twice, and on networks of their own all send at the
 * same time.
 * bench/run --only net_colltable */
#define PM_LEADERS_FANOUT 8
#define PM_LEADERS_FLAT_LIMIT 16384
#define PM_LEADERS_REDUCE_LIMIT ((size_t) 1 << 20)
#define PM_LEADERS_GATHER_LIMIT ((size_t) 4 << 20)
#define PM_LEADERS_ALLTOALL_LIMIT ((size_t) 64 << 10)
#define PM_LEADERS_SCAN_LIMIT ((size_t) 256 << 10)
#define PM_LEADERS_PIECE (512 * 1024)
#define PM_LEADERS_CHAIN (4 * PM_LEADERS_PIECE)

/* Collectives of some ranks: up to how many bytes it is the number of messages that costs; up to how many members a root tells each by
 * itself, and up to which block a tree is quicker for more. Measured with 8 and 16 ranks on two cores, by shared memory and by UDP.
 * bench/run --only mcast */
#define PM_SOME_SHORT_LIMIT 65536
#define PM_SOME_FLAT_MEMBERS 16
#define PM_SOME_TREE_BLOCK 2048

/* Fuzzy barriers: up to how many hosts one is the hub for all, from three on.
 * bench/run --only net_fuzzy */
#define PM_STAR_HOSTS 8

/* Multicast: the largest for each algorithm; from where on data is written into shared memory instead of sent; the largest part that is
 * passed on to another host by itself, or written as a block inside one; how many a member tells on its host.
 * bench/run --only mcast; bench/mcast_model.cc computes the same for more hosts than there are */
#define PM_MCAST_TREE_LIMIT 131072
#define PM_MCAST_DOUBLING_LIMIT 131072
#define PM_MCAST_CHAIN_LIMIT 131072
#define PM_MCAST_SHARED_LIMIT 4096
#define PM_MCAST_PIECE 131072
#define PM_MCAST_BLOCK (256 * 1024)
#define PM_MCAST_FANOUT 32
/* Between hosts it goes in that many parts, so that all pass something on at the same time, if they are not shorter than this.
 * bench/run --only net_mcast */
#define PM_MCAST_PIECES 32
#define PM_MCAST_SHORT_PIECE 65536
/* Up to how many bytes, and how many members, a master tells each by itself: a message costs it less than waking one who passes it on.
 * bench/run --only net_mcast */
#define PM_MCAST_DIRECT_LIMIT 16384
#define PM_MCAST_DIRECT_MEMBERS 16
#define PM_MCAST_BACKLOG (1 << 20)      /* bytes of short ones that wait in copies */

/* Writes that notify: from where on one by the fabric itself is quicker than a message.
 * bench/run --only sync */
#define PM_LONG_WRITE (64 * 1024)
/* Put and get: up to where a message is quicker than UCX over TCP, which asks the target's processor as well. bench/run --only net_rma */
#define PM_SHORT_MOVE 8192
/* Waiting for a notification: a look costs a tenth of a round of progress, and on one host is all that is needed.
 * bench/run --only sync */
#define PM_LOOKS_BETWEEN_PROGRESS 16
/* Flushes, unlocks and fences on memory that all reach often have nothing to wait for, but others may wait for this rank: a round of progress
 * costs ten times as much. bench/run --only rma */
#define PM_CALLS_BETWEEN_PROGRESS 16
/* Accumulates on shared memory: from how many elements on it is quicker to lock a stripe than to change each by an instruction. bench/run --only rma */
#define PM_FEW_ELEMENTS 8
/* Small operations that the target may do for us: up to how many bytes that is quicker for put and get; how often to look before we do
 * them ourselves, some microseconds; how many we do ourselves at first, and at most, before it is asked again. bench/run --only rma */
#define PM_ERRAND_PATIENCE 8000
#define PM_ERRAND_MOVE 256
#define PM_ERRAND_LOOKS_AFTER_RING 256
#define PM_ERRAND_PASSES_FIRST 16
#define PM_ERRAND_PASSES 1024
/* Longer ones, which both copy by the kernel: how much is gathered for one call of it, from where on the target does a part of it, and how much
 * each does at a time; how many of those it is left at once; how much, where nobody helps, is less than a call of the kernel copies; how often to
 * look for it to begin. bench/run --only rma */
#define PM_SHARE_GATHER (64 * 1024)
#define PM_SHARE_LEAST (32 * 1024)
#define PM_SHARE_PART (64 * 1024)
#define PM_SHARE_AHEAD 2
#define PM_SHARE_ALONE ((size_t) 1 << 30)
#define PM_SHARE_PATIENCE 400

#endif

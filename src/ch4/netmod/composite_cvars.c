/* Settings a user may change. */
#include "mpidimpl.h"
#include "composite_impl.h"

/*
=== BEGIN_MPI_T_CVAR_INFO_BLOCK ===

categories :
    - name : CH4_COMPOSITE
      description : Settings of the composite netmod

cvars:
    - name        : MPIR_CVAR_CH4_COMPOSITE_DEVICES
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        The devices a job may use, separated by commas (shmem, ucx, udp). auto takes all that are built and work, but ucx over
        TCP only where it is named here or by a network. Inside a host shmem is used where both ranks have it; between hosts the
        network of highest priority that both are on.

    - name        : MPIR_CVAR_CH4_COMPOSITE_NETWORKS
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        The networks between hosts. auto finds them; otherwise the path of a file that describes them, or the description
        itself, with a semicolon between lines such as "network san ucx 10.1.0.0/24 priority 30".

    - name        : MPIR_CVAR_CH4_COMPOSITE_PRIORITY
      category    : CH4_COMPOSITE
      type        : string
      default     : given
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        Which of several networks to a host is used. given takes the one of highest priority: that of the description, or
        ucx before udp. measure sends a few messages over each at MPI_Init, and the quickest is used.

    - name        : MPIR_CVAR_CH4_COMPOSITE_ROUTES
      category    : CH4_COMPOSITE
      type        : string
      default     : off
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        Who talks to whom over which device. off tells nothing; init prints the table at MPI_Init; text and json print it with
        the traffic of each pair at MPI_Finalize; a name that ends in .txt, .json or .html is a file that rank 0 writes then.

    - name        : MPIR_CVAR_CH4_COMPOSITE_WAIT
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How a rank waits. auto polls, then yields, then sleeps, and polls little when there are more ranks than cores;
        spin never gives its core away; yield never sleeps; sleep does so almost at once.

    - name        : MPIR_CVAR_CH4_COMPOSITE_PROGRESS_WAIT
      category    : CH4_COMPOSITE
      type        : string
      default     : sleep
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How the progress thread waits, which MPIR_CVAR_ASYNC_PROGRESS starts and MPIR_CVAR_PROGRESS_THREAD_AFFINITY binds to
        cores: sleep until something comes, 0.5 ms at most, or auto, spin, yield as in MPIR_CVAR_CH4_COMPOSITE_WAIT.

    - name        : MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How large messages travel inside a host. pipeline copies through shared memory with both cores; cma lets the
        receiver read the sender's memory (one copy, where the kernel allows it); both is cma where the sender, if it
        waits in MPI, copies a part; auto takes pipeline where up to four ranks share a core and cma otherwise; and cma
        for the first messages to a peer where ranks share cores, and for MPI_Sendrecv of up to 256 KB where they do
        not; on x86 both wherever they do not.

    - name        : MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        Where shared memory comes from. memfd needs no file system; devshm is an unnamed file in /dev/shm; auto takes
        memfd, or devshm where memfd is forbidden.

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_INTERFACES
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        Which addresses of this host are offered to others: auto for all that are up; names and subnets to use, such as
        eth0,10.0.0.0/8; or, after ^, those to leave out, such as ^docker0,192.168.122.0/24.

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_PORTS
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        The port of a process, which needs one: auto for any that is free, or a range such as 5000-5100.

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_GUARD
      category    : CH4_COMPOSITE
      type        : string
      default     : token
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        What authenticates packets; of two processes the stricter one decides. token keeps out strangers and earlier jobs; mac, a
        keyed hash of every packet, also those who can read the traffic; seal also enciphers what is sent (with libsodium).

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_SILENCE_LIMIT
      category    : CH4_COMPOSITE
      type        : double
      default     : 30
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        Seconds without a sign of life, though asked for, after which a process on another host is taken for dead; 0 means never. One
        that is stopped lives while its host answers.

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_RECOVERY
      category    : CH4_COMPOSITE
      type        : string
      default     : selective
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        What is sent again after a loss: selective sends what is missing, go_back_n everything from there on.

    - name        : MPIR_CVAR_CH4_COMPOSITE_UDP_SEGMENTATION
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        auto lets the kernel cut and join trains of packets (UDP_SEGMENT, UDP_GRO) where it can; off sends and receives them
        one by one.

    - name        : MPIR_CVAR_CH4_COMPOSITE_REPORT
      category    : CH4_COMPOSITE
      type        : string
      default     : "0"
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        What rank 0 tells at MPI_Finalize. 1 prints which device carried how many messages and bytes; profile prints where the time
        went, by rank, call and path; profile:json prints that as JSON; profile:FILE writes it, where FILE ends in .txt, .json or .html.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_ALGORITHM
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How hosts pass a multicast on to each other: binomial, scatter_doubling, scatter_ring, chain; auto chooses by size. The
        master's setting counts.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_TREE_LIMIT
      category    : CH4_COMPOSITE
      type        : int
      default     : 131072
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        A multicast of at most so many bytes goes from host to host by a binomial tree; 0 means none.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_DOUBLING_LIMIT
      category    : CH4_COMPOSITE
      type        : int
      default     : 131072
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        A larger one of at most so many bytes is scattered over the hosts, which exchange their blocks by recursive doubling; 0
        means none.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_CHAIN_LIMIT
      category    : CH4_COMPOSITE
      type        : int
      default     : 131072
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        A larger one of at most so many bytes is scattered, and the blocks go around a ring; 0 means none. What is still larger goes
        along a chain of hosts, in pieces.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_SHARED_LIMIT
      category    : CH4_COMPOSITE
      type        : int
      default     : 4096
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        Within a host a multicast of at least so many bytes is written into shared memory once and read by every member; 0 means
        every one.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_PIECE
      category    : CH4_COMPOSITE
      type        : int
      default     : 131072
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        The largest part of a multicast that is passed on by itself, in bytes, when it goes to other hosts. On one host it is
        256 KB. At least 1024.

    - name        : MPIR_CVAR_CH4_COMPOSITE_NOTIFY
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How a write and its notification travel over UCX. message: in one message. put: the write is put into the target's
        memory, and a count behind it. auto: put when it is long and a NIC does it without the target's processor.

    - name        : MPIR_CVAR_CH4_COMPOSITE_MCAST_FANOUT
      category    : CH4_COMPOSITE
      type        : int
      default     : 32
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How many members of its host one member tells of a multicast.

    - name        : MPIR_CVAR_CH4_COMPOSITE_WHY_AFTER
      category    : CH4_COMPOSITE
      type        : int
      default     : 0
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        A rank that has waited so many seconds in one MPI call says on standard error what for; 0 means never. See mpicomposite-why(1).

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_BARRIER
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Barrier and MPI_Ibarrier go inside a host. auto, board, memory: on a board in shared memory; messages: by MPICH's own
        algorithms.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Bcast and MPI_Ibcast go inside a host. messages: by MPICH's own algorithms; board: through shared memory, in pieces what is
        longer than a page; memory: ranks read each other's memory, whatever the length; auto: by length.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_REDUCE
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Reduce goes inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_ALLREDUCE
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Allreduce and MPI_Iallreduce go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_GATHER
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Gather and MPI_Gatherv go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_SCATTER
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Scatter and MPI_Scatterv go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_ALLGATHER
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Allgather and MPI_Allgatherv go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_ALLTOALL
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Alltoall, MPI_Alltoallv, MPI_Alltoallw and MPI_Ialltoall go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_REDUCE_SCATTER
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Reduce_scatter and MPI_Reduce_scatter_block go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_SCAN
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        How MPI_Scan and MPI_Exscan go inside a host: auto, messages, board, memory as in MPIR_CVAR_CH4_COMPOSITE_COLL_BCAST.

    - name        : MPIR_CVAR_CH4_COMPOSITE_COLL_TABLE
      category    : CH4_COMPOSITE
      type        : string
      default     : none
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        The path of a file that says up to how many bytes a collective inside a host goes on the board, in lines of OPERATION RANKS
        BYTES, such as mpicomposite collectives writes; none: there is none.

=== END_MPI_T_CVAR_INFO_BLOCK ===
*/

MPIDI_COMPOSITE_global_t MPIDI_COMPOSITE_global;

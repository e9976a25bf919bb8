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
        The devices a job may use, best first, separated by commas (shmem). auto takes all that are built and work.

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

    - name        : MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV
      category    : CH4_COMPOSITE
      type        : string
      default     : auto
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_LOCAL
      description : >-
        How large messages travel inside a host. pipeline copies through shared memory with both cores; cma lets the
        receiver read the sender's memory (one copy, where the kernel allows it); auto takes pipeline when every rank has
        a core and cma otherwise.

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

    - name        : MPIR_CVAR_CH4_COMPOSITE_REPORT
      category    : CH4_COMPOSITE
      type        : boolean
      default     : false
      class       : none
      verbosity   : MPI_T_VERBOSITY_USER_BASIC
      scope       : MPI_T_SCOPE_ALL_EQ
      description : >-
        If true, rank 0 prints at MPI_Finalize which device carried how many messages and bytes.

=== END_MPI_T_CVAR_INFO_BLOCK ===
*/

MPIDI_COMPOSITE_global_t MPIDI_COMPOSITE_global;

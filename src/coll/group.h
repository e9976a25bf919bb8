/* A communicator as the engines of src/coll see it. */
#ifndef PM_COLL_GROUP_H_INCLUDED
#define PM_COLL_GROUP_H_INCLUDED

#include "netmod/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `id` is the same for all of its ranks. `host` numbers the hosts the same way at all of them; NULL when that is not known. */
typedef struct pm_group_setup {
    uint32_t id;
    int size;
    int rank;
    void *context;
    pm_peer *(*peer)(void *context, int rank);
    int (*host)(void *context, int rank);
} pm_group_setup;

#ifdef __cplusplus
}
#endif
#endif

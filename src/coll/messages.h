/* Where messages of the engines of src/coll arrive; as the upcalls of netmod/core/setup.h. */
#ifndef PM_COLL_MESSAGES_H_INCLUDED
#define PM_COLL_MESSAGES_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Their tags are these and above; their cookies are no aligned pointers. */
#define PM_COLL_FIRST_TAG 253
#define PM_COLL_IS_OURS(cookie) ((uintptr_t) (cookie) & 1)

void *pm_coll_arrived(int tag, void *header, void *piece, size_t piece_size, size_t total);
void pm_coll_more(void *cookie, void *piece, size_t piece_size);
void *pm_coll_place(void *cookie);
void pm_coll_placed(void *cookie);
void pm_coll_taken(void *cookie);       /* a queued message has been accepted */

/* Called now and then: looks after those who do not answer. */
void pm_coll_attend(void);

/* What others do in shared memory comes with no message: to be called after pm_progress(). */
void pm_coll_poll(void);

#ifdef __cplusplus
}
#endif
#endif

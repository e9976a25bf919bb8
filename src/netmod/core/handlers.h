/* Who gets which messages: one table in a core, by tag, for MPICH, the engines of src/coll and whoever comes later.
 *
 * A message whose tag nobody has registered, whose header is shorter than its handler wants, or whose sender nobody here has connected
 * to, is dropped before any handler runs, and counted (pm_traffic). What is in the header no more is known of: a handler checks what it
 * reads before it uses it, and drops what cannot be (pm_count_dropped). */
#ifndef PM_HANDLERS_H_INCLUDED
#define PM_HANDLERS_H_INCLUDED

#include <stdint.h>

#include "netmod/core/core.h"
#include "pm/envelope.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Cookies are the handler's own: they come back to it and to no other. Those of functions that are NULL are never needed. */
typedef struct pm_handler {
    const char *name;           /* for errors; stays */
    uint32_t smallest_header;
    int32_t for_strangers;      /* also what comes from processes that nobody here has connected to: source is NULL */
    /* A message begins, at `core`; when piece_size < total the rest follows by more(), unless the answer is NULL: then it is not wanted.
     * Views end with the call. */
    void *(*arrived)(pm_core *core, const pm_envelope *envelope, void *piece, size_t piece_size, size_t total);
    void (*more)(void *cookie, void *piece, size_t piece_size);
    /* Where the whole payload belongs, or NULL; then placed() says that all of it is there, and more() is not called. */
    void *(*place)(void *cookie);
    void (*placed)(void *cookie);
    /* A message that was sent by pm_offer() begins; its payload is taken by pm_take(). 0: it is not wanted, and dropped. */
    int (*offered)(pm_core *core, const pm_envelope *envelope, void *offer, size_t total);
    /* A message that pm_send() queued has been accepted as a whole. */
    void (*sent)(void *cookie);
} pm_handler;

/* After pm_open() and before messages with this tag may come; pm_close() forgets it. The handler is copied. PM_FAILED: the tag is
 * another's, or none. */
#define PM_TAGS_MAX 256
#define PM_PING_TAG 250         /* measuring.cc; those of src/coll follow */
int pm_handle(pm_core *core, int tag, const pm_handler *handler);

/* A handler has found an index, a length or a number in a message that cannot be, and has done nothing with it: counted with those that
 * were dropped. `source` is the envelope's. */
void pm_count_dropped(pm_core *core, const pm_peer *source);

#ifdef __cplusplus
}
#endif
#endif

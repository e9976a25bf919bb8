/* MPICH's counts of references and of completion: atomic where threads are allowed, plain where there is one. Every request has several,
 * and on ARM an atomic one also waits for whatever this rank has just stored for another to see. */
#ifndef COMPOSITE_COUNTS_H_INCLUDED
#define COMPOSITE_COUNTS_H_INCLUDED

/* As MPIR_ThreadInfo.isThreaded, which is not declared yet where these are needed. */
extern int MPIDI_COMPOSITE_has_threads;

static inline int MPIDI_COMPOSITE_count_of(const MPL_atomic_int_t * count)
{
    return MPIDI_COMPOSITE_has_threads ? MPL_atomic_load_int(count) : MPL_atomic_relaxed_load_int(count);
}

/* Both answer what it was. */
static inline int MPIDI_COMPOSITE_count_up(MPL_atomic_int_t * count, int more)
{
    int was;

    if (MPIDI_COMPOSITE_has_threads)
        return MPL_atomic_fetch_add_int(count, more);
    was = MPL_atomic_relaxed_load_int(count);
    MPL_atomic_relaxed_store_int(count, was + more);
    return was;
}

static inline int MPIDI_COMPOSITE_count_down(MPL_atomic_int_t * count, int less)
{
    int was;

    if (MPIDI_COMPOSITE_has_threads)
        return MPL_atomic_fetch_sub_int(count, less);
    was = MPL_atomic_relaxed_load_int(count);
    MPL_atomic_relaxed_store_int(count, was - less);
    return was;
}

#endif

/* Who changes an element of a part of a window by an instruction is inside that part, as long as its mode allows that; who changes the mode waits
 * for those who are (BasicEpochBoard in epochs.h, pm_direct_use_stripes() in direct.h). For C and C++; words and orders are others in tests.
 *
 * [X1] Either who changes the mode sees that we are inside, or we see the mode: it lets all processors pass a barrier between both. Here nothing but the compiler
 * is kept from exchanging the store and the load. */
#ifndef PM_INSIDE_H_INCLUDED
#define PM_INSIDE_H_INCLUDED

#include <stdint.h>

#ifndef PM_INSIDE_WORD
#define PM_INSIDE_WORD uint32_t
#define PM_INSIDE_STORE(word, value, order) __atomic_store_n(word, value, __ATOMIC_##order)
#define PM_INSIDE_LOAD(word, order) __atomic_load_n(word, __ATOMIC_##order)
#endif

/* 0: not any more, it is a matter of stripes now. */
static inline int pm_inside_begin(PM_INSIDE_WORD *inside, const PM_INSIDE_WORD *mode, uint32_t part)
{
    PM_INSIDE_STORE(inside, part + 1, RELEASE);         /* [X2] of the part before, too */
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (__builtin_expect(PM_INSIDE_LOAD(mode, RELAXED) == 0, 1))
        return 1;
    PM_INSIDE_STORE(inside, 0, RELEASE);        /* [X2] */
    return 0;
}

static inline void pm_inside_end(PM_INSIDE_WORD *inside)
{
    PM_INSIDE_STORE(inside, 0, RELEASE);        /* [X2] what was changed is visible; pairs with [X3] */
}

#endif

/* Where receives and messages find each other.
 *
 * Two queues: receives that no message has come for, and messages that no receive has come for. A message gets the receive that was posted
 * first of those that it fits; a receive gets the message that came first of those that fit it: MPI's order, between receives with
 * and without wildcards, too.
 *
 * Short queues are walked. One in which a walk became long is indexed: by context, source and tag, with wildcards as values of their own.
 * A receive is in one index, that of its kind, and a message asks all four and takes the first receive of their answers. A message is in an
 * index for each kind of receive that had to walk far, and a receive asks that of its kind. So the time does not depend on
 * how many there are, or in which order they are asked for. An empty queue forgets its indices.
 *
 * A queue is all zero at first, but for what it is of.
 *
 * No lock, no MPI; memory only for the indices: without it queues are walked. For C and C++. */
#ifndef PM_MATCHING_H_INCLUDED
#define PM_MATCHING_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/match_entry.h"

enum {
    PM_MATCH_ANY_SOURCE = 1,    /* bits of a kind */
    PM_MATCH_ANY_TAG = 2,
    PM_MATCH_WALK = 12,         /* entries that are walked before there is an index */
    PM_MATCH_SMALLEST_INDEX = 64,
    PM_MATCH_LASTING_INDEX = 1 << 18    /* one that is no larger (4 MiB) is kept for the next time */
};

enum { PM_ANY_SOURCE = -2, PM_ANY_TAG = -1 };   /* as MPICH has them */

typedef struct pm_match_list {
    pm_match_entry *first, *last;
} pm_match_list;

typedef struct pm_match_index {
    pm_match_list *lists;
    size_t room;                /* of them: 0 or a power of two */
    size_t count;               /* of entries */
} pm_match_index;

typedef struct pm_match_queue {
    pm_match_list all;
    size_t count;
    uint64_t numbers;           /* given so far */
    bool of_receives;
    unsigned indexed;           /* by which kinds: 1 << kind */
    pm_match_index indices[PM_MATCH_KINDS];
} pm_match_queue;

static inline unsigned pm_match_kind(int32_t source, int32_t tag)
{
    return (source == PM_ANY_SOURCE ? PM_MATCH_ANY_SOURCE : 0) | (tag == PM_ANY_TAG ? PM_MATCH_ANY_TAG : 0);
}

/* ---- lists ---- */

static inline pm_match_links *pm_match_links_in(pm_match_entry *entry, int kind)
{
    return kind < 0 ? &entry->all : &entry->of_kind[kind];
}

static inline void pm_match_append(pm_match_list *list, pm_match_entry *entry, int kind)
{
    pm_match_links *links = pm_match_links_in(entry, kind);

    links->next = NULL;
    links->previous = list->last;
    if (list->last != NULL)
        pm_match_links_in(list->last, kind)->next = entry;
    else
        list->first = entry;
    list->last = entry;
}

static inline void pm_match_cut(pm_match_list *list, pm_match_entry *entry, int kind)
{
    pm_match_links *links = pm_match_links_in(entry, kind);

    if (links->previous != NULL)
        pm_match_links_in(links->previous, kind)->next = links->next;
    else
        list->first = links->next;
    if (links->next != NULL)
        pm_match_links_in(links->next, kind)->previous = links->previous;
    else
        list->last = links->previous;
}

/* ---- indices ---- */

/* Tags that follow each other have lists that do: many messages mostly differ by that, and are asked for in one direction or the other. Its upper
 * bits are mixed in, so that those that are multiples of a power of two have lists of their own, too. */
static inline pm_match_list *pm_match_list_of(const pm_match_index *index, unsigned kind, uint32_t context, int32_t source, int32_t tag)
{
    uint64_t key = (uint64_t) context * 0x9e3779b97f4a7c15u;

    if (!(kind & PM_MATCH_ANY_SOURCE))
        key ^= (uint32_t) source * 0xc2b2ae3d27d4eb4fu;
    key ^= key >> 32;
    key *= 0xd6e8feb86659fd93u;
    key >>= 32;
    if (!(kind & PM_MATCH_ANY_TAG))
        key += (uint32_t) tag + ((uint32_t) tag >> 8) * 0x9e3779b1u + ((uint32_t) tag >> 16) * 0x85ebca77u +
            ((uint32_t) tag >> 22) * 0xc2b2ae35u;
    return &index->lists[key & (index->room - 1)];
}

static inline void pm_match_index_add(pm_match_queue *queue, unsigned kind, pm_match_entry *entry)
{
    pm_match_append(pm_match_list_of(&queue->indices[kind], kind, entry->context, entry->source, entry->tag), entry, (int) kind);
    queue->indices[kind].count++;
}

static inline bool pm_match_is_in(const pm_match_queue *queue, unsigned kind, const pm_match_entry *entry)
{
    return (queue->indexed >> kind & 1) != 0 && (!queue->of_receives || pm_match_kind(entry->source, entry->tag) == kind);
}

/* Of an empty queue: every list is empty. */
static inline void pm_match_forget_indices(pm_match_queue *queue)
{
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++)
        if (queue->indices[kind].room > PM_MATCH_LASTING_INDEX) {
            free(queue->indices[kind].lists);
            queue->indices[kind].lists = NULL;
            queue->indices[kind].room = 0;
        }
    queue->indexed = 0;
}

/* With room for twice what there is. Without memory for that the queue is as it was. */
static inline bool pm_match_make_index(pm_match_queue *queue, unsigned kind)
{
    pm_match_index *index = &queue->indices[kind];
    size_t room = PM_MATCH_SMALLEST_INDEX;

    while (room < 2 * queue->count)
        room *= 2;
    if (index->count > 0 || index->room < room) {
        pm_match_list *lists = (pm_match_list *) calloc(room, sizeof *lists);
        if (lists == NULL)
            return false;
        free(index->lists);
        index->lists = lists;
        index->room = room;
        index->count = 0;
    }
    queue->indexed |= 1u << kind;
    for (pm_match_entry *entry = queue->all.first; entry != NULL; entry = entry->all.next)
        if (pm_match_is_in(queue, kind, entry))
            pm_match_index_add(queue, kind, entry);
    return true;
}

/* All or none. */
static inline bool pm_match_index_receives(pm_match_queue *queue)
{
    unsigned made = 0;

    while (made < PM_MATCH_KINDS && pm_match_make_index(queue, made))
        made++;
    if (made == PM_MATCH_KINDS)
        return true;
    while (made-- > 0) {
        free(queue->indices[made].lists);
        queue->indices[made].lists = NULL;
        queue->indices[made].room = queue->indices[made].count = 0;
    }
    queue->indexed = 0;
    return false;
}

static inline void pm_match_add_to_indices(pm_match_queue *queue, pm_match_entry *entry)
{
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++)
        if (pm_match_is_in(queue, kind, entry)) {
            pm_match_index_add(queue, kind, entry);
            if (queue->indices[kind].count > queue->indices[kind].room)
                (void) pm_match_make_index(queue, kind);
        }
}

static inline void pm_match_cut_from_indices(pm_match_queue *queue, pm_match_entry *entry)
{
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++)
        if (pm_match_is_in(queue, kind, entry)) {
            pm_match_cut(pm_match_list_of(&queue->indices[kind], kind, entry->context, entry->source, entry->tag), entry, (int) kind);
            queue->indices[kind].count--;
        }
    if (queue->count == 1)
        pm_match_forget_indices(queue);
}

/* ---- what the owner calls ---- */

/* The entry comes last. Its context, source and tag are set, and stay until it is removed. */
static inline void pm_match_add(pm_match_queue *queue, pm_match_entry *entry)
{
    entry->number = ++queue->numbers;
    pm_match_append(&queue->all, entry, -1);
    queue->count++;
    if (__builtin_expect(queue->indexed != 0, 0))
        pm_match_add_to_indices(queue, entry);
}

static inline void pm_match_remove(pm_match_queue *queue, pm_match_entry *entry)
{
    if (__builtin_expect(queue->indexed != 0, 0))
        pm_match_cut_from_indices(queue, entry);
    pm_match_cut(&queue->all, entry, -1);
    entry->number = 0;
    queue->count--;
}

static inline bool pm_match_fits(const pm_match_entry *receive, uint32_t context, int32_t source, int32_t tag)
{
    return receive->context == context && (receive->source == source || receive->source == PM_ANY_SOURCE) &&
        (receive->tag == tag || receive->tag == PM_ANY_TAG);
}

static inline bool pm_match_is_for(const pm_match_entry *message, uint32_t context, int32_t source, int32_t tag)
{
    return message->context == context && (message->source == source || source == PM_ANY_SOURCE) &&
        (message->tag == tag || tag == PM_ANY_TAG);
}

/* Apart: the first of all is found without a call. */
__attribute__((noinline))
static pm_match_entry *pm_match_receive_behind(pm_match_queue *queue, uint32_t context, int32_t source, int32_t tag)
{
    pm_match_entry *entry = queue->all.first, *best = NULL;

    if (queue->indexed == 0) {
        for (int walked = 0; entry != NULL; entry = entry->all.next) {
            if (pm_match_fits(entry, context, source, tag))
                return entry;
            if (++walked == PM_MATCH_WALK && pm_match_index_receives(queue))
                break;
        }
        if (entry == NULL)
            return NULL;
    }
    for (unsigned kind = 0; kind < PM_MATCH_KINDS; kind++) {
        if (queue->indices[kind].count == 0)
            continue;
        entry = pm_match_list_of(&queue->indices[kind], kind, context, source, tag)->first;
        while (entry != NULL && !pm_match_fits(entry, context, source, tag))
            entry = entry->of_kind[kind].next;
        if (entry != NULL && (best == NULL || entry->number < best->number))
            best = entry;
    }
    return best;
}

/* The first receive that this message fits; it stays in the queue. */
static inline pm_match_entry *pm_match_receive_of(pm_match_queue *queue, uint32_t context, int32_t source, int32_t tag)
{
    pm_match_entry *first = queue->all.first;

    if (first == NULL || __builtin_expect(pm_match_fits(first, context, source, tag), 1))
        return first;
    return pm_match_receive_behind(queue, context, source, tag);
}

/* The first message that fits this receive, of which source and tag may be any; it stays in the queue. */
static inline pm_match_entry *pm_match_message_of(pm_match_queue *queue, uint32_t context, int32_t source, int32_t tag)
{
    unsigned kind = pm_match_kind(source, tag);
    pm_match_entry *entry = queue->all.first;

    if (!(queue->indexed >> kind & 1)) {
        for (int walked = 0; entry != NULL; entry = entry->all.next) {
            if (pm_match_is_for(entry, context, source, tag))
                return entry;
            if (++walked == PM_MATCH_WALK && pm_match_make_index(queue, kind))
                break;
        }
        if (entry == NULL)
            return NULL;
    }
    entry = pm_match_list_of(&queue->indices[kind], kind, context, source, tag)->first;
    while (entry != NULL && !pm_match_is_for(entry, context, source, tag))
        entry = entry->of_kind[kind].next;
    return entry;
}

#endif

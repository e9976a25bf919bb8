/* Between hosts one rank of each, its leader, speaks for all of them; between clusters, the leader of one of its hosts does. So what all tell
 * one, or one tells all, is one message for each host but one, and one of them crosses to each other cluster.
 *
 * Hosts have places: one cluster after the other, that of the root first, and in it the root's host. Within a cluster, and between clusters,
 * the tree is flat where messages are short, binomial where the root would send for long, and a chain where what is sent comes in many pieces;
 * below a leader are the places that follow its own. Pure functions of what all ranks know; nothing is kept. For C and C++. */
#ifndef PM_LEADERS_H_INCLUDED
#define PM_LEADERS_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#include "base/tuning.h"

typedef struct pm_leaders {
    int hosts, clusters;
    int *host;                  /* by place */
    int *begin;                 /* of each cluster: its first place; and the end */
} pm_leaders;

/* A leader below another one, and the places that are below it. */
typedef struct pm_branch {
    int place, end;
} pm_branch;

#define PM_BRANCHES_MAX 64      /* both levels, binomial; a flat one has fewer */

typedef enum pm_shape { PM_FLAT, PM_BINOMIAL, PM_CHAIN } pm_shape;

/* `pieces`: from one to all, piece by piece; otherwise whole, one way or the other. */
static inline pm_shape pm_shape_of(size_t bytes, int pieces)
{
    if (bytes <= PM_LEADERS_FLAT_LIMIT)
        return PM_FLAT;
    return pieces && bytes >= PM_LEADERS_CHAIN ? PM_CHAIN : PM_BINOMIAL;
}

/* What is on its way in pieces: the first of several is longer than any that is alone, and by a line for each that follows it. So who expects another
 * number of them has an error when the first comes. The last one may be empty. */
static inline size_t pm_pieces(size_t bytes)
{
    return (bytes + PM_LEADERS_PIECE - 1) / PM_LEADERS_PIECE;
}

/* Where a piece ends, and the next one begins. */
static inline size_t pm_piece_end(size_t bytes, size_t piece)
{
    size_t lines = pm_pieces(bytes) - 1, most = PM_LEADERS_PIECE / 64;
    size_t end = (piece + 1) * PM_LEADERS_PIECE + 64 * (lines < most ? lines : most);

    return end < bytes ? end : bytes;
}

typedef struct pm_tree {
    int parent;                 /* a place; -1: we are the root */
    int branches;
    pm_branch below[PM_BRANCHES_MAX];   /* other clusters first, then those with the most below them */
} pm_tree;

static inline size_t pm_leaders_ints(int hosts)
{
    return 2 * (size_t) hosts + 1;
}

/* `cluster` by host; NULL: there is one. `memory` is for so many ints as the above says. */
static inline void pm_leaders_order(pm_leaders *leaders, int *memory, int hosts, const uint32_t *cluster, int root)
{
    int placed = 0, next = 0;

    leaders->hosts = hosts;
    leaders->clusters = 0;
    leaders->host = memory;
    leaders->begin = memory + hosts;
    while (placed < hosts) {
        /* That of the root, then in each round the first host whose cluster has no place yet. */
        int first = placed == 0 ? root : next;
        leaders->begin[leaders->clusters++] = placed;
        leaders->host[placed++] = first;
        for (int host = 0; host < hosts; host++)
            if (host != first && (cluster == NULL || cluster[host] == cluster[first]))
                leaders->host[placed++] = host;
        for (; placed < hosts && next < hosts; next++) {
            int is_placed = 0;
            for (int each = 0; each < leaders->clusters && !is_placed; each++)
                is_placed = cluster[leaders->host[leaders->begin[each]]] == cluster[next];
            if (!is_placed)
                break;
        }
    }
    leaders->begin[leaders->clusters] = hosts;
}

static inline int pm_leaders_place(const pm_leaders *leaders, int host)
{
    int place = 0;

    while (leaders->host[place] != host)
        place++;
    return place;
}

static inline pm_branch pm_branch_of(int place, int end)
{
    pm_branch branch = { place, end };

    return branch;
}

/* Those behind the first of a flat tree are shared out to so many at most, evenly. */
static inline int pm_share(int first, int end)
{
    return (end - first - 1 + PM_LEADERS_FANOUT - 1) / PM_LEADERS_FANOUT;
}

/* Of `count` in a row: who is above `mine`, -1 where that is the first; `*end` of those below it. */
static inline int pm_above(int mine, int count, pm_shape shape, int *end)
{
    int first = 0, above = -1;

    *end = count;
    if (shape == PM_CHAIN)
        return mine - 1;
    if (shape == PM_BINOMIAL) {
        if (mine > 0 && mine + (mine & -mine) < count)
            *end = mine + (mine & -mine);
        return mine > 0 ? mine & (mine - 1) : -1;
    }
    while (first != mine) {
        int share = pm_share(first, *end);
        above = first;
        first += 1 + (mine - first - 1) / share * share;
        *end = first + share < *end ? first + share : *end;
    }
    return above;
}

/* How many are right below it, and what is below each. */
static inline int pm_below(int mine, int end, pm_shape shape, pm_branch *below)
{
    int branches = 0, step = 1;

    if (shape == PM_CHAIN) {
        if (mine + 1 < end)
            below[branches++] = pm_branch_of(mine + 1, end);
        return branches;
    }
    if (shape == PM_FLAT) {
        for (int share = pm_share(mine, end), at = mine + 1; at < end; at += share)
            below[branches++] = pm_branch_of(at, at + share < end ? at + share : end);
        return branches;
    }
    while (mine + step < end)
        step *= 2;
    while ((step /= 2) > 0)
        below[branches++] = pm_branch_of(mine + step, mine + 2 * step < end ? mine + 2 * step : end);
    return branches;
}

static inline void pm_tree_of(const pm_leaders *leaders, int place, pm_shape shape, pm_tree *tree)
{
    int cluster = 0, first, above, end;

    while (leaders->begin[cluster + 1] <= place)
        cluster++;
    first = leaders->begin[cluster];
    tree->branches = 0;
    if (place == first) {
        above = pm_above(cluster, leaders->clusters, shape, &end);
        tree->parent = above < 0 ? -1 : leaders->begin[above];
        tree->branches = pm_below(cluster, end, shape, tree->below);
        for (int i = 0; i < tree->branches; i++)
            tree->below[i] = pm_branch_of(leaders->begin[tree->below[i].place], leaders->begin[tree->below[i].end]);
    }
    above = pm_above(place - first, leaders->begin[cluster + 1] - first, shape, &end);
    if (above >= 0)
        tree->parent = first + above;
    above = tree->branches;
    tree->branches += pm_below(place - first, end, shape, tree->below + above);
    for (int i = above; i < tree->branches; i++)
        tree->below[i] = pm_branch_of(first + tree->below[i].place, first + tree->below[i].end);
}

#endif

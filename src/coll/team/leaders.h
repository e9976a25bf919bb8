/* Between hosts one rank of each, its leader, speaks for all of them; between clusters, the leader of one of its hosts does. So what all tell
 * one, or one tells all, is one message for each host but one, and one of them crosses to each other cluster.
 *
 * Hosts have places: one cluster after the other, that of the root first, and in it the root's host. Within a cluster, and between clusters,
 * the tree is flat where messages are short, and binomial where the root would send for long; below a leader of a binomial one are the places
 * that follow its own. Pure functions of what all ranks know; nothing is kept. For C and C++. */
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
        for (next = 0; placed < hosts && next < hosts; next++) {
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

/* Of `count` in a row, of which `mine` is the first or below it: who is above, -1 for the first; how many are below, and from where to where. */
static inline int pm_above(int mine, int wide)
{
    if (mine == 0)
        return -1;
    return wide ? (mine - 1) / PM_LEADERS_FANOUT : mine & (mine - 1);
}

static inline int pm_below(int mine, int count, int wide, pm_branch *below)
{
    int branches = 0, step = 1;

    if (wide) {
        for (int i = 1; i <= PM_LEADERS_FANOUT && PM_LEADERS_FANOUT * mine + i < count; i++)
            below[branches++] = pm_branch_of(PM_LEADERS_FANOUT * mine + i, PM_LEADERS_FANOUT * mine + i + 1);
        return branches;
    }
    while (mine + step < count && (mine & step) == 0)
        step *= 2;
    while ((step /= 2) > 0)
        if (mine + step < count)
            below[branches++] = pm_branch_of(mine + step, mine + 2 * step < count ? mine + 2 * step : count);
    return branches;
}

static inline void pm_tree_of(const pm_leaders *leaders, int place, int wide, pm_tree *tree)
{
    int cluster = 0, first, above;

    while (leaders->begin[cluster + 1] <= place)
        cluster++;
    first = leaders->begin[cluster];
    above = pm_above(place - first, wide);
    tree->parent = above < 0 ? -1 : first + above;
    tree->branches = 0;
    if (place == first) {
        above = pm_above(cluster, wide);
        tree->parent = above < 0 ? -1 : leaders->begin[above];
        tree->branches = pm_below(cluster, leaders->clusters, wide, tree->below);
        for (int i = 0; i < tree->branches; i++)
            tree->below[i] = pm_branch_of(leaders->begin[tree->below[i].place], leaders->begin[tree->below[i].end]);
    }
    above = tree->branches;
    tree->branches += pm_below(place - first, leaders->begin[cluster + 1] - first, wide, tree->below + above);
    for (int i = above; i < tree->branches; i++) {
        tree->below[i].place += first;
        tree->below[i].end += first;
    }
}

#endif

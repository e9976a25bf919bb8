/* See composite_shares.h. Included at the end of Hydra's alloc.c, whose alloc_proxy and add_exec_to_proxy it calls. */
#include "composite_descriptors.h"
#include "composite_shares.h"

struct composite_share composite_share;

/* How many of `size` ranks from `begin` on are among `count` from `first` on. */
static int composite_overlap(int begin, int size, int first, int count)
{
    int from = begin > first ? begin : first, to = begin + size < first + count ? begin + size : first + count;
    return to > from ? to - from : 0;
}

static int composite_forked(const struct HYD_proxy *proxy, const char *launcher)
{
    static const char *const forking[] = { "ssh", "rsh", "lsf", "sge" };
    int autofork;

    if (MPL_env2bool("HYDRA_LAUNCHER_AUTOFORK", &autofork) == 1 && !autofork)
        return 0;
    for (unsigned i = 0; i < sizeof(forking) / sizeof(*forking); i++)
        if (!strcmp(launcher, forking[i]))
            return MPL_host_is_local(proxy->node->hostname);
    return !strcmp(launcher, "fork");
}

/* The proxy of some of the ranks of `whole`. It is told the same, and which they are. */
static struct HYD_proxy *composite_share_of(struct HYD_proxy *whole, int first, int count)
{
    struct HYD_proxy *proxy;
    int begin = 0, words = 0;

    if (alloc_proxy(&proxy, whole->pg, whole->node) != HYD_SUCCESS)
        return NULL;
    for (struct HYD_exec * exec = whole->exec_list; exec; begin += exec->proc_count, exec = exec->next) {
        int part = composite_overlap(begin, exec->proc_count, first, count);
        if (part && add_exec_to_proxy(exec, proxy, part) != HYD_SUCCESS)
            return NULL;
    }
    while (whole->exec_launch_info[words])
        words++;
    proxy->exec_launch_info = MPL_calloc(words + 4, sizeof(char *), MPL_MEM_OTHER);
    if (!proxy->exec_launch_info)
        return NULL;
    proxy->exec_launch_info[0] = MPL_strdup("--share");
    proxy->exec_launch_info[1] = HYDU_int_to_str(first);
    proxy->exec_launch_info[2] = HYDU_int_to_str(count);
    for (int i = 0; i < words; i++)
        proxy->exec_launch_info[i + 3] = MPL_strdup(whole->exec_launch_info[i]);
    return proxy;
}

void composite_share_out(struct HYD_pg *pg, const char *launcher)
{
    int most = composite_most_ranks(), id = 0;

    for (struct HYD_proxy ** place = &pg->proxy_list, *whole; (whole = *place); place = &(*place)->next) {
        int ranks = whole->proxy_process_count, shares = most > 0 ? (ranks + most - 1) / most : 1;
        struct HYD_proxy *first = NULL, **last = &first;
        if (shares > 1 && composite_can_hold(shares) && composite_forked(whole, launcher)) {
            for (int i = 0, done = 0; i < shares; i++) {
                int count = (ranks - done) / (shares - i);
                if (!(*last = composite_share_of(whole, done, count)))
                    return;
                last = &(*last)->next;
                done += count;
            }
            whole->node->active_processes -= ranks;
            *last = whole->next;
            whole->next = NULL;
            HYDU_free_proxy_list(whole);
            *place = first;
            for (; (*place)->next != *last; place = &(*place)->next)
                (*place)->proxy_id = id++;
        }
        (*place)->proxy_id = id++;
    }
    pg->proxy_count = id;
}

HYD_status composite_share_is(char *arg, char ***argv)
{
    (void) arg;
    composite_share.first = atoi(*(*argv)++);
    composite_share.count = atoi(*(*argv)++);
    return HYD_SUCCESS;
}

void composite_take_share(struct HYD_exec *list)
{
    int begin = 0;

    for (struct HYD_exec * exec = list; exec; exec = exec->next) {
        int size = exec->proc_count;
        if (composite_share.count)
            exec->proc_count = composite_overlap(begin, size, composite_share.first, composite_share.count);
        begin += size;
    }
    composite_share.of = begin;
}

/* Several proxies share the ranks of a host where one has too few descriptors for all of them. Everything that is told to ranks is as with
 * one proxy: their numbers, also within the host, and that they are on one host. Part of Hydra's alloc.c (composite_shares.c), which
 * mpiexec and the proxy have in common (maint/graft-mpich). */
#ifndef COMPOSITE_SHARES_H_INCLUDED
#define COMPOSITE_SHARES_H_INCLUDED

/* mpiexec: divides the ranks of this host, after all is known about them and before their proxies are started. Only proxies that
 * mpiexec forks: what others may open is known on their hosts alone. Where mpiexec could not hold so many proxies either, it leaves all as
 * it is, and the proxy says what is missing. */
void composite_share_out(struct HYD_pg *pg, const char *launcher);

/* The proxy: which ranks of its host are its own. */
struct composite_share {
    int first, count;           /* count 0: all */
    int of;                     /* ranks on the host */
};
extern struct composite_share composite_share;

/* The proxy has been told. */
HYD_status composite_share_is(char *arg, char ***argv);

/* Leaves in the list what is in the share. */
void composite_take_share(struct HYD_exec *list);

/* The number within the host of a process of this proxy. */
static inline int composite_on_host(int process)
{
    return composite_share.first + process;
}

#endif

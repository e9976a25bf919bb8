/* Which launcher was to start which proxies: for mpiexec, which tells when one of them failed (composite_job.c). */
#ifndef COMPOSITE_LAUNCHED_H_INCLUDED
#define COMPOSITE_LAUNCHED_H_INCLUDED

struct composite_launcher {
    int pid;
    int pgid;
    int proxy_id;               /* -1: all proxies of the process group */
    int ended;                  /* whether `status` is that of waitpid, */
    int status;
    long when;                  /* and since when */
    int joined;                 /* all its proxies have connected, */
    int over;                   /* and have told how their ranks ended, who are not those of the first group */
    int itself;                 /* no launcher, but the proxy on this host */
    char *command;
    struct composite_launcher *next;
};
extern struct composite_launcher *composite_launchers;

/* The process started last, by these words, is the launcher of this proxy or, with `all`, of all in its list. */
void composite_launched(char **words, struct HYD_proxy *proxy, int all);

#endif

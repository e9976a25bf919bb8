/* What is checked before mpiexec starts anything. Included by Hydra's user interface (maint/graft-mpich). */
#ifndef COMPOSITE_ARGUMENTS_H_INCLUDED
#define COMPOSITE_ARGUMENTS_H_INCLUDED

#include "composite_ends.h"

#include <limits.h>
#include <stdio.h>

/* The value of -n or -np. */
static inline int composite_number_of_ranks(const char *option, const char *value)
{
    char *end;
    long number = strtol(value, &end, 10);

    if (end == value || *end || number < 1 || number > INT_MAX) {
        fprintf(stderr, "mpiexec: -%s needs the number of processes, 1 or more, but '%s' follows it: write for example 'mpiexec -%s 4 "
                "PROGRAM'.\n", option, value, option);
        exit(255);
    }
    return (int) number;
}

/* There is something to run, and in each part of a command with colons. */
static inline void composite_need_programs(const struct HYD_exec *list)
{
    const struct HYD_exec *exec = list;

    while (exec && exec->exec[0])
        exec = exec->next;
    if (exec || !list) {
        fprintf(stderr, "mpiexec: there is no program to run%s: write for example 'mpiexec -n 4 PROGRAM'; 'mpiexec -h' tells more.\n",
                list && list->next ? " in one of the parts between colons" : "");
        exit(255);
    }
}

/* A signal that comes before there is a pipe to tell the rest of mpiexec of it does what it does by default. */
static inline void composite_not_started(int pipe, int signum)
{
    if (pipe <= 0) {
        sigset_t set;
        signal(signum, SIG_DFL);
        sigemptyset(&set);
        sigaddset(&set, signum);
        raise(signum);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
    }
}

#endif

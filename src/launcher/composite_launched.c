/* Included by Hydra's bscu_wait.c (maint/graft-mpich). */
#include "composite_launched.h"

struct composite_launcher *composite_launchers = NULL;

void composite_launched(char **words, struct HYD_proxy *proxy, int all)
{
    struct composite_launcher *launcher = MPL_calloc(1, sizeof(*launcher), MPL_MEM_OTHER), **last = &composite_launchers;
    size_t length = 1;

    for (char **word = words; *word; word++)
        length += strlen(*word) + 1;
    launcher->command = MPL_calloc(1, length, MPL_MEM_OTHER);
    /* What follows the name of the proxy is between mpiexec and the proxy. */
    for (char **word = words; *word; word++) {
        strcat(strcat(launcher->command, word == words ? "" : " "), *word);
        if (strstr(*word, HYDRA_PMI_PROXY))
            break;
    }
    launcher->itself = strstr(words[0], HYDRA_PMI_PROXY) != NULL;
    launcher->pid = HYD_bscu_pid_list[HYD_bscu_pid_count - 1];
    launcher->pgid = proxy->pg->pgid;
    launcher->proxy_id = all ? -1 : proxy->proxy_id;
    while (*last)
        last = &(*last)->next;
    *last = launcher;
}

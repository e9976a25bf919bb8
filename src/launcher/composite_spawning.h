/* Whether a spawn has worked: mpiexec's part (composite_spawning.c, part of Hydra's pmiserv_cb.c).
 *
 * Hydra answers the request to spawn as soon as it has started its proxies. What becomes of the processes it cannot know then, and
 * a parent that waits for a program that does not exist waits for ever. So the answer is held back until it is known: it is
 * yes when all new processes are through MPI_Init but for the connection to their parents, and no, with the reason, when one of them ended
 * before, or its proxy could not do its work. There is no time limit: processes may be slow to start. */
#ifndef COMPOSITE_SPAWNING_H_INCLUDED
#define COMPOSITE_SPAWNING_H_INCLUDED

/* The process `pid` of the proxy at `fd` has asked for the new group `pg`. Nothing is said to it yet. */
HYD_status composite_spawn_begun(int fd, int pid, struct HYD_pg *pg);

/* A process of the group has sent a PMI command. Its proxy leaves it to mpiexec to say where the parents are. */
#define COMPOSITE_PARENTS "PARENT_ROOT_PORT_NAME"
void composite_spawn_command(int pgid, int pmi_version, const char *command);

/* The process `pid` of the proxy at `fd` wants all to end. Whether its group has not begun: then only that process ends, now. */
int composite_spawn_aborted(int fd, int pid, int pgid);

/* A process of the group has written this to standard error. */
void composite_spawn_said(int pgid, int proxy_id, int rank, const char *text, int length);

/* A proxy of the group has come; of one that has failed in the meantime, it ends its processes at once. */
void composite_spawn_connected(struct HYD_proxy *proxy);

/* All processes of a proxy have ended. Whether their group never began: then it is nobody's misfortune but its parent's. */
int composite_spawn_ended(struct HYD_proxy *proxy);

/* A proxy has gone (`how` is what it did) without telling how its processes ended. Whether its group had not begun and the parent has been told. */
int composite_spawn_lost(struct HYD_proxy *proxy, const char *how);

/* The same for a proxy that never came, because its launcher, this command, has failed. */
int composite_spawn_no_proxy(struct HYD_proxy *proxy, const char *command, const char *how);

#endif

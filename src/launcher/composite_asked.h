/* `mpicomposite why` asks mpiexec what the ranks do, which asks its proxies, which have `mpicomposite` ask their ranks.
 *
 * mpiexec listens on a socket without a file, "\0mpich-composite-PID", and hears only its own user and root. It says which hosts there are
 * (`host GROUP PROXY PROCESSES SIZE CONNECTED NAME`), and passes on what comes from them (`from GROUP PROXY BYTES`, and so many bytes;
 * 0 when that host has said all). */
#ifndef COMPOSITE_ASKED_H_INCLUDED
#define COMPOSITE_ASKED_H_INCLUDED

#include "demux.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

/* A command of Hydra's own protocol, both ways; `signum` is the number of the question. */
#define COMPOSITE_ASKED ((enum HYD_pmcd_cmd) 1000)

/* mpiexec (composite_asked.c, part of pmiserv_cb.c): listens from the first call on. */
void composite_listen_for_questions(void);
/* Something has come from a proxy. */
HYD_status composite_pass_on_answer(int fd, struct HYD_proxy *proxy, const struct HYD_pmcd_hdr *hdr);

#endif

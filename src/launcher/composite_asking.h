/* The proxy's part of a question: `mpicomposite` of the same installation asks the ranks, and what it says goes to mpiexec. Included by
 * Hydra's pmip_cb.c (maint/graft-mpich). */
#ifndef COMPOSITE_ASKING_H_INCLUDED
#define COMPOSITE_ASKING_H_INCLUDED

#include "composite_asked.h"

#include <fcntl.h>

/* Nothing left: it has said all. */
static void composite_send_answer(int question, const char *bytes, int size)
{
    struct HYD_pmcd_hdr hdr;
    int sent, closed = 0;

    HYD_pmcd_init_header(&hdr);
    hdr.cmd = COMPOSITE_ASKED;
    hdr.signum = question;
    hdr.buflen = size;
    /* mpiexec that is gone is noticed elsewhere. */
    if (HYDU_sock_write(HYD_pmcd_pmip.upstream.control, &hdr, sizeof hdr, &sent, &closed, HYDU_SOCK_COMM_MSGWAIT) == HYD_SUCCESS && !closed && size > 0)
        (void) HYDU_sock_write(HYD_pmcd_pmip.upstream.control, bytes, size, &sent, &closed, HYDU_SOCK_COMM_MSGWAIT);
}

static HYD_status composite_answer_cb(int fd, HYD_event_t events, void *userp)
{
    char bytes[16384];
    ssize_t size = read(fd, bytes, sizeof bytes);

    (void) events;
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return HYD_SUCCESS;
    composite_send_answer((int) (size_t) userp, bytes, size < 0 ? 0 : (int) size);
    if (size <= 0) {
        HYDT_dmx_deregister_fd(fd);
        close(fd);
    }
    return HYD_SUCCESS;
}

/* The child of a child, so that its end is nobody's business here. */
static void composite_run(char **arguments, int output)
{
    pid_t child = fork();

    if (child == 0) {
        if (fork() == 0 && dup2(output, STDOUT_FILENO) >= 0)
            execv(arguments[0], arguments);
        _exit(0);
    }
    if (child > 0)
        (void) waitpid(child, NULL, 0);
}

static HYD_status composite_ask_ranks(int question)
{
    int count = HYD_pmcd_pmip.downstream.pid && HYD_pmcd_pmip.downstream.pmi_rank ? HYD_pmcd_pmip.local.proxy_process_count : 0, pipes[2];
    char program[PATH_MAX], group[20], *slash, *words = NULL, **arguments = NULL;
    const int room = 30;
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - sizeof "/mpicomposite");
    HYD_status status = HYD_SUCCESS;

    if (length <= 0 || pipe2(pipes, O_CLOEXEC) != 0) {
        composite_send_answer(question, NULL, 0);
        return HYD_SUCCESS;
    }
    program[length] = 0;
    slash = strrchr(program, '/');
    strcpy(slash ? slash : program, "/mpicomposite");
    snprintf(group, sizeof group, "%d", HYD_pmcd_pmip.local.pgid);
    words = MPL_malloc((count + 1) * room, MPL_MEM_OTHER);
    arguments = MPL_malloc((count + 5) * sizeof *arguments, MPL_MEM_OTHER);
    if (!words || !arguments) {
        status = HYD_NO_MEM;
        goto fn_exit;
    }
    arguments[0] = program;
    arguments[1] = (char *) "why";
    arguments[2] = (char *) "--ranks";
    arguments[3] = group;
    for (int i = 0; i < count; i++) {
        arguments[4 + i] = words + i * room;
        snprintf(words + i * room, room, "%d:%d", HYD_pmcd_pmip.downstream.pmi_rank[i], HYD_pmcd_pmip.downstream.pid[i]);
    }
    arguments[4 + count] = NULL;
    composite_run(arguments, pipes[1]);
    status = HYDT_dmx_register_fd(1, &pipes[0], HYD_POLLIN, (void *) (size_t) question, composite_answer_cb);

  fn_exit:
    close(pipes[1]);
    if (status != HYD_SUCCESS)
        close(pipes[0]);
    MPL_free(words);
    MPL_free(arguments);
    return status;
}

#endif

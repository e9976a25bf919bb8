/* Included at the end of Hydra's pmiserv_cb.c (maint/graft-mpich). */
#include "composite_asked.h"

#include <fcntl.h>
#include <stddef.h>

/* Who has asked and waits. An asker that is gone is noticed when it is written to; nobody keeps a place for ever. */
enum { askers_most = 8 };
static struct composite_asker {
    int fd, question, left;     /* proxies that have not said all */
} composite_askers[askers_most];

static void composite_asker_done(struct composite_asker *asker)
{
    close(asker->fd);
    memset(asker, 0, sizeof *asker);
}

static void composite_tell(struct composite_asker *asker, const char *bytes, size_t size)
{
    while (asker->question && size > 0) {
        ssize_t sent = send(asker->fd, bytes, size, MSG_NOSIGNAL);
        if (sent > 0)
            bytes += sent, size -= (size_t) sent;
        else if (errno != EINTR)
            composite_asker_done(asker);
    }
}

static void composite_ask_proxies(int fd)
{
    static int questions = 0;
    struct composite_asker *asker = &composite_askers[++questions % askers_most];
    struct HYD_pmcd_hdr hdr;
    char line[600];

    if (asker->question)
        composite_asker_done(asker);
    asker->fd = fd;
    asker->question = questions;
    HYD_pmcd_init_header(&hdr);
    hdr.cmd = COMPOSITE_ASKED;
    hdr.signum = questions;
    FOR_EACH_PROXY(proxy) {
        int connected = composite_connected(proxy) && send(proxy->control_fd, &hdr, sizeof hdr, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof hdr;
        asker->left += connected;
        snprintf(line, sizeof line, "host %d %d %d %d %d %s\n", pg->pgid, proxy->proxy_id, proxy->proxy_process_count, pg->pg_process_count, connected,
                 proxy->node->hostname);
        composite_tell(asker, line, strlen(line));
    }
    composite_tell(asker, "all\n", 4);
    if (asker->question && !asker->left)
        composite_asker_done(asker);
}

static HYD_status composite_question_cb(int listener, HYD_event_t events, void *userp)
{
    const struct timeval limit = { 2, 0 };
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    (void) events, (void) userp;
    if (fd < 0)
        return HYD_SUCCESS;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || (peer.uid != getuid() && peer.uid != 0)) {
        close(fd);
        return HYD_SUCCESS;
    }
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    composite_ask_proxies(fd);
    return HYD_SUCCESS;
}

void composite_listen_for_questions(void)
{
    static int listener = -1;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int length;

    if (listener >= 0)
        return;
    /* Where it cannot be made, nobody can ask: that is no reason to end a job. */
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener < 0) {
        listener = STDIN_FILENO;
        return;
    }
    length = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "mpich-composite-%d", (int) getpid());
    if (bind(listener, (struct sockaddr *) &address, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + length)) == 0 &&
        listen(listener, askers_most) == 0)
        HYDT_dmx_register_fd(1, &listener, HYD_POLLIN, NULL, composite_question_cb);
}

HYD_status composite_pass_on_answer(int fd, struct HYD_proxy *proxy, const struct HYD_pmcd_hdr *hdr)
{
    struct composite_asker *asker = NULL;
    char *bytes = NULL, line[100];
    int count, closed;

    for (int i = 0; i < askers_most; i++)
        if (composite_askers[i].question == hdr->signum)
            asker = &composite_askers[i];
    if (hdr->buflen > 0) {
        bytes = MPL_malloc(hdr->buflen, MPL_MEM_OTHER);
        if (!bytes || HYDU_sock_read(fd, bytes, hdr->buflen, &count, &closed, HYDU_SOCK_COMM_MSGWAIT) != HYD_SUCCESS || closed) {
            MPL_free(bytes);
            return composite_proxy_lost(proxy);
        }
    }
    if (asker) {
        snprintf(line, sizeof line, "from %d %d %d\n", proxy->pg->pgid, proxy->proxy_id, hdr->buflen);
        composite_tell(asker, line, strlen(line));
        composite_tell(asker, bytes, hdr->buflen);
        if (asker->question && hdr->buflen == 0 && --asker->left == 0)
            composite_asker_done(asker);
    }
    MPL_free(bytes);
    return HYD_SUCCESS;
}

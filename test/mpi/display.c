/* Usage: display
 * MPI_Init does not look for an X server: nobody connects to the first one, whose place this program takes meanwhile. */
#include "expect.h"
#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

int main(int argc, char **argv)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int server = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    strcpy(name.sun_path + 1, "/tmp/.X11-unix/X0");     /* an abstract name begins with a zero */
    int there = bind(server, (struct sockaddr *) &name, (socklen_t) (offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name.sun_path + 1))) == 0 &&
        listen(server, 1) == 0;
    MPI_Init(&argc, &argv);
    if (there)
        EXPECT(accept(server, NULL, NULL) < 0 && errno == EAGAIN, "MPI_Init connected to an X server");
    MPI_Finalize();
    printf(there ? "ok\n" : "ok: there is an X server\n");
    return wrong != 0;
}

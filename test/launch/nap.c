// No MPI program: tells its number and stays, for half a minute at most, until it is killed.
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    printf("started %d\n", (int) getpid());
    fflush(stdout);
    sleep(30);
    return 0;
}

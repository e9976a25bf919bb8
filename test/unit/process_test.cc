#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace pm {
namespace {

TEST(Process, LivesUntilItEnds)
{
    EXPECT_FALSE(process_has_ended(getpid()));
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        char byte;
        close(pipe_ends[1]);
        (void)!read(pipe_ends[0], &byte, 1);  // until the parent closes its end
        _exit(0);
    }
    EXPECT_FALSE(process_has_ended(child));
    close(pipe_ends[1]);
    siginfo_t information;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &information, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(process_has_ended(child)) << "it is a zombie";
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(process_has_ended(child));
    close(pipe_ends[0]);
}

}  // namespace
}  // namespace pm

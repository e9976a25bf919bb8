#include "base/process.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/processes.h"

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
    EXPECT_TRUE(detail::read_process(child).ended) << "where a process has no descriptor, /proc says the same";
    EXPECT_FALSE(detail::read_process(getpid()).ended);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(process_has_ended(child));
    close(pipe_ends[0]);
}

TEST(Process, OneThatGotTheNumberOfAnotherIsNotTheOther)
{
    ProcessName self = this_process();
    ASSERT_NE(self.started, 0u);
    EXPECT_FALSE(process_has_ended(self));
    EXPECT_TRUE(process_has_ended(ProcessName{self.number, self.started - 1}));
    EXPECT_EQ(confirmed(self).started, self.started);
    EXPECT_EQ(confirmed({self.number, self.started - 1}).started, 0u) << "where /proc tells us otherwise, only the number counts";
}

TEST(Process, LivesAlsoWhereNoDescriptorIsLeft)
{
    pm::test::in_a_process(60, [] {
        ProcessName self = this_process();
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            _exit(0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        rlimit none{};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        EXPECT_FALSE(process_has_ended(self));
        EXPECT_TRUE(process_has_ended(child));
    });
}

}  // namespace
}  // namespace pm

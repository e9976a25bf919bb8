// Tests with real processes: forked from the test, each under a time limit, their failures reported as the test's.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <new>
#include <type_traits>
#include <vector>

#include "base/futex.h"

namespace pm::test {

// A value that the processes of a test share. Make it before they are forked.
template <class T>
class Shared {
  public:
    Shared()
    {
        void *memory = mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        value_ = memory == MAP_FAILED ? nullptr : new (memory) T{};
    }
    ~Shared() { munmap(value_, sizeof(T)); }
    Shared(const Shared &) = delete;
    Shared &operator=(const Shared &) = delete;

    T &operator*() const { return *value_; }
    T *operator->() const { return value_; }

  private:
    static_assert(std::is_trivially_destructible_v<T>);
    T *value_;
};

// A number in shared memory that goes up and that processes wait for.
class Counter {
  public:
    std::uint32_t value() const { return count_.load(std::memory_order_acquire); }

    void add(std::uint32_t amount = 1)
    {
        count_.fetch_add(amount, std::memory_order_acq_rel);
        futex_wake_all(&count_);
    }

    // Bounded by the time limit of the process.
    void wait_for(std::uint32_t least)
    {
        for (std::uint32_t now = value(); now < least; now = value())
            futex_wait(&count_, now, std::chrono::seconds(1));
    }

    // The same, with something to be done again and again meanwhile.
    template <class Work> void wait_for(std::uint32_t least, Work work)
    {
        for (std::uint32_t now = value(); now < least; now = value()) {
            work();
            futex_wait(&count_, now, std::chrono::milliseconds(10));
        }
    }

    // All of `processes` come here before one leaves. A Counter is for one such meeting.
    void meet(std::uint32_t processes)
    {
        add();
        wait_for(processes);
    }

  private:
    std::atomic<std::uint32_t> count_{0};
};

inline constexpr int exit_skipped = 77;

// The processes of one test. A child runs `body(number)`, in which EXPECT_, ASSERT_ and GTEST_SKIP work as everywhere.
class Processes {
  public:
    template <class Body>
    Processes(unsigned count, unsigned seconds, Body body)
    {
        std::fflush(nullptr);
        for (unsigned number = 0; number < count; ++number) {
            pid_t child = fork();
            if (child == 0) {
                setpgid(0, group_);
                run(number, seconds, body);
            }
            EXPECT_GT(child, 0) << "fork: no process " << number;
            if (child <= 0)
                break;
            if (group_ == 0)
                group_ = child;
            setpgid(child, group_);
            running_.push_back({child, number});
        }
    }

    ~Processes() { wait(); }
    Processes(const Processes &) = delete;
    Processes &operator=(const Processes &) = delete;

    pid_t id(unsigned number) const { return running_[number].id; }

    // Process `number` is going to be killed by the test: that is no failure.
    void expect_killed(unsigned number) { running_[number].may_be_killed = true; }

    // Until all have ended. When one fails the others are ended, too: they would wait for it.
    void wait()
    {
        bool skipped = false;
        for (std::size_t left = running_.size(); left > 0; --left) {
            int status = 0;
            pid_t id = waitpid(-group_, &status, 0);
            for (Child &child : running_) {
                if (child.id != id)
                    continue;
                child.ended = true;
                skipped |= WIFEXITED(status) && WEXITSTATUS(status) == exit_skipped;
                if (!well(child, status))
                    kill_all();
            }
        }
        running_.clear();
        if (skipped)
            [] { GTEST_SKIP() << "in a child process, which says why"; }();
    }

  private:
    struct Child {
        pid_t id;
        unsigned number;
        bool ended = false;
        bool may_be_killed = false;
    };

    template <class Body>
    [[noreturn]] static void run(unsigned number, unsigned seconds, Body &body)
    {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(seconds);
        body(number);
        std::fflush(nullptr);
        _exit(testing::Test::HasFailure() ? 1 : testing::Test::IsSkipped() ? exit_skipped : 0);
    }

    bool well(const Child &child, int status)
    {
        if (WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == exit_skipped))
            return true;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && (child.may_be_killed || killed_all_))
            return true;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
            ADD_FAILURE() << "process " << child.number << " hung: its time limit ended it";
        else if (WIFSIGNALED(status))
            ADD_FAILURE() << "process " << child.number << " was ended by signal " << WTERMSIG(status);
        else
            ADD_FAILURE() << "process " << child.number << " failed";
        return false;
    }

    void kill_all()
    {
        killed_all_ = true;
        for (const Child &child : running_)
            if (!child.ended)
                kill(child.id, SIGKILL);
    }

    std::vector<Child> running_;
    pid_t group_ = 0;  // so that we wait for these children only
    bool killed_all_ = false;
};

// For what must not happen to the test's own process, such as entering a namespace.
template <class Body>
void in_a_process(unsigned seconds, Body body)
{
    Processes(1, seconds, [&](unsigned) { body(); }).wait();
}

}  // namespace pm::test

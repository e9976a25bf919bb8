// Whether a process of this host lives.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/file.h"

namespace pm {

// A process, and nobody else who gets its number later.
struct ProcessName {
    pid_t number = 0;
    std::uint64_t started = 0;  // when, as /proc says; 0 when that is not known
};

namespace detail {

struct ProcessState {
    bool known = false;
    bool ended = false;
    std::uint64_t started = 0;
};

// What /proc says.
inline ProcessState read_process(pid_t process)
{
    char path[32], line[1024];
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(process));
    File file(open(path, O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        return {};
    ssize_t size = read(file.get(), line, sizeof line - 1);
    if (size <= 0)
        return {size == 0 || errno == ESRCH, true, 0};  // it ended meanwhile
    line[size] = 0;
    // The name before the state may hold anything, a parenthesis too. The time is the 20th field from the state on.
    const char *field = std::strrchr(line, ')');
    if (field == nullptr || field[1] != ' ')
        return {};
    ProcessState state{true, field[2] == 'Z' || field[2] == 'X', 0};
    field += 2;
    for (int i = 0; i < 19 && field != nullptr; ++i)
        if ((field = std::strchr(field, ' ')) != nullptr)
            ++field;
    if (field != nullptr)
        state.started = std::strtoull(field, nullptr, 10);
    return state;
}

}  // namespace detail

inline ProcessName this_process()
{
    return {getpid(), detail::read_process(getpid()).started};
}

// The name of a process that is known to live and to have said when it started; where /proc says otherwise to us, only the number is
// believed.
inline ProcessName confirmed(ProcessName process)
{
    if (detail::read_process(process.number).started != process.started)
        process.started = 0;
    return process;
}

// One that has ended and was not asked by its parent how (a zombie) has ended, too. By a descriptor of the process, for just this
// moment: so it is not one for each process. Where there are none (an old kernel, a sandbox, no descriptor left), by /proc or by its
// number.
inline bool process_has_ended(const ProcessName &process)
{
#ifdef SYS_pidfd_open
    File descriptor(static_cast<int>(syscall(SYS_pidfd_open, process.number, 0)));
    int error = descriptor.get() < 0 ? errno : 0;
#else
    File descriptor;
    int error = ENOSYS;
#endif
    if (error == ESRCH)
        return true;
    if (error == 0) {
        // Readable once all of its threads have ended.
        pollfd entry{descriptor.get(), POLLIN, 0};
        if (poll(&entry, 1, 0) == 1)
            return true;
        if (process.started == 0)
            return false;
    }
    detail::ProcessState state = detail::read_process(process.number);
    if (!state.known)
        return kill(process.number, 0) != 0 && errno == ESRCH;
    if (process.started != 0 && state.started != 0 && state.started != process.started)
        return true;  // it is another one
    return error != 0 && state.ended;
}

inline bool process_has_ended(pid_t process)
{
    return process_has_ended(ProcessName{process, 0});
}

}  // namespace pm

#include "base/status.h"

#include <sys/resource.h>

#include <cerrno>
#include <cstring>

namespace pm {

Error system_error(const std::string &text, int error_number)
{
    Status status = Status::failed;
    if (error_number == ENOMEM || error_number == ENOSPC)
        status = Status::no_memory;
    std::string why = std::strerror(error_number);
    // Whoever meets a limit wants to know which.
    rlimit files{};
    if (error_number == EMFILE && getrlimit(RLIMIT_NOFILE, &files) == 0)
        why += " (this process may have " + std::to_string(files.rlim_cur) + " open, " + std::to_string(files.rlim_max) +
               " at most: see ulimit -n)";
    return {status, text + ": " + why};
}

}  // namespace pm

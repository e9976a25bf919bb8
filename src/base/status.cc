#include "base/status.h"

#include <cerrno>
#include <cstring>

namespace pm {

Error system_error(const std::string &text, int error_number)
{
    Status status = Status::failed;
    if (error_number == ENOMEM || error_number == ENOSPC)
        status = Status::no_memory;
    return {status, text + ": " + std::strerror(error_number)};
}

}  // namespace pm

// A /dev/shm that only this process and its children see: small, empty, or missing.
#pragma once

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

namespace pm::test {

// Why it is not possible here, or nothing. `size` as in mount(8), such as "1m"; empty: a directory that cannot be written to.
// Only in a process of its own: there is no way back.
inline std::string enter_private_devshm(const std::string &size)
{
    auto failed = [](const std::string &what) { return what + ": " + std::strerror(errno) + " (needs root)"; };
    if (unshare(CLONE_NEWNS) != 0)
        return failed("a mount namespace of its own");
    if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
        return failed("making mounts private");
    unsigned long flags = size.empty() ? MS_RDONLY : 0;
    std::string options = "size=" + (size.empty() ? "4k" : size);
    if (mount("none", "/dev/shm", "tmpfs", flags, options.c_str()) != 0)
        return failed("a tmpfs on /dev/shm");
    return "";
}

inline std::vector<std::string> names_in_devshm()
{
    std::vector<std::string> names;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/dev/shm", error))
        names.push_back(entry.path().filename());
    return names;
}

}  // namespace pm::test

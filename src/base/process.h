// Whether a process of this host lives.
#pragma once

#include <sys/types.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace pm {

// One that has ended and was not asked by its parent how (a zombie) has ended, too.
inline bool process_has_ended(pid_t process)
{
    char path[32], line[512] = "";
    std::snprintf(path, sizeof path, "/proc/%d/stat", static_cast<int>(process));
    std::FILE *file = std::fopen(path, "re");
    if (file == nullptr)
        return errno == ENOENT;
    bool read = std::fgets(line, sizeof line, file) != nullptr;
    std::fclose(file);
    // The name before the state may hold anything, a parenthesis too.
    const char *name_end = std::strrchr(line, ')');
    if (!read || name_end == nullptr)
        return true;  // it ended meanwhile
    return std::strncmp(name_end, ") Z", 3) == 0 || std::strncmp(name_end, ") X", 3) == 0;
}

}  // namespace pm

// What a process has of the kernel and of malloc: to see that something is given back.
#pragma once

#include <dirent.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace pm::test {

// Numbers in the names of a directory's entries: descriptors, processes.
inline std::vector<int> numbers_in(const std::string &directory)
{
    std::vector<int> numbers;
    DIR *open = opendir(directory.c_str());
    if (open == nullptr)
        return numbers;
    while (dirent *entry = readdir(open))
        if (int number = std::atoi(entry->d_name); entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            numbers.push_back(number);
    closedir(open);
    return numbers;
}

// Descriptors of a process, with what they lead to, as "3 socket"; without the one that looks.
inline std::vector<std::string> descriptors_of(pid_t process)
{
    std::string directory = "/proc/" + std::to_string(process) + "/fd";
    std::vector<std::string> descriptors;
    for (int number : numbers_in(directory)) {
        char target[256];
        ssize_t size = readlink((directory + "/" + std::to_string(number)).c_str(), target, sizeof target);
        std::string text(target, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
        if (size > 0 && text != directory)
            descriptors.push_back(std::to_string(number) + " " + text.substr(0, text.find(":[")));
    }
    std::ranges::sort(descriptors);
    return descriptors;
}

// Lines of its map of memory that are shared with others and have a file.
inline std::vector<std::string> shared_mappings_of(pid_t process)
{
    std::vector<std::string> mappings;
    std::ifstream maps("/proc/" + std::to_string(process) + "/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("s ") < 40 && (line.find("/memfd:") != line.npos || line.find("/dev/shm/") != line.npos))
            mappings.push_back(line);
    return mappings;
}

// A file, whatever name it has.
using FileId = std::pair<std::uint64_t, std::uint64_t>;

// Those without a name that a process has open: memory that is to end with it.
inline std::vector<FileId> nameless_files_of(pid_t process)
{
    std::vector<FileId> files;
    std::string directory = "/proc/" + std::to_string(process) + "/fd/";
    for (int number : numbers_in(directory)) {
        struct stat file {};
        if (stat((directory + std::to_string(number)).c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 0)
            files.emplace_back(file.st_dev, file.st_ino);
    }
    return files;
}

// Processes of this host that have one of these files open or mapped. What nobody holds is freed by the kernel.
inline std::vector<std::string> holders_of(const std::vector<FileId> &files)
{
    std::vector<std::string> holders;
    auto is_one = [&](const std::string &path) {
        struct stat file {};
        return stat(path.c_str(), &file) == 0 && std::ranges::find(files, FileId(file.st_dev, file.st_ino)) != files.end();
    };
    for (int process : numbers_in("/proc")) {
        std::string directory = "/proc/" + std::to_string(process);
        for (int number : numbers_in(directory + "/fd"))
            if (is_one(directory + "/fd/" + std::to_string(number)))
                holders.push_back("process " + std::to_string(process) + ", descriptor " + std::to_string(number));
        std::ifstream maps(directory + "/maps");
        for (std::string line; std::getline(maps, line);) {
            if (line.find("/memfd:") == line.npos && line.find("/dev/shm/") == line.npos)
                continue;
            if (is_one(directory + "/map_files/" + line.substr(0, line.find(' '))))
                holders.push_back("process " + std::to_string(process) + ", mapped " + line);
        }
    }
    return holders;
}

// Bytes of malloc. The sanitizers have a malloc of their own, which does not tell.
inline std::size_t heap_in_use()
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

}  // namespace pm::test

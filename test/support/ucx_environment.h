// UCX patches code to learn of unmapped memory, which the thread sanitizer does not survive. It reads this setting when it is loaded,
// so the program starts itself again with it.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "support/sanitizers.h"

namespace pm::test {

inline bool prepare_ucx()
{
#ifndef PM_TEST_TSAN
    return true;
#endif
    if (std::getenv("UCX_MEM_MMAP_HOOK_MODE") != nullptr)
        return true;
    setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 1);
    std::ifstream file("/proc/self/cmdline");
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');)
        words.push_back(word);
    std::vector<char *> arguments;
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    execv("/proc/self/exe", arguments.data());
    return false;
}
inline const bool ucx_is_prepared = prepare_ucx();

}  // namespace pm::test

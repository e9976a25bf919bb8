// Gives every file that is named, or lies in a directory that is named, to a fuzz target: the kept inputs are tests like any other,
// for compilers without a fuzzer, too.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"

int main(int count, char **arguments)
{
    std::vector<std::string> files;
    for (int i = 1; i < count; ++i) {
        std::error_code error;
        if (std::filesystem::is_directory(arguments[i], error)) {
            for (const auto &entry : std::filesystem::directory_iterator(arguments[i], error))
                files.push_back(entry.path());
        } else {
            files.push_back(arguments[i]);
        }
    }
    std::ranges::sort(files);
    if (files.empty()) {
        std::fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", arguments[0]);
        return 2;
    }
    for (const std::string &file : files) {
        std::ifstream stream(file, std::ios::binary);
        if (!stream) {
            std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
            return 2;
        }
        std::vector<char> bytes{std::istreambuf_iterator<char>(stream), {}};
        std::fprintf(stderr, "%s\n", file.c_str());  // the last one is the one that ended the program
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(bytes.data()), bytes.size());
    }
    std::printf("%zu passed, 0 failed\n", files.size());
    return 0;
}

// Gives every file that is named, or lies in a directory that is named, to a fuzz target: the kept inputs are tests like any other,
// for compilers without a fuzzer, too. With --random COUNT [--seed N] then COUNT inputs more, each made of a kept one by changes that follow
// from the seed. The last seed that is said is at most 1000 before the one that ended the program.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "fuzz/fuzz.h"
#include "support/random.h"

namespace {

using Input = std::vector<char>;

// A few changes: a byte, a bit, some bytes more or less, the rest of another input.
Input changed(const std::vector<Input> &kept, pm::test::Random &random)
{
    constexpr std::size_t longest = 2048;
    Input input = kept[random.below(kept.size())];
    for (std::size_t changes = 1 + random.below(8); changes > 0; --changes) {
        auto place = static_cast<std::ptrdiff_t>(random.below(input.size() + 1));
        auto at = input.begin() + place;
        switch (random.below(6)) {
            case 0:
            case 1:
                if (at != input.end())
                    *at = static_cast<char>(random.next());
                break;
            case 2:
                if (at != input.end())
                    *at = static_cast<char>(*at ^ (1 << random.below(8)));
                break;
            case 3:
                input.insert(at, 1 + random.below(8), static_cast<char>(random.next()));
                break;
            case 4:
                input.erase(at, at + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(random.below(8)), input.end() - at));
                break;
            default: {
                const Input &other = kept[random.below(kept.size())];
                input.resize(static_cast<std::size_t>(place));
                input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(random.below(other.size() + 1)), other.end());
            }
        }
        input.resize(std::min(input.size(), longest));
    }
    return input;
}

void give(const Input &input)
{
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t *>(input.data()), input.size());
}

}  // namespace

int main(int count, char **arguments)
{
    std::vector<std::string> files;
    std::uint64_t wanted = 0, seed = 1;
    for (int i = 1; i < count; ++i) {
        std::error_code error;
        std::string option = arguments[i];
        if ((option == "--random" || option == "--seed") && i + 1 < count) {
            (option == "--seed" ? seed : wanted) = std::strtoull(arguments[++i], nullptr, 10);
            continue;
        }
        if (std::filesystem::is_directory(arguments[i], error)) {
            for (const auto &entry : std::filesystem::directory_iterator(arguments[i], error))
                files.push_back(entry.path());
        } else {
            files.push_back(arguments[i]);
        }
    }
    std::ranges::sort(files);
    if (files.empty()) {
        std::fprintf(stderr, "usage: %s [--random COUNT] [--seed N] FILE|DIRECTORY...\n", arguments[0]);
        return 2;
    }
    std::vector<Input> kept;
    for (const std::string &file : files) {
        std::ifstream stream(file, std::ios::binary);
        if (!stream) {
            std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
            return 2;
        }
        kept.push_back({std::istreambuf_iterator<char>(stream), {}});
        std::fprintf(stderr, "%s\n", file.c_str());  // the last one is the one that ended the program
        give(kept.back());
    }
    // Each has a seed of its own, so that one that fails is found again alone: --seed N --random 1.
    for (std::uint64_t i = 0; i < wanted; ++i) {
        pm::test::Random random(seed + i);
        if (i % 1000 == 0)
            std::fprintf(stderr, "\rseed %llu", static_cast<unsigned long long>(seed + i));
        give(changed(kept, random));
    }
    if (wanted > 0)
        std::fprintf(stderr, "\n");
    std::printf("%llu passed, 0 failed\n", static_cast<unsigned long long>(files.size() + wanted));
    return 0;
}

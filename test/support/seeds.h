// Runs a test under many seeds. A failing run prints its seed; SEED=n in the environment runs that one again, and SEEDS=n
// runs n times as many, FEWER_SEEDS=n only one of n, and FIRST_SEED=n begins with that one. The sanitizers look for other things than the seeds do, and slowly: under them fewer seeds run.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "support/sanitizers.h"

namespace pm::test {

// `body(seed)` answers what went wrong, or nothing. Stops at the first failure.
template <class Body>
void for_each_seed(std::uint64_t count, Body body)
{
    std::uint64_t first = 1;
    count = count / slowdown + 1;
    if (const char *given = std::getenv("FIRST_SEED"))
        first = std::strtoull(given, nullptr, 0);
    if (const char *seed = std::getenv("SEED")) {
        first = std::strtoull(seed, nullptr, 0);
        count = 1;
    } else if (const char *times = std::getenv("SEEDS")) {
        count *= std::strtoull(times, nullptr, 0);
    } else if (const char *fewer = std::getenv("FEWER_SEEDS")) {
        count = count / std::strtoull(fewer, nullptr, 0) + 1;
    }
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        std::string trouble = body(seed);
        if (!trouble.empty()) {
            ADD_FAILURE() << trouble << "\nReplay with SEED=" << seed;
            return;
        }
    }
}

}  // namespace pm::test

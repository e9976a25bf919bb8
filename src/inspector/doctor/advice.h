// What was looked at, what was found, and what it means for jobs.
#pragma once

#include <string>
#include <vector>

namespace pm::inspector {

enum class Level { ok, warning, problem };

struct Advice {
    Level level = Level::ok;
    std::string check, found;
    std::string advice;  // what it means and what to do; empty when all is well
};
using Advices = std::vector<Advice>;

inline const char *level_name(Level level)
{
    return level == Level::ok ? "ok" : level == Level::warning ? "warning" : "problem";
}

}  // namespace pm::inspector

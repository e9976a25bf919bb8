// Why a job does not start: what its ranks say, once, however many of them say it.
#pragma once

#include <string>
#include <vector>

namespace pm {

// By rank what keeps it from starting, empty for one that could. Lines for a user: a setting that is wrong is wrong for all ranks, a device that is
// missing for those of one host. Empty when all can start.
std::string complaints_in_words(const std::vector<std::string> &by_rank);

}  // namespace pm

// Ranks of this host are asked what they do: on the page that each has (netmod/core/question.h), and of those that do not come to answer, the kernel.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <vector>

#include "netmod/report/state.h"

namespace pm::inspector {

struct Started {
    int rank;
    pid_t process;  // that was started for the rank: it, or what it started in turn
};

// One that waits in MPI answers within 100 ms, where it gets a core.
inline constexpr std::chrono::milliseconds time_to_answer{1500};

// A state for each.
std::vector<State> ask_ranks(int group, const std::vector<Started> &ranks);

pid_t parent_of(pid_t process);
std::vector<pid_t> children_of(pid_t process);
bool has_question_page(pid_t process);

}  // namespace pm::inspector

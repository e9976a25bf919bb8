// Why a job does not go on: from what all of its ranks say about themselves to who waits for whom, and the cause.
//
// Promise: a pure function. A rank that may still go on by itself (it computes, it sleeps) is the cause before anything that looks wrong among those
// that wait for it; among ranks that wait for each other and nobody else, it is what does not match, and else the cycle itself.
#pragma once

#include <string>
#include <vector>

#include "netmod/report/state.h"

namespace pm {

struct Cause {
    std::string kind;      // in two or three words: "wrong tag", "deadlock"
    std::string sentence;
};

struct Edge {
    int from = 0;
    RankSet to;
    bool any = false;  // one of them is enough
    std::string what;
};

struct Verdict {
    std::vector<Edge> edges;
    std::vector<Cause> causes;  // the first is the most likely; none when nobody waits
};

// Of one group of processes.
Verdict find_cause(const std::vector<State> &states);

// The whole answer for a user: causes, who waits for whom, and each rank.
std::string answer_in_words(const std::vector<State> &states);

}  // namespace pm

// The ranks of a job that run on this host, and what each shows of itself (profile/board.h). What is read from another process is copied and
// checked; nothing of it is followed.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace pm::inspector {

struct RankPath {
    std::string name;
    std::uint64_t messages = 0, bytes = 0;
};

// At one moment.
struct RankState {
    int rank = -1, ranks = 0;
    bool recording = false;
    std::uint64_t now = 0;     // in ticks, as all times here
    std::uint64_t in_mpi = 0;  // so far, with the call that it is in
    std::string call;          // empty: computes
    std::string waits_for;     // "a message of rank 3"; empty: not known
    std::vector<RankPath> paths;
};

class Rank {
  public:
    Rank(pid_t process, File board) : process_(process), board_(std::move(board)) {}
    pid_t process() const { return process_; }
    bool look(RankState *state) const;  // false: it is gone, or shows nothing that makes sense

  private:
    pid_t process_;
    File board_;
};

// Those of `root` and what it has started, or, if it is a rank itself, of the job it belongs to. Sorted by process.
std::vector<Rank> find_ranks(pid_t root);

}  // namespace pm::inspector

// What one rank says about itself when it is asked what it waits for, as lines of text (src/ch4/netmod/composite_why.c writes them), as a struct
// and in words.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pm {

// Ranks as "0-3,7".
class RankSet {
  public:
    static std::optional<RankSet> parse(std::string_view text);
    void add(int rank);
    bool contains(int rank) const;
    bool empty() const { return ranges_.empty(); }
    int count() const;
    std::string text() const;
    template <class Visit>
    void each(Visit visit) const
    {
        for (auto [first, last] : ranges_)
            for (int rank = first; rank <= last; ++rank)
                visit(rank);
    }

  private:
    std::vector<std::pair<int, int>> ranges_;
};

// Ranks are those of MPI_COMM_WORLD.
enum : int { rank_any = -1, rank_none = -2, rank_elsewhere = -3 };  // the last: of another job
enum : int { tag_any = -1, tag_unknown = -2 };

struct Communicator {
    std::string id;
    int size = 0;
    std::uint64_t collectives = 0;  // begun by this rank
    RankSet members;                // of this job
    std::string name;
};

// A message that came unexpected, a receive that is posted, or a request that a call waits for.
struct Operation {
    std::string kind;  // send, receive, collective, one-sided, other
    int peer = rank_none;
    int tag = tag_unknown;
    std::string communicator;  // its id
    std::uint64_t bytes = 0;
};

struct Call {
    std::string name;
    std::uint64_t number = 0;
    std::optional<std::uint64_t> milliseconds;  // since when it has been seen waiting
    std::string communicator;                   // ids
    std::string window;
    int to = rank_none, to_tag = tag_unknown;
    int from = rank_none, from_tag = tag_unknown;
    std::optional<std::uint64_t> bytes;
    RankSet group;  // of MPI_Win_start, _post, _wait
    std::vector<Operation> pending;
};

struct Lock {
    std::string window;
    int target = rank_none;
    std::string kind;  // exclusive, shared
};

enum class Doing {
    calls,        // it is within MPI, and says where
    computes,     // it runs, and does not come to answer
    sleeps,       // in a system call outside of MPI
    starts,       // it is in MPI_Init, or before
    finalizes,    // it is in MPI_Finalize
    over,         // after MPI_Finalize
    stopped,      // by a signal
    ended,
    unreachable,  // its host does not answer
};

struct State {
    int group = 0;  // of processes: 0, or those that were spawned
    int rank = -1;
    int size = 0;
    int process = 0;
    std::string host;
    Doing doing = Doing::calls;
    std::string detail;  // of it, for the user
    std::vector<Call> calls;  // of its threads
    std::vector<Communicator> communicators;
    std::vector<Operation> unexpected, posted;
    std::uint64_t more_unexpected = 0, more_posted = 0;  // that are not listed
    std::vector<Lock> locks;
    std::map<int, std::string> paths;

    const Communicator *communicator(std::string_view id) const;
    std::string communicator_name(std::string_view id) const;
};

const char *word_of(Doing doing);
std::optional<Doing> doing_of(std::string_view word);

// Nothing when it is not what a rank writes.
std::optional<State> parse_state(std::string_view text);
// Back to lines.
std::string to_lines(const State &state);
// Some lines.
std::string state_in_words(const State &state);
std::string call_in_words(const State &state, const Call &call);
std::string peer_in_words(int rank);

}  // namespace pm

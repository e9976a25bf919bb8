// Small things in shared memory, for which a block is too large: many share one. What was freed is given again as it was left.
#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "netmod/core/shared.h"

namespace pm::coll {

template <class Board>
class Boards {
  public:
    explicit Boards(pm_core *core) : core_(core) {}

    // Zeroed when it is new; nullptr when there is no memory.
    Board *make()
    {
        if (free_.empty() && blocks_ < most_blocks) {
            void *block = pm_shared_alloc(core_, PM_SHARED_LIMIT);
            blocks_ += block != nullptr;
            for (std::size_t i = 0; block != nullptr && i < PM_SHARED_LIMIT / sizeof(Board); ++i)
                free_.push_back(new (static_cast<Board *>(block) + i) Board{});
        }
        if (free_.empty())
            return nullptr;
        Board *board = free_.back();
        free_.pop_back();
        return board;
    }
    void free(Board *board) { free_.push_back(board); }
    // nullptr: it cannot be seen, or none can be there.
    static Board *view(pm_peer *peer, std::uint64_t address)
    {
        void *place = pm_shared_view(peer, address, sizeof(Board));
        return reinterpret_cast<std::uintptr_t>(place) % alignof(Board) == 0 ? static_cast<Board *>(place) : nullptr;
    }

  private:
    static constexpr unsigned most_blocks = 8;  // the rest is for others
    pm_core *core_;
    unsigned blocks_ = 0;
    std::vector<Board *> free_;
};

}  // namespace pm::coll

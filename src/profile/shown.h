// The board (board.h) of this process: a file without a name, which who looks finds among its descriptors.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/file.h"
#include "profile/board.h"
#include "profile/recorder.h"

namespace pm::profile {

inline constexpr const char *board_name = "composite-board";  // of the memfd: /proc/PROCESS/fd shows /memfd:composite-board

class Shown {
  public:
    // Nothing is shown where memory cannot be shared, and nothing else is different.
    void open(int rank, int ranks);
    bool is_watched() const { return board_ != nullptr && board_->watched.load(std::memory_order_relaxed) != 0; }
    void begin();
    Board *take() { return std::exchange(free_, nullptr); }  // once
    void tell(const std::map<std::string, Sizes> &paths);

  private:
    File file_;
    Board *board_ = nullptr, *free_ = nullptr;
};

}  // namespace pm::profile

#include "profile/shown.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "base/ticks.h"

namespace pm::profile {

void Shown::open(int rank, int ranks)
{
    if (board_ != nullptr)
        return;
    // Who looks writes to it as well: nobody can take memory away that this process uses.
    File file(memfd_create(board_name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file.get() < 0 || ftruncate(file.get(), sizeof(Board)) != 0 ||
        fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return;
    void *memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED)
        return;
    file_ = std::move(file);
    board_ = free_ = new (memory) Board;
    board_->process.store(getpid(), std::memory_order_relaxed);
    board_->rank.store(rank, std::memory_order_relaxed);
    board_->ranks.store(ranks, std::memory_order_relaxed);
    board_->magic.store(board_magic, std::memory_order_release);  // [B1] what is above is there; who looks copies the whole
}

void Shown::begin()
{
    if (board_ == nullptr)
        return;
    board_->begun.store(ticks_now(), std::memory_order_relaxed);
    board_->recording.store(1, std::memory_order_relaxed);
}

void Shown::tell(const std::map<std::string, Sizes> &paths)
{
    std::size_t place = 0;
    for (const auto &[name, sizes] : paths) {
        if (place == paths_most)
            break;
        Board::Path &path = board_->paths[place++];
        std::uint64_t messages = 0, bytes = 0;
        for (std::size_t i = 0; i < size_classes; ++i) {
            messages += sizes.messages[i];
            bytes += sizes.bytes[i];
        }
        std::strncpy(path.name, name.c_str(), name_room - 1);
        path.messages.store(messages, std::memory_order_relaxed);
        path.bytes.store(bytes, std::memory_order_relaxed);
    }
}

}  // namespace pm::profile

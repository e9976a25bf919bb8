#include "shmmod/pull.h"

#include <errno.h>
#include <sys/prctl.h>

#include <algorithm>
#include <fstream>

namespace pm::shmem {

void allow_pull_from_us()
{
    int scope = 0;
    std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
#ifdef PR_SET_PTRACER
    if (scope == 1)
        prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
#endif
}

bool pull(std::int32_t process, std::uint64_t address, const iovec *pieces, std::size_t count)
{
    constexpr std::size_t pieces_a_call = 64;  // the kernel takes 1024; few enough to copy on the stack
    std::size_t index = 0, done_in_piece = 0;
    while (index < count) {
        iovec local[pieces_a_call];
        std::size_t taken = 0, bytes = 0;
        for (; taken < pieces_a_call && index + taken < count; ++taken) {
            std::size_t skip = taken == 0 ? done_in_piece : 0;
            local[taken].iov_base = static_cast<char *>(pieces[index + taken].iov_base) + skip;
            local[taken].iov_len = pieces[index + taken].iov_len - skip;
            bytes += local[taken].iov_len;
        }
        iovec remote{reinterpret_cast<void *>(address), bytes};
        ssize_t got = bytes == 0 ? 0 : process_vm_readv(process, local, taken, &remote, 1, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 || (got == 0 && bytes != 0))
            return false;
        address += static_cast<std::uint64_t>(got);
        // The kernel may stop short: go on where it stopped.
        auto left = static_cast<std::size_t>(got);
        while (index < count && left >= pieces[index].iov_len - done_in_piece) {
            left -= pieces[index].iov_len - done_in_piece;
            done_in_piece = 0;
            ++index;
            if (left == 0 && index < count && pieces[index].iov_len != 0)
                break;
        }
        done_in_piece += left;
    }
    return true;
}

bool push(std::int32_t process, std::uint64_t address, const void *data, std::size_t size)
{
    for (std::size_t done = 0; done < size;) {
        iovec local{const_cast<char *>(static_cast<const char *>(data)) + done, size - done};
        iovec remote{reinterpret_cast<void *>(address + done), size - done};
        ssize_t put = process_vm_writev(process, &local, 1, &remote, 1, 0);
        if (put <= 0 && !(put < 0 && errno == EINTR))
            return false;
        done += put > 0 ? static_cast<std::size_t>(put) : 0;
    }
    return true;
}

// What the kernel has not done as a whole is done piece by piece.
template <class Call, class One>
static bool move_many(const iovec *here, std::size_t count, Call &&call, One &&one)
{
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < count; ++i)
        bytes += here[i].iov_len;
    if (call() == static_cast<ssize_t>(bytes)) [[likely]]
        return true;
    for (std::size_t i = 0; i < count; ++i)
        if (!one(i))
            return false;
    return true;
}

bool pull_many(std::int32_t process, const iovec *here, const iovec *there, std::size_t count)
{
    return move_many(
        here, count, [&] { return process_vm_readv(process, here, count, there, count, 0); },
        [&](std::size_t i) { return pull(process, reinterpret_cast<std::uint64_t>(there[i].iov_base), here + i, 1); });
}

bool push_many(std::int32_t process, const iovec *here, const iovec *there, std::size_t count)
{
    return move_many(
        here, count, [&] { return process_vm_writev(process, here, count, there, count, 0); },
        [&](std::size_t i) { return push(process, reinterpret_cast<std::uint64_t>(there[i].iov_base), here[i].iov_base, here[i].iov_len); });
}

bool pull_works(std::int32_t process, std::uint64_t address, std::uint64_t expected)
{
    std::uint64_t value = 0;
    iovec piece{&value, sizeof value};
    return address != 0 && pull(process, address, &piece, 1) && value == expected;
}

}  // namespace pm::shmem

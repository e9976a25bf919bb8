// Single copy inside a host: reading and writing the memory of another process (cross-memory attach, CMA).
// A kernel, a container or a security module may forbid it: it is tested with each peer and never assumed.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace pm::shmem {

// Lets other processes of this user read our memory where the Yama module would otherwise forbid it.
void allow_pull_from_us();

// True when the word at `address` of `process` can be read and holds `expected`.
bool pull_works(std::int32_t process, std::uint64_t address, std::uint64_t expected);

// The same the other way round.
bool push(std::int32_t process, std::uint64_t address, const void *data, std::size_t size);

// Many at once: each piece here and the one of the same size there.
bool pull_many(std::int32_t process, const iovec *here, const iovec *there, std::size_t count);
bool push_many(std::int32_t process, const iovec *here, const iovec *there, std::size_t count);

// Copies from `address` of `process` into the pieces; false when it is not allowed or the process is gone.
bool pull(std::int32_t process, std::uint64_t address, const iovec *pieces, std::size_t count);

}  // namespace pm::shmem

// What makes a packet believed: eight bytes in its header that only a member of the job can know.
//
// Every process has a random key, which travels on its card through the job's start-up and nowhere else. A packet to it carries
//   token  a word made from that key, the same in every packet: keeps out strangers, stray packets and those of an earlier job on
//          the same port. Not those who can read the traffic: they can copy the token.
//   mac    a keyed hash (SipHash-2-4) of the whole packet and its full sequence number: keeps those out, too, and finds damage.
// Neither hides what is sent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pm::udp {

using Key = std::array<std::uint8_t, 16>;

enum class GuardKind : std::uint8_t { token, mac };

// SipHash-2-4, as a sum of pieces.
class SipHash {
  public:
    explicit SipHash(const Key &key);
    void add(std::span<const std::byte> bytes);
    std::uint64_t finish();

  private:
    void round();
    void compress(std::uint64_t word);

    std::uint64_t v_[4];
    std::uint64_t partial_ = 0;
    std::uint64_t length_ = 0;
};

std::uint64_t siphash(const Key &key, std::span<const std::byte> bytes);

// Words made from a key that do not tell the key.
std::uint64_t token_of(const Key &key);
std::uint64_t name_of(const Key &key);  // of the process; not a secret

}  // namespace pm::udp

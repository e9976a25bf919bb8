// What makes a packet believed: 16 bytes in its header that only the two processes of its pair can know.
//
// Every process has a random secret, which travels on its card through the job's start-up (or the name of a port) and never over
// this network. Who has a card may greet its owner: a hello carries a keyed hash that needs the receiver's secret, and where the
// receiver has the sender's card as well, one that needs both. Each side adds a nonce of this pair, and from the secrets
// that both have and the two nonces come the keys of the pair, one for each direction. With these a packet carries
//   token  a word, the same in every packet of the direction: keeps out strangers, stray packets and those of an earlier job on the
//          same port. Not those who can read the traffic: they can copy the token.
//   mac    a keyed hash (SipHash-2-4) of the whole packet, its number included: keeps those out, too, and finds damage.
//   seal   ChaCha20-Poly1305 of libsodium: in addition nobody else can read the bodies of packets.
// Under mac and seal a packet is taken once, by its number. doc/security.md says who is kept out of what.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>

namespace pm::udp {

using Key = std::array<std::uint8_t, 16>;
using Nonce = Key;  // unlike keys they may be known, but come once

enum class GuardKind : std::uint8_t { token, mac, seal };

// SipHash-2-4, as a sum of pieces.
class SipHash {
  public:
    explicit SipHash(const Key &key);
    void add(std::span<const std::byte> bytes);
    std::uint64_t finish();

  private:
    struct State {
        std::uint64_t v0, v1, v2, v3;
        void round();
        void compress(std::uint64_t word);
    };
    State state_;
    std::uint64_t partial_ = 0;
    std::uint64_t length_ = 0;
};

std::uint64_t siphash(const Key &key, std::span<const std::byte> bytes);

std::uint64_t name_of(const Key &secret);  // of the process; does not tell the secret
// Of one side of a pair: another one for each peer and incarnation.
Nonce nonce_of(const Key &secret, std::uint64_t peer, std::uint32_t incarnation);
// For a hello. `both` is needed where the receiver knows the sender's secret.
Key hello_key(const Key &receiver);
Key hello_key(const Key &receiver, const Key &sender);

// One of the two who make a pair. The secret is null when it is not among those that both know.
struct Side {
    std::uint64_t name;
    const Key *secret;
    Nonce nonce;
};

// Of one direction of a pair.
struct DirectionKeys {
    Key mac{};
    std::array<std::uint8_t, 32> seal{};
    std::uint64_t token = 0;
    std::uint64_t first_number = 0;  // of packets: nobody who does not see them can guess it

    DirectionKeys() = default;
    DirectionKeys(const Side &sender, const Side &receiver);
};

// Packets of a pair that have come, by number: each is taken once. One that is older than the last `size` is not taken either.
class SeenNumbers {
  public:
    bool is_new(std::uint64_t number) const
    {
        return number > highest_ || (highest_ - number < size && !seen_[number % size]);
    }
    void add(std::uint64_t number)
    {
        if (number > highest_) {
            if (number - highest_ >= size)
                seen_.reset();
            else
                for (std::uint64_t i = highest_ + 1; i < number; ++i)
                    seen_[i % size] = false;
            highest_ = number;
        }
        seen_[number % size] = true;
    }

    static constexpr std::size_t size = 2048;

  private:
    std::uint64_t highest_ = 0;
    std::bitset<size> seen_;
};

// ChaCha20-Poly1305 (IETF). `header` is authenticated, the body enciphered as well. A key is never used twice with one number.
inline constexpr std::size_t seal_tag_size = 16;
bool can_seal();  // this library was built with libsodium
void seal_body(const DirectionKeys &keys, std::uint64_t number, std::span<const std::byte> header, std::span<const std::byte> body,
               std::byte *sealed, std::byte *tag);
// False when it was not made with this key. In place.
bool open_body(const DirectionKeys &keys, std::uint64_t number, std::span<const std::byte> header, std::span<std::byte> body,
               const std::byte *tag);

}  // namespace pm::udp

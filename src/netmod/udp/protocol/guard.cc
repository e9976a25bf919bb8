#include "netmod/udp/protocol/guard.h"

#include <bit>
#include <cstring>

namespace pm::udp {
namespace {

std::uint64_t word_at(const std::byte *bytes)
{
    std::uint64_t word;
    std::memcpy(&word, bytes, sizeof word);
    return word;
}

}  // namespace

SipHash::SipHash(const Key &key)
{
    auto bytes = reinterpret_cast<const std::byte *>(key.data());
    std::uint64_t k0 = word_at(bytes), k1 = word_at(bytes + 8);
    v_[0] = k0 ^ 0x736f6d6570736575u;
    v_[1] = k1 ^ 0x646f72616e646f6du;
    v_[2] = k0 ^ 0x6c7967656e657261u;
    v_[3] = k1 ^ 0x7465646279746573u;
}

void SipHash::round()
{
    v_[0] += v_[1], v_[2] += v_[3];
    v_[1] = std::rotl(v_[1], 13) ^ v_[0], v_[3] = std::rotl(v_[3], 16) ^ v_[2];
    v_[0] = std::rotl(v_[0], 32);
    v_[2] += v_[1], v_[0] += v_[3];
    v_[1] = std::rotl(v_[1], 17) ^ v_[2], v_[3] = std::rotl(v_[3], 21) ^ v_[0];
    v_[2] = std::rotl(v_[2], 32);
}

void SipHash::compress(std::uint64_t word)
{
    v_[3] ^= word;
    round();
    round();
    v_[0] ^= word;
}

void SipHash::add(std::span<const std::byte> bytes)
{
    std::size_t i = 0;
    for (; i < bytes.size() && length_ % 8 != 0; ++i) {
        partial_ |= static_cast<std::uint64_t>(bytes[i]) << 8 * (length_++ % 8);
        if (length_ % 8 == 0) {
            compress(partial_);
            partial_ = 0;
        }
    }
    for (; bytes.size() - i >= 8; i += 8, length_ += 8)
        compress(word_at(bytes.data() + i));
    for (; i < bytes.size(); ++i)
        partial_ |= static_cast<std::uint64_t>(bytes[i]) << 8 * (length_++ % 8);
}

std::uint64_t SipHash::finish()
{
    compress(partial_ | length_ << 56);
    v_[2] ^= 0xff;
    for (int i = 0; i < 4; ++i)
        round();
    return v_[0] ^ v_[1] ^ v_[2] ^ v_[3];
}

std::uint64_t siphash(const Key &key, std::span<const std::byte> bytes)
{
    SipHash hash(key);
    hash.add(bytes);
    return hash.finish();
}

std::uint64_t token_of(const Key &key)
{
    return siphash(key, std::as_bytes(std::span("token", 5)));
}

std::uint64_t name_of(const Key &key)
{
    return siphash(key, std::as_bytes(std::span("name", 4)));
}

}  // namespace pm::udp

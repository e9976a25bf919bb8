#include "netmod/udp/protocol/guard.h"

#include <bit>
#include <cstring>

#ifdef PM_HAVE_SODIUM
#include <sodium.h>
#endif

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
    state_ = {k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
}

inline void SipHash::State::round()
{
    v0 += v1, v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0, v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1, v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2, v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
}

inline void SipHash::State::compress(std::uint64_t word)
{
    v3 ^= word;
    round();
    round();
    v0 ^= word;
}

void SipHash::add(std::span<const std::byte> bytes)
{
    State state = state_;  // what is read may be anything, this object too: here it stays in registers
    std::size_t i = 0;
    for (; i < bytes.size() && length_ % 8 != 0; ++i) {
        partial_ |= static_cast<std::uint64_t>(bytes[i]) << 8 * (length_++ % 8);
        if (length_ % 8 == 0) {
            state.compress(partial_);
            partial_ = 0;
        }
    }
    std::size_t words = (bytes.size() - i) / 8;
    for (const std::byte *next = bytes.data() + i, *end = next + 8 * words; next != end; next += 8)
        state.compress(word_at(next));
    length_ += 8 * words;
    for (i += 8 * words; i < bytes.size(); ++i)
        partial_ |= static_cast<std::uint64_t>(bytes[i]) << 8 * (length_++ % 8);
    state_ = state;
}

std::uint64_t SipHash::finish()
{
    State state = state_;
    state.compress(partial_ | length_ << 56);
    state.v2 ^= 0xff;
    for (int i = 0; i < 4; ++i)
        state.round();
    return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

std::uint64_t siphash(const Key &key, std::span<const std::byte> bytes)
{
    SipHash hash(key);
    hash.add(bytes);
    return hash.finish();
}

namespace {

// A key made from another one, for one purpose: the words of a counter.
template <std::size_t words>
std::array<std::uint64_t, words> derive(const Key &key, const char (&purpose)[8], std::span<const std::byte> what)
{
    std::array<std::uint64_t, words> derived;
    for (std::uint64_t i = 0; i < words; ++i) {
        SipHash hash(key);
        hash.add(std::as_bytes(std::span(purpose)));
        hash.add(std::as_bytes(std::span(&i, 1)));
        hash.add(what);
        derived[i] = hash.finish();
    }
    return derived;
}

}  // namespace

std::uint64_t name_of(const Key &secret)
{
    return derive<1>(secret, "name   ", {})[0];
}

Nonce nonce_of(const Key &secret, std::uint64_t peer, std::uint32_t incarnation)
{
    std::uint64_t what[2] = {peer, incarnation};
    return std::bit_cast<Nonce>(derive<2>(secret, "nonce  ", std::as_bytes(std::span(what))));
}

Key hello_key(const Key &receiver)
{
    return std::bit_cast<Key>(derive<2>(receiver, "hello  ", {}));
}

Key hello_key(const Key &receiver, const Key &sender)
{
    return std::bit_cast<Key>(derive<2>(hello_key(receiver), "hellos ", std::as_bytes(std::span(sender))));
}

// The sum of what each common secret makes of names and nonces: whoever lacks one of them knows nothing.
DirectionKeys::DirectionKeys(const Side &sender, const Side &receiver)
{
    constexpr std::size_t words = 8;
    std::uint64_t what[8] = {sender.name, receiver.name};
    std::memcpy(what + 2, sender.nonce.data(), sizeof sender.nonce);
    std::memcpy(what + 4, receiver.nonce.data(), sizeof receiver.nonce);
    what[6] = (sender.secret != nullptr ? 1u : 0u) | (receiver.secret != nullptr ? 2u : 0u);
    std::array<std::uint64_t, words> sum{};
    for (const Side *side : {&sender, &receiver}) {
        if (side->secret == nullptr)
            continue;
        what[7] = side == &sender;  // one may send to itself
        auto part = derive<words>(*side->secret, "pair   ", std::as_bytes(std::span(what)));
        for (std::size_t i = 0; i < words; ++i)
            sum[i] ^= part[i];
    }
    std::memcpy(mac.data(), &sum[0], sizeof mac);
    std::memcpy(seal.data(), &sum[2], sizeof seal);
    token = sum[6];
    first_number = sum[7] >> 2 | 1;  // it never comes round
}

#ifdef PM_HAVE_SODIUM
namespace {

struct SealNonce {
    std::uint8_t bytes[crypto_aead_chacha20poly1305_ietf_NPUBBYTES] = {};
    explicit SealNonce(std::uint64_t number) { std::memcpy(bytes, &number, sizeof number); }
};
static_assert(seal_tag_size == crypto_aead_chacha20poly1305_ietf_ABYTES);

const unsigned char *plain(std::span<const std::byte> bytes)
{
    return reinterpret_cast<const unsigned char *>(bytes.data());
}

}  // namespace

bool can_seal()
{
    return sodium_init() >= 0;
}

void seal_body(const DirectionKeys &keys, std::uint64_t number, std::span<const std::byte> header, std::span<const std::byte> body,
               std::byte *sealed, std::byte *tag)
{
    crypto_aead_chacha20poly1305_ietf_encrypt_detached(reinterpret_cast<unsigned char *>(sealed), reinterpret_cast<unsigned char *>(tag),
                                                       nullptr, plain(body), body.size(), plain(header), header.size(), nullptr,
                                                       SealNonce(number).bytes, keys.seal.data());
}

bool open_body(const DirectionKeys &keys, std::uint64_t number, std::span<const std::byte> header, std::span<std::byte> body,
               const std::byte *tag)
{
    return crypto_aead_chacha20poly1305_ietf_decrypt_detached(reinterpret_cast<unsigned char *>(body.data()), nullptr, plain(body),
                                                              body.size(), reinterpret_cast<const unsigned char *>(tag), plain(header),
                                                              header.size(), SealNonce(number).bytes, keys.seal.data()) == 0;
}
#else
bool can_seal()
{
    return false;
}

void seal_body(const DirectionKeys &, std::uint64_t, std::span<const std::byte>, std::span<const std::byte>, std::byte *, std::byte *)
{
}

bool open_body(const DirectionKeys &, std::uint64_t, std::span<const std::byte>, std::span<std::byte>, const std::byte *)
{
    return false;
}
#endif

}  // namespace pm::udp

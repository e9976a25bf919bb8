// The wire format: packets, cards and addresses, of good and of bad will; the guard.
#include "netmod/udp/protocol/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "netmod/udp/protocol/guard.h"
#include "support/random.h"

namespace pm::udp {
namespace {

// ---- packets ----

TEST(UdpWire, DecodesHeaderAndBody)
{
    Header header;
    header.kind_and_flags = static_cast<std::uint8_t>(Kind::data) | Header::answer_now;
    header.tag = 7;
    header.to = 0x01020304;
    header.sequence = 0xffff'ffff;
    header.offset = std::uint64_t{1} << 40;
    header.body_size = 5;
    std::vector<std::byte> bytes(sizeof header + 5);
    std::memcpy(bytes.data(), &header, sizeof header);
    bytes[sizeof header] = std::byte{42};
    auto datagram = decode(bytes);
    ASSERT_TRUE(datagram);
    EXPECT_EQ(datagram->header.kind(), Kind::data);
    EXPECT_TRUE(datagram->header.wants_answer());
    EXPECT_EQ(datagram->header.tag, 7);
    EXPECT_EQ(datagram->header.to, 0x01020304u);
    EXPECT_EQ(datagram->header.sequence, 0xffff'ffffu);
    EXPECT_EQ(datagram->header.offset, std::uint64_t{1} << 40);
    ASSERT_EQ(datagram->body.size(), 5u);
    EXPECT_EQ(datagram->body[0], std::byte{42});
}

// Two that the kernel joined, and that were not cut again.
TEST(UdpWire, DoesNotTakeTwoDatagramsForOne)
{
    Header header;
    header.kind_and_flags = static_cast<std::uint8_t>(Kind::data);
    header.body_size = 5;
    std::vector<std::byte> bytes(2 * (sizeof header + 5));
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header + 5, &header, sizeof header);
    EXPECT_FALSE(decode(bytes));
    EXPECT_TRUE(decode(std::span(bytes).first(sizeof header + 5)));
}

TEST(UdpWire, RefusesWhatIsTooShortOrOfNoKind)
{
    std::vector<std::byte> bytes(sizeof(Header));
    for (unsigned kind = 0; kind < 256; ++kind) {
        bytes[0] = static_cast<std::byte>(kind);
        unsigned without_flag = kind & 0x7f;
        EXPECT_EQ(decode(bytes).has_value(), without_flag >= 0x11 && without_flag <= 0x1a) << kind;
    }
    bytes[0] = static_cast<std::byte>(Kind::data);
    for (std::size_t size = 0; size < sizeof(Header); ++size)
        EXPECT_FALSE(decode(std::span(bytes).first(size))) << size;
}

TEST(UdpWire, WidensSequenceNumbersNearTheReference)
{
    constexpr std::uint64_t turn = std::uint64_t{1} << 32;
    EXPECT_EQ(widen(turn + 5, 5), turn + 5);
    EXPECT_EQ(widen(turn + 5, 0xffff'fff0), turn - 16);
    EXPECT_EQ(widen(2 * turn - 3, 4), 2 * turn + 4);
    EXPECT_EQ(widen(2 * turn - 3, 0xffff'fffe), 2 * turn - 2);
    EXPECT_EQ(widen(turn, 0x7fff'ffff), turn + 0x7fff'ffff);
    EXPECT_EQ(widen(turn, 0x8000'0001), turn - 0x7fff'ffff);
    test::Random random(1);
    for (int i = 0; i < 1000; ++i) {
        std::uint64_t sequence = turn + random.below(std::uint64_t{1} << 40);
        std::uint64_t reference = sequence + random.below(1u << 31) - (1u << 30);
        EXPECT_EQ(widen(reference, static_cast<std::uint32_t>(sequence)), sequence);
    }
}

// ---- cards ----

Card card_with(std::vector<Address> addresses)
{
    Card card;
    card.secret.emplace();
    for (std::size_t i = 0; i < card.secret->size(); ++i)
        (*card.secret)[i] = static_cast<std::uint8_t>(i * 3 + 1);
    card.name = name_of(*card.secret);
    card.addresses = std::move(addresses);
    return card;
}

Address v6(std::uint8_t last, std::uint16_t port)
{
    Address address;
    address.ip[0] = 0xfe;
    address.ip[1] = 0x80;
    address.ip[15] = last;
    address.port = port;
    return address;
}

TEST(UdpCard, IsReadAsItWasWritten)
{
    for (int i = 0; i < 6; ++i) {
        GuardKind guard = std::array{GuardKind::token, GuardKind::mac, GuardKind::seal}[i / 2];
        Card card = card_with({Address::v4({10, 1, 2, 3}, 4711), Address::v4({192, 168, 0, 255}, 4711), v6(9, 4711)});
        card.guard = guard;
        card.seals = i % 2 == 0;
        std::byte bytes[Card::max_size];
        std::size_t size = card.write(bytes);
        EXPECT_EQ(size, 16u + 3 + 2 * 4 + 16);
        auto read = Card::read({bytes, size});
        ASSERT_TRUE(read);
        EXPECT_EQ(read->secret, card.secret);
        EXPECT_EQ(read->name, card.name);
        EXPECT_EQ(read->guard, guard);
        EXPECT_EQ(read->seals, card.seals);
        EXPECT_EQ(read->addresses, card.addresses);
    }
}

TEST(UdpCard, LeavesOutAddressesThatDoNotFit)
{
    std::vector<Address> addresses;
    for (std::uint8_t i = 0; i < 20; ++i) {
        addresses.push_back(Address::v4({10, 0, 0, i}, 1));
        addresses.push_back(v6(i, 1));
    }
    // Guard bytes behind what it may write.
    std::vector<std::byte> bytes(Card::max_size + 16, std::byte{0xaa});
    std::size_t size = card_with(addresses).write(bytes.data());
    EXPECT_LE(size, Card::max_size);
    EXPECT_TRUE(std::all_of(bytes.begin() + Card::max_size, bytes.end(), [](std::byte byte) { return byte == std::byte{0xaa}; }));
    auto read = Card::read(std::span(bytes).first(size));
    ASSERT_TRUE(read);
    EXPECT_GE(read->addresses.size(), 7u);
    for (const Address &address : read->addresses)
        EXPECT_NE(std::ranges::find(addresses, address), addresses.end());

    std::vector<Address> many_v6;
    for (std::uint8_t i = 0; i < 20; ++i)
        many_v6.push_back(v6(i, 1));
    size = card_with(many_v6).write(bytes.data());
    EXPECT_LE(size, Card::max_size);
    ASSERT_TRUE(Card::read(std::span(bytes).first(size)));
}

TEST(UdpCard, WithoutAddressesOrPortIsNone)
{
    std::byte bytes[Card::max_size];
    EXPECT_FALSE(Card::read({bytes, card_with({}).write(bytes)}));
    EXPECT_FALSE(Card::read({bytes, card_with({Address::v4({10, 0, 0, 1}, 0)}).write(bytes)}));
}

TEST(UdpCard, OfAnotherLengthIsNone)
{
    std::byte bytes[Card::max_size + 1] = {};
    std::size_t size = card_with({Address::v4({10, 0, 0, 1}, 5), v6(1, 5)}).write(bytes);
    for (std::size_t other = 0; other <= Card::max_size + 1; ++other)
        EXPECT_EQ(Card::read({bytes, other}).has_value(), other == size) << other;
    bytes[sizeof(Key) + 2] |= std::byte{0xc0};  // an unknown guard
    EXPECT_FALSE(Card::read({bytes, size}));
}

TEST(UdpCard, GarbageIsReadWithoutHarm)
{
    test::Random random(7);
    unsigned cards = 0;
    for (int i = 0; i < 20'000; ++i) {
        std::vector<std::byte> bytes(random.below(Card::max_size + 20));
        for (std::byte &byte : bytes)
            byte = static_cast<std::byte>(random.next());
        if (auto card = Card::read(bytes)) {
            ++cards;
            std::byte again[Card::max_size];
            EXPECT_LE(card->write(again), Card::max_size);
        }
    }
    EXPECT_GT(cards, 0u);
}

// ---- addresses ----

TEST(UdpAddress, IsTextForPeople)
{
    Address address = Address::v4({192, 168, 1, 20}, 8080);
    EXPECT_TRUE(address.is_v4());
    EXPECT_EQ(address.ip_text(), "192.168.1.20");
    EXPECT_EQ(address.text(), "192.168.1.20 port 8080");
    EXPECT_FALSE(v6(1, 2).is_v4());
    EXPECT_EQ(v6(1, 2).text(), "fe80::1 port 2");
    EXPECT_FALSE(Address{}.is_v4());
}

TEST(UdpAddress, DiffersByHostAndPort)
{
    Address address = Address::v4({10, 0, 0, 1}, 1);
    EXPECT_EQ(address, Address::v4({10, 0, 0, 1}, 1));
    EXPECT_NE(address, Address::v4({10, 0, 0, 1}, 2));
    EXPECT_NE(address, Address::v4({10, 0, 0, 2}, 1));
}

// ---- the guard ----

Key reference_key()
{
    Key key;
    for (std::size_t i = 0; i < key.size(); ++i)
        key[i] = static_cast<std::uint8_t>(i);
    return key;
}

std::vector<std::byte> counting(std::size_t size)
{
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<std::byte>(i);
    return bytes;
}

// From the reference implementation of SipHash-2-4 by its authors: inputs of 0, 1, 2, ... bytes 00 01 02 ...
TEST(UdpGuard, HashIsSipHash24)
{
    static constexpr std::uint64_t expected[] = {
        0x726fdb47dd0e0e31, 0x74f839c593dc67fd, 0x0d6c8009d9a94f5a, 0x85676696d7fb7e2d, 0xcf2794e0277187b7, 0x18765564cd99a68d,
        0xcbc9466e58fee3ce, 0xab0200f58b01d137, 0x93f5f5799a932462, 0x9e0082df0ba9e4b0, 0x7a5dbbc594ddb9f3, 0xf4b32f46226bada7,
        0x751e8fbc860ee5fb, 0x14ea5627c0843d90, 0xf723ca908e7af2ee, 0xa129ca6149be45e5};
    for (std::size_t size = 0; size < std::size(expected); ++size)
        EXPECT_EQ(siphash(reference_key(), counting(size)), expected[size]) << size << " bytes";
}

TEST(UdpGuard, HashOfPiecesIsHashOfTheWhole)
{
    test::Random random(3);
    for (int i = 0; i < 500; ++i) {
        std::vector<std::byte> bytes = counting(random.below(300));
        SipHash hash(reference_key());
        for (std::size_t done = 0; done < bytes.size();) {
            std::size_t size = std::min<std::size_t>(random.below(20), bytes.size() - done);
            hash.add(std::span(bytes).subspan(done, size));
            done += size;
        }
        EXPECT_EQ(hash.finish(), siphash(reference_key(), bytes)) << bytes.size() << " bytes";
    }
}

TEST(UdpGuard, EveryBitCounts)
{
    std::vector<std::byte> bytes = counting(57);
    std::uint64_t right = siphash(reference_key(), bytes);
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        bytes[bit / 8] ^= std::byte{1} << bit % 8;
        EXPECT_NE(siphash(reference_key(), bytes), right);
        bytes[bit / 8] ^= std::byte{1} << bit % 8;
    }
    Key key = reference_key();
    key[15] ^= 1;
    EXPECT_NE(siphash(key, bytes), right);
}

TEST(UdpGuard, KeysDifferByDirectionNoncesAndSecrets)
{
    Key a = reference_key(), b = reference_key();
    b[0] ^= 1;
    EXPECT_NE(name_of(a), name_of(b));
    EXPECT_NE(nonce_of(a, 1, 1), nonce_of(a, 1, 2));
    EXPECT_NE(nonce_of(a, 1, 1), nonce_of(a, 2, 1));
    EXPECT_NE(hello_key(a), hello_key(b));
    EXPECT_NE(hello_key(a, b), hello_key(b, a));
    Side one{1, &a, nonce_of(a, 2, 1)}, other{2, &b, nonce_of(b, 1, 1)};
    Side later = other, not_common = other, stranger = other;
    later.nonce = nonce_of(b, 1, 2);
    not_common.secret = nullptr;
    stranger.secret = &a;
    DirectionKeys keys(one, other);
    EXPECT_EQ(DirectionKeys(one, other).mac, keys.mac);
    for (const DirectionKeys &others : {DirectionKeys(other, one), DirectionKeys(one, later), DirectionKeys(one, not_common),
                                        DirectionKeys(one, stranger)}) {
        EXPECT_NE(others.mac, keys.mac);
        EXPECT_NE(others.seal, keys.seal);
        EXPECT_NE(others.token, keys.token);
        EXPECT_NE(others.first_number, keys.first_number);
    }
}

TEST(UdpGuard, WhatIsSealedIsReadByTheOtherOneAlone)
{
    if (!can_seal())
        GTEST_SKIP() << "built without libsodium";
    Key secret = reference_key();
    DirectionKeys keys({1, &secret, {}}, {2, &secret, {1}}), back({2, &secret, {1}}, {1, &secret, {}});
    std::vector<std::byte> header = counting(56), clear = counting(500), body(500);
    std::byte tag[seal_tag_size];
    seal_body(keys, 7, header, clear, body.data(), tag);
    EXPECT_NE(body, clear);
    auto opened = [&](const DirectionKeys &with, std::uint64_t number) {
        std::vector<std::byte> copy = body;
        return open_body(with, number, header, copy, tag) && copy == clear;
    };
    EXPECT_TRUE(opened(keys, 7));
    EXPECT_FALSE(opened(keys, 8));
    EXPECT_FALSE(opened(back, 7));
    for (std::byte *byte : {&body[499], &header[3], &tag[15]}) {
        *byte ^= std::byte{1};
        EXPECT_FALSE(opened(keys, 7));
        *byte ^= std::byte{1};
    }
    EXPECT_TRUE(opened(keys, 7));
}

TEST(UdpGuard, EachNumberIsTakenOnce)
{
    SeenNumbers seen;
    std::vector<bool> came(20'000);
    test::Random random(5);
    std::uint64_t start = std::uint64_t{1} << 61, highest = 0;
    for (int i = 0; i < 50'000; ++i) {
        std::uint64_t number = std::min<std::uint64_t>(i / 3 + random.below(random.one_in(50) ? 3000 : 100), came.size() - 1);
        bool old = number + SeenNumbers::size <= highest;
        ASSERT_EQ(seen.is_new(start + number), !old && !came[number]) << number;
        if (old)
            continue;
        came[number] = true;
        highest = std::max(highest, number);
        seen.add(start + number);
    }
}

}  // namespace
}  // namespace pm::udp

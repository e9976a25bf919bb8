// A set of ranks, 64 of them a word: rank r is bit r % 64 of word r / 64. Ranks behind the last word are not in the set.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pm::coll::bitmap {

using Words = std::span<const std::uint64_t>;
inline constexpr int word_bits = 64;

inline std::size_t count(Words words)
{
    std::size_t members = 0;
    for (std::uint64_t word : words)
        members += static_cast<std::size_t>(std::popcount(word));
    return members;
}

inline bool test(Words words, int rank)
{
    if (rank < 0)
        return false;
    const std::size_t word = static_cast<std::size_t>(rank) / word_bits;
    return word < words.size() && (words[word] >> (rank % word_bits) & 1) != 0;
}

// The rank as a set, of which this is one word.
inline std::uint64_t bit_in_word(int rank, std::size_t word)
{
    return static_cast<std::size_t>(rank) / word_bits == word ? std::uint64_t{1} << rank % word_bits : 0;
}

// How many members have a lower rank: of a member, its index.
inline std::size_t count_below(Words words, int rank)
{
    if (rank <= 0)
        return 0;
    const std::size_t whole = static_cast<std::size_t>(rank) / word_bits;
    if (whole >= words.size())
        return count(words);
    const std::uint64_t below = (std::uint64_t{1} << (rank % word_bits)) - 1;
    return count(words.first(whole)) + static_cast<std::size_t>(std::popcount(words[whole] & below));
}

// The highest rank of the set; -1 when it is empty.
inline int highest(Words words)
{
    for (std::size_t word = words.size(); word-- > 0;)
        if (words[word] != 0)
            return static_cast<int>(word) * word_bits + word_bits - 1 - std::countl_zero(words[word]);
    return -1;
}

// `visit(rank)` for each member, lowest first.
template <class Visit>
void for_each(Words words, Visit visit)
{
    for (std::size_t word = 0; word < words.size(); ++word)
        for (std::uint64_t rest = words[word]; rest != 0; rest &= rest - 1)
            visit(static_cast<int>(word) * word_bits + std::countr_zero(rest));
}

inline std::vector<int> members_of(Words words)
{
    std::vector<int> ranks;
    ranks.reserve(count(words));
    for_each(words, [&](int rank) { ranks.push_back(rank); });
    return ranks;
}

}  // namespace pm::coll::bitmap

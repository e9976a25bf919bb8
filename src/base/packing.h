// Numbers and texts as bytes, the same on every kind of machine: a mark, then what is written one after the other. A number takes 7 bits a
// byte, lowest first, with the eighth bit set where more follow, and no byte more than it needs; a text is its size and its bytes; a list is its size
// and its members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace pm {

class Writer {
  public:
    explicit Writer(std::byte mark) : bytes_{mark} {}
    void number(std::uint64_t value)
    {
        for (; value >= 0x80; value >>= 7)
            bytes_.push_back(static_cast<std::byte>(value & 0x7f) | std::byte{0x80});
        bytes_.push_back(static_cast<std::byte>(value));
    }
    void text(std::string_view text)
    {
        number(text.size());
        auto first = reinterpret_cast<const std::byte *>(text.data());
        bytes_.insert(bytes_.end(), first, first + text.size());
    }
    template <class Member>
    void list(const std::vector<Member> &members, std::type_identity_t<void (*)(Writer &, const Member &)> write)
    {
        number(members.size());
        for (const Member &member : members)
            write(*this, member);
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

  private:
    std::vector<std::byte> bytes_;
};

// Answers zeros and empty texts once something was wrong: ok() is asked at the end, and before each member of a list.
class Reader {
  public:
    Reader(std::byte mark, std::span<const std::byte> bytes) : rest_(bytes)
    {
        if (rest_.empty() || rest_[0] != mark)
            fail();
        else
            rest_ = rest_.subspan(1);
    }
    bool ok() const { return ok_; }
    bool at_end() const { return ok_ && rest_.empty(); }
    std::uint64_t number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max())
    {
        std::uint64_t value = 0;
        for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
            auto part = std::to_integer<std::uint64_t>(rest_[0] & std::byte{0x7f});
            bool last = (rest_[0] & std::byte{0x80}) == std::byte{0};
            bool lost = part << shift >> shift != part;
            bool needless = last && part == 0 && shift > 0;
            if (lost || needless)
                break;
            rest_ = rest_.subspan(1);
            value |= part << shift;
            if (last && value <= most)
                return value;
            if (last)
                break;
        }
        fail();
        return 0;
    }
    std::uint32_t small_number()
    {
        return static_cast<std::uint32_t>(number(std::numeric_limits<std::uint32_t>::max()));
    }
    // Of members that take `least` bytes or more each: never more than there can be.
    std::uint64_t count(std::size_t least)
    {
        std::uint64_t members = number();
        if (members <= rest_.size() / least)
            return members;
        fail();
        return 0;
    }
    std::string text()
    {
        std::size_t size = count(1);
        if (!ok_)
            return {};
        std::string text(reinterpret_cast<const char *>(rest_.data()), size);
        rest_ = rest_.subspan(size);
        return text;
    }
    template <class Member>
    void list(std::size_t least, std::vector<Member> *members, std::type_identity_t<void (*)(Reader &, Member *)> read)
    {
        for (std::uint64_t left = count(least); left > 0 && ok_; --left)
            read(*this, &members->emplace_back());
    }

  private:
    void fail()
    {
        ok_ = false;
        rest_ = {};
    }

    std::span<const std::byte> rest_;
    bool ok_ = true;
};

}  // namespace pm

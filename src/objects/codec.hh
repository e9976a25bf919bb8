// Arguments and results as bytes. A type travels when it has a Codec: trivially copyable types, strings, vectors, spans, Buffers, pairs,
// tuples, optionals, and whatever a program adds by a Codec of its own (write, read). Short things are written one after the other; what
// has `bulk_size` or more bytes stays where it is until it is sent, and what arrives is looked at where it arrived (spans, string views)
// or taken over (Buffer). Reader never looks beyond what came: it throws Error instead.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "block.hh"
#include "error.hh"

namespace composite {

inline constexpr std::size_t bulk_size = 1024;

class Writer {
  public:
    Writer() = default;
    Writer(const Writer &) = delete;
    Writer &operator=(const Writer &) = delete;

    // The bytes must stay until the message is sent, when there are bulk_size or more and copies are not kept.
    void put(const void *bytes, std::size_t size, std::size_t alignment)
    {
        if (size >= bulk_size) {
            if (keeping_copies_) {
                const auto *from = static_cast<const std::byte *>(bytes);
                bytes = copies_.emplace_back(from, from + size).data();
            }
            bulk_.push_back({static_cast<const std::byte *>(bytes), size});
            bulk_bytes_ = rounded(bulk_bytes_) + size;
            return;
        }
        const std::size_t at = (size_ + alignment - 1) & ~(alignment - 1);
        if (at + size > capacity_)
            grow(at + size);
        if (at > size_)
            std::memset(data_ + size_, 0, at - size_);
        if (size > 0)
            std::memcpy(data_ + at, bytes, size);
        size_ = at + size;
    }
    template <class T>
    void value(const T &value)
    {
        static_assert(std::is_trivially_copyable_v<T>);
        put(&value, sizeof value, alignof(T));
    }

    // For what goes before the message is sent: long things, too, are copied.
    void keep_copies(bool keep) { keeping_copies_ = keep; }

    // What was written: the short part, and the long one, if there is only one piece of it, as it is.
    std::span<const std::byte> inlined() const { return {data_, size_}; }
    std::span<const std::span<const std::byte>> bulk() const { return bulk_; }
    std::size_t bulk_bytes() const { return bulk_bytes_; }
    // All pieces behind each other, as Reader expects them.
    void copy_bulk(std::byte *to) const
    {
        std::size_t at = 0;
        for (const auto &piece : bulk_) {
            at = rounded(at);
            std::memcpy(to + at, piece.data(), piece.size());
            at += piece.size();
        }
    }
    static constexpr std::size_t rounded(std::size_t size) { return (size + 15) & ~std::size_t{15}; }

  private:
    void grow(std::size_t least)
    {
        more_.resize(std::max(least, 2 * capacity_));
        if (data_ == short_)
            std::memcpy(more_.data(), short_, size_);
        data_ = more_.data();
        capacity_ = more_.size();
    }

    alignas(16) std::byte short_[256];
    std::byte *data_ = short_;
    std::size_t size_ = 0, capacity_ = sizeof short_;
    std::vector<std::byte> more_;
    std::vector<std::span<const std::byte>> bulk_;
    std::size_t bulk_bytes_ = 0;
    std::vector<std::vector<std::byte>> copies_;
    bool keeping_copies_ = false;
};

class Reader {
  public:
    // `block`, if there is one, is where the bulk lies; a Buffer may take it over.
    Reader(std::span<const std::byte> inlined, std::span<std::byte> bulk, BlockPointer *block = nullptr)
        : inlined_(inlined), bulk_(bulk), block_(block)
    {
    }

    const std::byte *take(std::size_t size, std::size_t alignment)
    {
        if (size >= bulk_size) {
            const std::size_t at = Writer::rounded(bulk_at_);
            check(at <= bulk_.size() && size <= bulk_.size() - at);
            bulk_at_ = at + size;
            return bulk_.data() + at;
        }
        const std::size_t at = (at_ + alignment - 1) & ~(alignment - 1);
        check(at <= inlined_.size() && size <= inlined_.size() - at);
        at_ = at + size;
        return inlined_.data() + at;
    }
    template <class T>
    T value()
    {
        static_assert(std::is_trivially_copyable_v<T>);
        std::array<std::byte, sizeof(T)> bytes;
        std::memcpy(bytes.data(), take(sizeof(T), alignof(T)), sizeof(T));
        return std::bit_cast<T>(bytes);
    }
    // A number of elements of at least `size` bytes each: more cannot be there than bytes came.
    std::size_t count(std::size_t size)
    {
        const auto n = value<std::uint64_t>();
        check(n <= (inlined_.size() + bulk_.size()) / std::max<std::size_t>(size, 1));
        return n;
    }
    void finished() const { check(at_ == inlined_.size() && bulk_at_ == bulk_.size()); }
    Buffer take_buffer()
    {
        const std::size_t size = count(1);
        const std::byte *from = take(size, 1);
        if (size >= bulk_size && block_ != nullptr && *block_ != nullptr && bulk_.size() == size)
            return {std::move(*block_), const_cast<std::byte *>(from), size};
        Buffer copy(size);
        if (size > 0)
            std::memcpy(copy.data(), from, size);
        return copy;
    }

  private:
    static void check(bool ok)
    {
        if (!ok)
            throw Error("the arguments do not decode: sender and receiver do not mean the same types");
    }

    std::span<const std::byte> inlined_;
    std::span<std::byte> bulk_;
    BlockPointer *block_;
    std::size_t at_ = 0, bulk_at_ = 0;
};

// A program's own type: specialise with `static void write(Writer &, const T &)` and `static T read(Reader &)`.
template <class T>
struct Codec;

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
concept Plain = std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !std::is_reference_v<T> && !IsOptional<T>::value;
template <class T>
struct IsView : std::false_type {};
template <class T, std::size_t N>
struct IsView<std::span<T, N>> : std::true_type {};
template <class C>
struct IsView<std::basic_string_view<C>> : std::true_type {};

template <class T>
    requires(Plain<T> && !IsView<T>::value)
struct Codec<T> {
    static void write(Writer &to, const T &value) { to.value(value); }
    static T read(Reader &from) { return from.value<T>(); }
};

// Whoever sent it: only 0 and 1 are values of a bool. Those within a plain struct or array are taken as they come.
template <>
struct Codec<bool> {
    static void write(Writer &to, bool value) { to.value(value); }
    static bool read(Reader &from) { return from.value<char>() != 0; }
};

template <class T>
void write_elements(Writer &to, const T *elements, std::size_t count)
{
    to.value(static_cast<std::uint64_t>(count));
    if constexpr (Plain<T>) {
        to.put(elements, count * sizeof(T), alignof(T));
    } else {
        for (std::size_t i = 0; i < count; ++i)
            Codec<T>::write(to, elements[i]);
    }
}

template <class T>
struct Codec<std::vector<T>> {
    static_assert(!std::is_same_v<T, bool>, "send a vector of char instead of a vector of bool");
    static void write(Writer &to, const std::vector<T> &value) { write_elements(to, value.data(), value.size()); }
    static std::vector<T> read(Reader &from)
    {
        std::vector<T> value;
        if constexpr (Plain<T>) {
            const std::size_t count = from.count(sizeof(T));
            const std::byte *bytes = from.take(count * sizeof(T), alignof(T));
            value.resize(count);
            if (count > 0)
                std::memcpy(static_cast<void *>(value.data()), bytes, count * sizeof(T));
        } else {
            for (std::size_t left = from.count(1); left > 0; --left)
                value.push_back(Codec<T>::read(from));
        }
        return value;
    }
};

// What is read is a view of the message: it lasts as long as the method that gets it.
template <Plain T>
struct Codec<std::span<const T>> {
    static void write(Writer &to, std::span<const T> value) { write_elements(to, value.data(), value.size()); }
    static std::span<const T> read(Reader &from)
    {
        const std::size_t count = from.count(sizeof(T));
        return {reinterpret_cast<const T *>(from.take(count * sizeof(T), alignof(T))), count};
    }
};
template <>
struct Codec<std::string_view> {
    static void write(Writer &to, std::string_view value) { write_elements(to, value.data(), value.size()); }
    static std::string_view read(Reader &from)
    {
        const std::size_t count = from.count(1);
        return {reinterpret_cast<const char *>(from.take(count, 1)), count};
    }
};
template <>
struct Codec<std::string> {
    static void write(Writer &to, std::string_view value) { write_elements(to, value.data(), value.size()); }
    static std::string read(Reader &from) { return std::string(Codec<std::string_view>::read(from)); }
};
template <>
struct Codec<Buffer> {
    static void write(Writer &to, const Buffer &value) { write_elements(to, value.data(), value.size()); }
    static Buffer read(Reader &from) { return from.take_buffer(); }
};

template <class... T>
    requires(!Plain<std::tuple<T...>>)
struct Codec<std::tuple<T...>> {
    static void write(Writer &to, const std::tuple<T...> &value)
    {
        std::apply([&](const auto &...each) { (Codec<T>::write(to, each), ...); }, value);
    }
    static std::tuple<T...> read(Reader &from) { return std::tuple<T...>{Codec<T>::read(from)...}; }
};
template <class A, class B>
    requires(!Plain<std::pair<A, B>>)
struct Codec<std::pair<A, B>> {
    static void write(Writer &to, const std::pair<A, B> &value)
    {
        Codec<A>::write(to, value.first);
        Codec<B>::write(to, value.second);
    }
    static std::pair<A, B> read(Reader &from) { return std::pair<A, B>{Codec<A>::read(from), Codec<B>::read(from)}; }
};
template <class T>
struct Codec<std::optional<T>> {
    static void write(Writer &to, const std::optional<T> &value)
    {
        Codec<bool>::write(to, value.has_value());
        if (value)
            Codec<T>::write(to, *value);
    }
    static std::optional<T> read(Reader &from)
    {
        if (Codec<bool>::read(from))
            return Codec<T>::read(from);
        return std::nullopt;
    }
};

// What a type is on the way: texts are one, and so are lists of one element type, whatever holds them.
template <class T>
struct OnTheWay {
    using Type = T;
};
template <class T>
struct ListOf;
template <>
struct OnTheWay<const char *> {
    using Type = std::string;
};
template <>
struct OnTheWay<char *> {
    using Type = std::string;
};
template <>
struct OnTheWay<std::string_view> {
    using Type = std::string;
};
template <class T>
struct OnTheWay<std::vector<T>> {
    using Type = ListOf<T>;
};
template <class T>
struct OnTheWay<std::span<const T>> {
    using Type = ListOf<T>;
};
template <class T>
struct OnTheWay<std::span<T>> {
    using Type = ListOf<T>;
};

constexpr std::uint32_t hash32(std::string_view text)
{
    std::uint32_t hash = 2166136261u;
    for (const char each : text)
        hash = (hash ^ static_cast<unsigned char>(each)) * 16777619u;
    return hash;
}
template <class... T>
constexpr std::uint32_t signature_of()
{
    return hash32(__PRETTY_FUNCTION__);
}
// A number for the list of these parameter types: equal when sender and receiver mean the same.
template <class... Parameters>
inline constexpr std::uint32_t signature = signature_of<typename OnTheWay<std::decay_t<Parameters>>::Type...>();

}  // namespace composite

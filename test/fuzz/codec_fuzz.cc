// Arguments of any content for composite/objects: a short part and a long one, and a list of types that a receiver expects there. What it reads
// must lie in what came, or be refused by an Error; what was read is the same when it is written and read again.
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fuzz/fuzz.h"
#include "objects/codec.hh"

namespace pm::fuzz {
namespace {

using namespace composite;

struct Point {
    double x, y;
    std::int16_t number, rest[3];  // no gap, whose bytes may change
};

// As long as what it holds, so that a sanitizer sees who looks beyond.
struct Part {
    explicit Part(std::span<const std::uint8_t> from) : size(from.size()), bytes(new std::byte[from.size()])
    {
        if (size > 0)
            std::memcpy(bytes.get(), from.data(), size);
    }
    std::span<std::byte> all() const { return {bytes.get(), size}; }

    std::size_t size;
    std::unique_ptr<std::byte[]> bytes;
};

struct Written {
    template <class T>
    explicit Written(const T &value)
    {
        Writer to;
        Codec<T>::write(to, value);
        inlined.assign(to.inlined().begin(), to.inlined().end());
        bulk.resize(to.bulk_bytes());
        to.copy_bulk(bulk.data());
    }
    bool operator==(const Written &) const = default;

    std::vector<std::byte> inlined, bulk;
};

template <class T>
void read(Reader &from)
{
    const T value = Codec<T>::read(from);
    Written once(value);
    try {
        Reader again(once.inlined, once.bulk);
        const T same = Codec<T>::read(again);
        again.finished();
        require(Written(same) == once, "what was read changes when it is written and read");
    } catch (const Error &) {
        require(false, "what was written cannot be read");
    }
}

constexpr std::array readers{
    read<bool>,
    read<char>,
    read<std::int32_t>,
    read<double>,
    read<Point>,
    read<std::array<char, 2000>>,
    read<std::string>,
    read<std::string_view>,
    read<std::vector<char>>,
    read<std::vector<Point>>,
    read<std::span<const std::int64_t>>,
    read<std::vector<std::string>>,
    read<std::vector<std::vector<std::int16_t>>>,
    read<Buffer>,
    read<std::optional<std::string>>,
    read<std::optional<std::int32_t>>,
    read<std::pair<std::string, std::int32_t>>,
    read<std::tuple<char, std::string, std::vector<double>>>,
    read<std::vector<std::optional<std::pair<std::string, Point>>>>,
};

}  // namespace
}  // namespace pm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    using namespace pm::fuzz;
    Choices choices(data, size);
    const std::uint8_t shape = choices.byte();
    const auto types = choices.bytes(shape % 8);
    const std::size_t inlined_size = choices.byte();
    // A long part that the input need not have whole: its bytes again and again.
    std::vector<std::uint8_t> long_part(shape & 64 ? choices.word() % 8192 : 0);
    const Part inlined(choices.bytes(inlined_size));
    const auto rest = choices.bytes(size);
    for (std::size_t i = 0; i < long_part.size(); ++i)
        long_part[i] = rest.empty() ? 0 : rest[i % rest.size()];
    BlockPointer block;
    Part own({});
    std::span<std::byte> bulk;
    if (shape & 128) {  // where the network put it
        block.reset(composite::Block::take(long_part.size()));
        bulk = {block->data(), long_part.size()};
        if (!long_part.empty())
            std::memcpy(bulk.data(), long_part.data(), long_part.size());
    } else {
        own = Part(long_part);
        bulk = own.all();
    }
    try {
        composite::Reader from(inlined.all(), bulk, block != nullptr ? &block : nullptr);
        for (std::uint8_t type : types) {
            readers[type % readers.size()](from);
            if (shape & 128 && block == nullptr)
                return 0;  // a Buffer has taken it, and has gone
        }
        from.finished();
    } catch (const composite::Error &) {
    }
    return 0;
}

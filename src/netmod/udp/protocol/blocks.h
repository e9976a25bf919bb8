// Memory of packets, for all pairs of a process: what has arrived leaves its block to the next packet of that size.
//
// A stream has a thousand packets on their way. Blocks that were asked of the allocator one by one, and given back, cost more than
// what they hold; so those of usual sizes are kept, within a limit.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace pm::udp {

class Blocks {
  public:
    std::unique_ptr<std::byte[]> take(std::size_t size)
    {
        Kept *kept = of(size);
        if (kept == nullptr || kept->blocks.empty())
            return std::make_unique_for_overwrite<std::byte[]>(kept == nullptr ? size : kept->size);
        auto block = std::move(kept->blocks.back());
        kept->blocks.pop_back();
        return block;
    }

    // `size` as it was asked for.
    void give_back(std::unique_ptr<std::byte[]> block, std::size_t size)
    {
        if (Kept *kept = of(size); kept != nullptr && kept->blocks.size() < kept->limit)
            kept->blocks.push_back(std::move(block));
    }

  private:
    struct Kept {
        std::size_t size, limit;
        std::vector<std::unique_ptr<std::byte[]>> blocks;
    };
    Kept *of(std::size_t size)
    {
        for (Kept &kept : kept_)
            if (size <= kept.size)
                return &kept;
        return nullptr;
    }

    // Small messages, packets of usual networks, of such with long packets, and of a host to itself: at most 4 MiB.
    Kept kept_[4] = {{256, 512, {}}, {1536, 1024, {}}, {9216, 128, {}}, {65536, 16, {}}};
};

}  // namespace pm::udp

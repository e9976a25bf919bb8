// Queues of messages and receives when there is no memory for an index: they are searched without one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>

namespace {

int allocations_left;

void *few_callocs(std::size_t count, std::size_t size)
{
    return allocations_left-- > 0 ? std::calloc(count, size) : nullptr;
}

}  // namespace

#define calloc few_callocs
#include "base/matching.h"
#undef calloc

namespace {

TEST(MatchingWithoutMemory, ReceivesHaveAllIndicesOrNone)
{
    constexpr int many = 1000;
    for (int given = 0; given < static_cast<int>(PM_MATCH_KINDS); ++given) {
        pm_match_queue queue{};
        queue.of_receives = true;
        allocations_left = given;
        std::deque<pm_match_entry> entries(many);
        for (int tag = 0; tag < many; ++tag) {
            entries[static_cast<std::size_t>(tag)].context = 1;
            entries[static_cast<std::size_t>(tag)].source = 2;
            entries[static_cast<std::size_t>(tag)].tag = tag;
            pm_match_add(&queue, &entries[static_cast<std::size_t>(tag)]);
        }
        // A long walk makes an index worth it.
        EXPECT_EQ(pm_match_receive_of(&queue, 1, 2, many - 1), &entries.back());
        EXPECT_EQ(allocations_left, -1) << "it was tried once";
        EXPECT_EQ(queue.indexed, 0u) << given;
        for (const pm_match_index &index : queue.indices) {
            EXPECT_EQ(index.lists, nullptr) << given;
            EXPECT_EQ(index.room, 0u) << given;
            EXPECT_EQ(index.count, 0u) << given;
        }
    }
}

}  // namespace

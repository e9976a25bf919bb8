// Matching against a plain model: two lists that are searched from the front.
#include <gtest/gtest.h>

#include <cstdlib>
#include <list>
#include <memory>
#include <random>

#include "base/matching.h"

namespace pm {
namespace {

struct Entry {
    pm_match_entry entry{};
    int id = 0;
};

struct Model {
    struct Item {
        std::uint32_t context;
        std::int32_t source, tag;
        int id;
    };
    std::list<Item> receives, messages;

    static bool fit(const Item &receive, const Item &message)
    {
        return receive.context == message.context && (receive.source == PM_ANY_SOURCE || receive.source == message.source) &&
               (receive.tag == PM_ANY_TAG || receive.tag == message.tag);
    }
};

class Matching : public ::testing::Test {
  protected:
    ~Matching() override
    {
        for (pm_match_queue *queue : {&receives, &messages}) {
            while (queue->all.first != nullptr)
                remove(queue, queue->all.first);
            for (auto &index : queue->indices)
                std::free(index.lists);
        }
    }
    void add(pm_match_queue *queue, std::uint32_t context, std::int32_t source, std::int32_t tag, int id)
    {
        auto *made = new Entry;
        made->entry.context = context;
        made->entry.source = source;
        made->entry.tag = tag;
        made->id = id;
        pm_match_add(queue, &made->entry);
    }
    static int id_of(pm_match_entry *entry) { return entry == nullptr ? -1 : reinterpret_cast<Entry *>(entry)->id; }
    static void remove(pm_match_queue *queue, pm_match_entry *entry)
    {
        pm_match_remove(queue, entry);
        delete reinterpret_cast<Entry *>(entry);
    }

    pm_match_queue receives{.all = {}, .count = 0, .numbers = 0, .of_receives = true, .indexed = 0, .indices = {}};
    pm_match_queue messages{};
};

unsigned seed_of_run()
{
    const char *seed = std::getenv("SEED");
    return seed != nullptr ? static_cast<unsigned>(std::strtoul(seed, nullptr, 10)) : std::random_device()();
}

TEST_F(Matching, EveryScheduleMatchesAsThePlainModelDoes)
{
    const unsigned seed = seed_of_run();
    SCOPED_TRACE("SEED=" + std::to_string(seed));
    std::mt19937 random(seed);
    Model model;
    int id = 0;
    auto below = [&random](unsigned n) { return static_cast<int>(random() % n); };
    for (int phase = 0; phase < 60; ++phase) {
        const unsigned contexts = 1 + below(3), sources = 1 + below(phase % 3 == 0 ? 200 : 4), tags = 1 + below(phase % 3 == 1 ? 500 : 4);
        const int wildcards = below(3) * 10, posts = 20 + below(60);
        for (int step = 0; step < 2000; ++step) {
            auto context = static_cast<std::uint32_t>(below(contexts));
            std::int32_t source = below(sources), tag = below(tags);
            ++id;
            if (below(100) < 2 && !model.receives.empty()) {  // one is cancelled
                auto victim = std::next(model.receives.begin(), below(static_cast<unsigned>(model.receives.size())));
                pm_match_entry *entry = receives.all.first;
                while (id_of(entry) != victim->id)
                    entry = entry->all.next;
                remove(&receives, entry);
                model.receives.erase(victim);
            } else if (below(100) < posts) {
                if (below(100) < wildcards)
                    source = PM_ANY_SOURCE;
                if (below(100) < wildcards)
                    tag = PM_ANY_TAG;
                const Model::Item receive{context, source, tag, id};
                auto expected = model.messages.begin();
                while (expected != model.messages.end() && !Model::fit(receive, *expected))
                    ++expected;
                pm_match_entry *found = pm_match_message_of(&messages, context, source, tag);
                ASSERT_EQ(id_of(found), expected == model.messages.end() ? -1 : expected->id);
                if (found == nullptr) {
                    add(&receives, context, source, tag, id);
                    model.receives.push_back(receive);
                } else {
                    remove(&messages, found);
                    model.messages.erase(expected);
                }
            } else {
                const Model::Item message{context, source, tag, id};
                auto expected = model.receives.begin();
                while (expected != model.receives.end() && !Model::fit(*expected, message))
                    ++expected;
                pm_match_entry *found = pm_match_receive_of(&receives, context, source, tag);
                ASSERT_EQ(id_of(found), expected == model.receives.end() ? -1 : expected->id);
                if (found == nullptr) {
                    add(&messages, context, source, tag, id);
                    model.messages.push_back(message);
                } else {
                    remove(&receives, found);
                    model.receives.erase(expected);
                }
            }
            ASSERT_EQ(receives.count, model.receives.size());
            ASSERT_EQ(messages.count, model.messages.size());
        }
        if (phase % 4 == 3) {  // empty again
            for (pm_match_queue *queue : {&receives, &messages})
                while (queue->all.last != nullptr)
                    remove(queue, phase % 8 == 3 ? queue->all.last : queue->all.first);
            model.receives.clear();
            model.messages.clear();
            ASSERT_EQ(receives.indexed, 0u);
            ASSERT_EQ(messages.indexed, 0u);
        }
    }
}

// How far searches walk is what makes them slow: with an index only through what has the same place in it.
TEST_F(Matching, ManyInReverseOrderAreFoundWithoutAWalk)
{
    constexpr int many = 20000;
    for (int tag = 0; tag < many; ++tag) {
        add(&messages, 1, 2, tag, tag);
        add(&receives, 1, 2, tag, tag);
    }
    for (int tag = many - 1; tag >= 0; --tag) {
        pm_match_entry *message = pm_match_message_of(&messages, 1, 2, tag);
        ASSERT_EQ(id_of(message), tag);
        remove(&messages, message);
        pm_match_entry *receive = pm_match_receive_of(&receives, 1, 2, tag);
        ASSERT_EQ(id_of(receive), tag);
        remove(&receives, receive);
        if (tag == many / 2) {
            for (pm_match_queue *queue : {&receives, &messages}) {
                std::size_t longest = 0;
                for (std::size_t i = 0; i < queue->indices[0].room; ++i) {
                    std::size_t length = 0;
                    for (pm_match_entry *entry = queue->indices[0].lists[i].first; entry != nullptr; entry = entry->of_kind[0].next)
                        ++length;
                    longest = std::max(longest, length);
                }
                EXPECT_LE(longest, 12u);
            }
        }
    }
}

TEST_F(Matching, AnIndexGrowsWithWhatItHolds)
{
    for (int tag = 0; tag < 5000; ++tag)
        add(&receives, 1, 2, tag, tag);
    EXPECT_EQ(id_of(pm_match_receive_of(&receives, 1, 2, 4999)), 4999);
    ASSERT_NE(receives.indexed, 0u) << "a long walk is worth one";
    EXPECT_EQ(receives.indices[0].count, 5000u);
    EXPECT_GE(receives.indices[0].room, 5000u);
    // With room for twice as many it is made anew only when they have come.
    const pm_match_list *lists = receives.indices[0].lists;
    ASSERT_LT(receives.indices[0].count, receives.indices[0].room);
    add(&receives, 1, 2, 5000, 5000);
    EXPECT_EQ(receives.indices[0].lists, lists);
}

TEST_F(Matching, AWildcardThatWasPostedFirstGetsTheMessage)
{
    for (int i = 0; i < 100; ++i)
        add(&receives, 7, 1000 + i, 1, 1000 + i);  // so that there are indices
    add(&receives, 7, 3, PM_ANY_TAG, 1);
    add(&receives, 7, PM_ANY_SOURCE, 4, 2);
    add(&receives, 7, 3, 4, 3);
    add(&receives, 7, PM_ANY_SOURCE, PM_ANY_TAG, 4);
    for (int expected = 1; expected <= 4; ++expected) {
        pm_match_entry *entry = pm_match_receive_of(&receives, 7, 3, 4);
        ASSERT_EQ(id_of(entry), expected);
        remove(&receives, entry);
    }
    EXPECT_EQ(pm_match_receive_of(&receives, 7, 3, 4), nullptr);
    EXPECT_EQ(pm_match_receive_of(&receives, 8, 1000, 1), nullptr);
}

}  // namespace
}  // namespace pm

// Everybody tells everybody: in a simulated job, where messages between two ranks are in order and otherwise as late as a seed says.
#include "coll/exchange/engine.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "support/wires.h"

namespace pm::coll {
namespace {

constexpr std::uint32_t group = 0x10007;

class Job {
  public:
    Job(int ranks, unsigned seed) : engines_(static_cast<std::size_t>(ranks)), random_(seed) {}

    pm_exchange *start(int rank, const std::string &bytes)
    {
        ExchangeMessage message;
        auto exchange = engine(rank).start(group, rank, ranks(), bytes.data(), bytes.size(), &message);
        for (int to = 0; to < ranks(); ++to)
            if (to != rank)
                network_[{rank, to}].push_back(message);
        return exchange;
    }
    bool deliver_one()
    {
        auto taken = network_.take_one(random_);
        if (taken) {
            EXPECT_TRUE(engine(taken->first.second).arrived(&taken->second, taken->second.length()));
        }
        return taken.has_value();
    }
    ExchangeEngine &engine(int rank) { return engines_[static_cast<std::size_t>(rank)]; }
    int ranks() const { return static_cast<int>(engines_.size()); }
    unsigned random(int below) { return static_cast<unsigned>(random_() % static_cast<unsigned>(below)); }

  private:
    std::vector<ExchangeEngine> engines_;
    std::mt19937 random_;
    test::Wires<ExchangeMessage> network_;
};

std::string words(int rank, int number)
{
    return std::string(static_cast<std::size_t>(number % (PM_EXCHANGE_BYTES_LIMIT + 1)), static_cast<char>('a' + rank));
}

// Whoever is done starts the next one at once, while others have not finished the last.
TEST(ExchangeEngine, EachHearsWhatAllSaidInThisOne)
{
    for (int ranks : {1, 2, 3, PM_EXCHANGE_RANKS_LIMIT})
        for (unsigned seed = 1; seed <= 10; ++seed) {
            Job job(ranks, seed);
            constexpr int last = 70;
            std::vector<int> number(static_cast<std::size_t>(ranks));
            std::vector<pm_exchange *> exchange(static_cast<std::size_t>(ranks));
            for (int left = ranks * last; left > 0;) {
                auto rank = static_cast<int>(job.random(ranks));
                auto at = static_cast<std::size_t>(rank);
                if (exchange[at] == nullptr && number[at] < last) {
                    exchange[at] = job.start(rank, words(rank, number[at]));
                } else if (exchange[at] != nullptr && exchange[at]->is_done()) {
                    auto all = ExchangeEngine::end(exchange[at]);
                    for (int from = 0; from < ranks; ++from)
                        ASSERT_EQ(std::string(all[from], words(from, number[at]).size()), words(from, number[at]));
                    exchange[at] = nullptr;
                    ++number[at];
                    --left;
                } else {
                    job.deliver_one();
                }
            }
            EXPECT_FALSE(job.deliver_one()) << "nobody was told twice";
        }
}

TEST(ExchangeEngine, IsNotDoneBeforeTheLastHasCome)
{
    Job job(3, 1);
    pm_exchange *exchange = job.start(0, "x");
    job.start(1, "y");
    while (job.deliver_one()) {
    }
    EXPECT_FALSE(exchange->is_done());
    job.start(2, "z");
    while (job.deliver_one()) {
    }
    EXPECT_TRUE(exchange->is_done());
}

TEST(ExchangeEngine, WhatIsNoMessageIsLeftAlone)
{
    ExchangeEngine engine;
    ExchangeMessage message;
    pm_exchange *exchange = engine.start(group, 0, 2, nullptr, 0, &message);
    auto refused = [&](std::uint8_t set, std::uint8_t rank, std::uint8_t size, std::size_t length) {
        ExchangeMessage wrong{group, set, rank, size, 0, {}};
        return !engine.arrived(&wrong, length) && !exchange->is_done();
    };
    EXPECT_TRUE(refused(2, 1, 0, 8)) << "there are two sets";
    EXPECT_TRUE(refused(0, PM_EXCHANGE_RANKS_LIMIT, 0, 8));
    EXPECT_TRUE(refused(0, 1, 1, 8)) << "it says more than it has";
    EXPECT_TRUE(refused(0, 1, PM_EXCHANGE_BYTES_LIMIT + 1, 8 + PM_EXCHANGE_BYTES_LIMIT + 1));
    EXPECT_TRUE(refused(0, 1, 0, 7));
    ExchangeMessage right{group, 0, 1, 0, 0, {}};
    EXPECT_TRUE(engine.arrived(&right, 8));
    EXPECT_TRUE(exchange->is_done());
}

TEST(ExchangeEngine, AGroupThatIsForgottenBeginsAnew)
{
    ExchangeEngine engine;
    ExchangeMessage early{group, 0, 1, 0, 0, {}};
    EXPECT_TRUE(engine.arrived(&early, 8)) << "before we have the group";
    engine.forget(group);
    EXPECT_FALSE(engine.start(group, 0, 2, nullptr, 0, &early)->is_done());
}

}  // namespace
}  // namespace pm::coll

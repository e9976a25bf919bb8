// Whether somebody else is on the core: threads that are bound to one core.
#include "base/company.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/tuning.h"

namespace pm {
namespace {

constexpr int many = 100'000;
constexpr auto long_enough = std::chrono::seconds(60);  // where others compute on the core, too

void bind_to_one_core()
{
    cpu_set_t all, one;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &all)) {
            CPU_SET(core, &one);
            break;
        }
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

bool comes_to(Company &company, bool here)
{
    const Time end = clock_now() + long_enough;
    do
        company.glance();
    while (company.is_here() != here && clock_now() < end);
    return company.is_here() == here;
}

TEST(Company, IsWhoGivesTheCoreBackSoon)
{
    std::thread([] {
        bind_to_one_core();
        std::atomic<bool> ends = false;
        std::thread other([&] {
            while (!ends)
                sched_yield();
        });
        Company company;
        EXPECT_FALSE(company.is_here());
        EXPECT_TRUE(comes_to(company, true));
        ends = true;
        other.join();
        EXPECT_TRUE(comes_to(company, false));
    }).join();
}

// Whoever was alone for long does not look each time.
TEST(Company, IsFoundByWhoWasAlone)
{
    std::thread([] {
        bind_to_one_core();
        Company company;
        for (int i = 0; i < many; ++i)
            company.glance();
        EXPECT_LT(company.yields(), many / 10);
        std::atomic<bool> ends = false;
        std::thread other([&] {
            while (!ends)
                sched_yield();
        });
        EXPECT_TRUE(comes_to(company, true));
        ends = true;
        other.join();
    }).join();
}

// As a rank does in a collective.
TEST(Company, IsWhoLooksForAWhileBeforeItGivesTheCoreBack)
{
    std::thread([] {
        bind_to_one_core();
        std::atomic<bool> ends = false;
        std::thread other([&] {
            while (!ends) {
                for (const Time end = clock_now() + std::chrono::microseconds(PM_MICROSECONDS_OF_COMPANY / 3); clock_now() < end;) {
                }
                sched_yield();
            }
        });
        Company company;
        EXPECT_TRUE(comes_to(company, true));
        ends = true;
        other.join();
    }).join();
}

TEST(Company, IsNotWhoKeepsTheCore)
{
    std::thread([] {
        bind_to_one_core();
        std::atomic<bool> ends = false, runs = false;
        std::thread other([&] {
            runs = true;
            while (!ends) {
            }
        });
        while (!runs)
            sched_yield();
        Company company;
        int here = 0;
        for (int i = 0; i < many; ++i) {
            company.glance();
            here += company.is_here();
        }
        ends = true;
        other.join();
        EXPECT_LT(here, many / 10);
    }).join();
}

}  // namespace
}  // namespace pm

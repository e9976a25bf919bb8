// Networks are tried out by two processes.
#include <gtest/gtest.h>

#include <algorithm>

#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "netmod/routing/card.h"
#include "support/core_setup.h"
#include "support/processes.h"

namespace {

constexpr int most = 12;  // trials: on a busy machine one may take longer than it is given

struct Board {
    char cards[3][PM_CARD_MAX];
    size_t sizes[3];
    double times[3][2], each[most][3];
    pm::test::Counter opened, tried[most], ended;
};

// The network that only the third process is on takes the longest: nobody there can be reached over it.
TEST(Measuring, TheTwoOfATrialFindItsTimeAndOthersHaveNothingToDo)
{
    pm::test::Shared<Board> board;
    pm::test::Processes(3, 120, [&](unsigned number) {
        pm_setup setup = pm::test::plain_setup();
        setup.devices = "udp";
        setup.networks = number == 2 ? "network other udp lo" : "network one udp lo";
        setup.udp_interfaces = "lo";
        pm_core *core = nullptr;
        ASSERT_NE(core = pm_open(&setup), nullptr) << pm_error_text();
        ASSERT_EQ(pm_measure_open(core), PM_OK) << pm_error_text();
        EXPECT_EQ(pm_measure_open(core), PM_FAILED) << "the tag is taken";
        board->sizes[number] = pm_card(core, board->cards[number]);
        board->opened.meet(3);
        const void *cards[] = {board->cards[0], board->cards[1], board->cards[2]};
        auto network = [&](int rank) {
            return pm::Card::read({static_cast<const std::byte *>(cards[rank]), board->sizes[rank]})->networks[0].network.id;
        };
        pm_trial trials[] = {{network(0), 0, 1}, {network(2), 1, 0}};
        auto try_out = [&](int which) { return pm_try_out(core, trials, which, static_cast<int>(number), cards, board->sizes); };
        auto meet = [&](pm::test::Counter *counter) {
            counter->add();
            if (number == 2)
                counter->wait_for(3);
            while (counter->value() < 3)
                ASSERT_GE(pm_progress(core), 0) << pm_error_text();
        };
        for (int i = 0; i < most; ++i) {
            board->each[i][number] = board->times[number][0] = try_out(0);
            meet(&board->tried[i]);
            if (std::max(board->each[i][0], board->each[i][1]) < PM_TRIAL_LIMIT)
                break;
        }
        board->times[number][1] = try_out(1);
        meet(&board->ended);
        pm_close(core);
    }).wait();
    for (int rank : {0, 1}) {
        EXPECT_GT(board->times[rank][0], 0);
        EXPECT_LT(board->times[rank][0], PM_TRIAL_LIMIT);
        EXPECT_EQ(board->times[rank][1], PM_TRIAL_LIMIT);
    }
    EXPECT_EQ(board->times[2][0], 0);
    EXPECT_EQ(board->times[2][1], 0);
}

}  // namespace

// What ranks say of themselves, and the cause that follows from it.
#include "netmod/report/cause.h"

#include <gtest/gtest.h>

namespace pm {
namespace {

constexpr const char *world = "16";

State rank(int number, Doing doing = Doing::calls)
{
    State state;
    state.rank = number;
    state.size = 4;
    state.host = "alpha";
    state.process = 100 + number;
    state.doing = doing;
    // Others do not come to say anything.
    if (doing == Doing::calls || doing == Doing::finalizes)
        state.communicators.push_back({world, 4, 0, *RankSet::parse("0-3"), "MPI_COMM_WORLD"});
    return state;
}

State in(int number, const std::string &name, int to = rank_none, int from = rank_none, int tag = 5)
{
    State state = rank(number);
    Call call;
    call.name = name;
    call.number = 7;
    call.communicator = world;
    call.milliseconds = 2000;
    call.to = to;
    call.to_tag = to == rank_none ? tag_unknown : tag;
    call.from = from;
    call.from_tag = from == rank_none ? tag_unknown : tag;
    state.calls.push_back(call);
    return state;
}

State in_collective(int number, const std::string &name, std::uint64_t count, int root = rank_none)
{
    State state = in(number, name, root);
    state.calls[0].to_tag = tag_unknown;
    state.communicators[0].collectives = count;
    return state;
}

State finalizes(int number)
{
    return rank(number, Doing::finalizes);
}

// All ranks there are have said something.
Cause cause_of(std::vector<State> states)
{
    RankSet all;
    for (const State &state : states)
        all.add(state.rank);
    for (State &state : states)
        for (Communicator &communicator : state.communicators)
            communicator.members = all;
    Verdict verdict = find_cause(states);
    return verdict.causes.empty() ? Cause{} : verdict.causes[0];
}

std::string kind_of(std::vector<State> states)
{
    return cause_of(std::move(states)).kind;
}

TEST(RankSet, is_made_of_ranges)
{
    RankSet set;
    for (int rank : {4, 0, 2, 1, 9, 4})
        set.add(rank);
    EXPECT_EQ(set.text(), "0-2,4,9");
    EXPECT_EQ(set.count(), 5);
    set.add(3);
    EXPECT_EQ(set.text(), "0-4,9");
    EXPECT_TRUE(set.contains(3));
    EXPECT_FALSE(set.contains(5));
    EXPECT_EQ(RankSet::parse("0-4,9")->text(), "0-4,9");
    for (const char *wrong : {"4-0", "1,1", "x", "-3", "1-2-3", ","})
        EXPECT_FALSE(RankSet::parse(wrong)) << wrong;
}

TEST(State, is_the_same_after_being_told)
{
    State state = in(1, "MPI_Recv", rank_none, 0);
    state.group = 2;
    state.calls[0].bytes = 12;
    state.calls[0].group = *RankSet::parse("0,2-3");
    state.calls[0].pending.push_back({"send", 2, tag_unknown, world, 9});
    state.unexpected.push_back({"message", 0, 6, world, 4});
    state.posted.push_back({"receive", rank_any, tag_any, world, 0});
    state.more_posted = 3;
    state.locks.push_back({"70000", 2, "exclusive"});
    state.paths[0] = "udp lan";
    auto again = parse_state(to_lines(state));
    ASSERT_TRUE(again);
    EXPECT_EQ(to_lines(*again), to_lines(state));
    EXPECT_NE(state_in_words(*again).find("in MPI_Recv from rank 0, tag 5"), std::string::npos);
    EXPECT_NE(state_in_words(*again).find("over udp lan"), std::string::npos);
}

TEST(State, that_is_none_is_refused)
{
    for (const char *text : {"", "rank\t0\t1\n", "rank\t0\t1\t2\t3\thost\nfly\t1\n", "to\t1\t2\n", "rank\t0\tx\t2\t3\thost\n", "doing\tflies\t\n"})
        EXPECT_FALSE(parse_state(text)) << text;
    // Every beginning of a good one is read or refused, and never more than that.
    std::string whole = to_lines(in(1, "MPI_Send", 0));
    for (std::size_t size = 0; size < whole.size(); ++size)
        (void)parse_state(std::string_view(whole).substr(0, size));
}

TEST(Cause, nobody_waits)
{
    EXPECT_EQ(kind_of({rank(0, Doing::computes), rank(1, Doing::computes)}), "");
}

TEST(Cause, a_message_is_never_sent)
{
    EXPECT_EQ(kind_of({finalizes(0), in(1, "MPI_Recv", rank_none, 0)}), "message never sent");
    EXPECT_EQ(kind_of({in(0, "MPI_Finalize"), in(1, "MPI_Probe", rank_none, 0)}), "message never sent");
}

TEST(Cause, a_message_is_never_received)
{
    EXPECT_EQ(kind_of({in(0, "MPI_Ssend", 1), finalizes(1)}), "message never received");
}

TEST(Cause, the_sender_computes_whatever_else_has_come)
{
    State receiver = in(1, "MPI_Recv", rank_none, 0);
    receiver.unexpected.push_back({"message", 0, 6, world, 4});
    EXPECT_EQ(kind_of({rank(0, Doing::computes), receiver}), "rank computes");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 2), receiver, rank(2, Doing::sleeps)}), "rank sleeps");
}

TEST(Cause, tag_source_or_communicator_is_another)
{
    State receiver = in(1, "MPI_Recv", rank_none, 0);
    receiver.unexpected = {{"message", 0, 6, world, 4}};
    EXPECT_EQ(kind_of({finalizes(0), receiver, finalizes(2)}), "wrong tag");
    receiver.unexpected = {{"message", 2, 5, world, 4}};
    EXPECT_EQ(kind_of({finalizes(0), receiver, finalizes(2)}), "wrong source");
    receiver.unexpected = {{"message", 0, 5, "32", 4}};
    EXPECT_EQ(kind_of({finalizes(0), receiver, finalizes(2)}), "wrong communicator");
    // Two differences are no mistake that anybody can name.
    receiver.unexpected = {{"message", 2, 6, world, 4}};
    EXPECT_EQ(kind_of({finalizes(0), receiver, finalizes(2)}), "message never sent");
}

TEST(Cause, requests_are_waited_for)
{
    State state = in(1, "MPI_Waitall");
    state.calls[0].communicator.clear();
    state.calls[0].pending = {{"receive", 0, 5, world, 0}};
    EXPECT_EQ(kind_of({finalizes(0), state}), "message never sent");
    state.calls[0].pending = {{"send", 0, tag_unknown, world, 0}};
    EXPECT_EQ(kind_of({finalizes(0), state}), "message never received");
    // One of two is enough, and it may come.
    state.calls[0].name = "MPI_Waitany";
    state.calls[0].pending = {{"receive", 0, 5, world, 0}, {"receive", 2, 5, world, 0}};
    EXPECT_EQ(kind_of({finalizes(0), state, rank(2, Doing::computes)}), "rank computes");
}

TEST(Cause, a_cycle)
{
    Verdict verdict = find_cause({in(0, "MPI_Recv", rank_none, 1), in(1, "MPI_Recv", rank_none, 0), rank(2, Doing::computes)});
    ASSERT_EQ(verdict.causes.size(), 1U);
    EXPECT_EQ(verdict.causes[0].kind, "deadlock");
    EXPECT_NE(verdict.causes[0].sentence.find("0 (MPI_Recv) -> 1 (MPI_Recv) -> 0"), std::string::npos) << verdict.causes[0].sentence;
    EXPECT_EQ(verdict.edges.size(), 2U);
    EXPECT_EQ(kind_of({in(0, "MPI_Ssend", 1), in(1, "MPI_Ssend", 2), in(2, "MPI_Ssend", 0)}), "deadlock");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 0)}), "deadlock");
}

TEST(Cause, anybody_may_send_unless_all_wait)
{
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, rank_any), in(1, "MPI_Recv", rank_none, 0), in(2, "MPI_Recv", rank_none, 0), rank(3, Doing::computes)}),
              "rank computes");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, rank_any), in(1, "MPI_Recv", rank_none, 0), in(2, "MPI_Recv", rank_none, 0), in(3, "MPI_Recv", rank_none, 0)}),
              "deadlock");
}

TEST(Cause, collectives_are_not_the_same)
{
    EXPECT_EQ(kind_of({in_collective(0, "MPI_Barrier", 3), in_collective(1, "MPI_Allreduce", 3)}), "collective order");
    EXPECT_EQ(kind_of({in_collective(0, "MPI_Bcast", 3, 1), in_collective(1, "MPI_Bcast", 3, 0)}), "different roots");
    State few = in_collective(0, "MPI_Allreduce", 3), many = in_collective(1, "MPI_Allreduce", 3);
    few.calls[0].bytes = 4;
    many.calls[0].bytes = 4000;
    EXPECT_EQ(kind_of({few, many}), "different counts");
}

TEST(Cause, one_has_not_come_to_a_collective)
{
    EXPECT_EQ(kind_of({in_collective(0, "MPI_Barrier", 3), finalizes(1)}), "missing in a collective");
    EXPECT_EQ(kind_of({in_collective(0, "MPI_Barrier", 3), rank(1, Doing::computes)}), "rank computes");
    State left = finalizes(1);
    left.communicators[0].collectives = 3;
    EXPECT_EQ(kind_of({in_collective(0, "MPI_Barrier", 3), left}), "collective does not end");
    // It does not know the communicator any more, so nobody knows what it has called.
    left.communicators.clear();
    Cause cause = cause_of({in_collective(0, "MPI_Barrier", 3), left});
    EXPECT_EQ(cause.kind, "missing in a collective");
    EXPECT_EQ(cause.sentence.find("without having called"), std::string::npos) << cause.sentence;
    // It has left an earlier one, in which the first still is.
    State late = in_collective(0, "MPI_Bcast", 3), early = in_collective(1, "MPI_Barrier", 4);
    EXPECT_EQ(kind_of({late, early}), "collective does not end");
}

TEST(Cause, barriers_of_different_communicators)
{
    State first = in_collective(0, "MPI_Barrier", 1), second = in_collective(1, "MPI_Barrier", 0);
    for (State *state : {&first, &second})
        state->communicators.push_back({"32", 4, state == &second ? 1U : 0U, *RankSet::parse("0-3"), ""});
    second.calls[0].communicator = "32";
    EXPECT_EQ(kind_of({first, second}), "different communicators");
}

TEST(Cause, somebody_holds_the_lock)
{
    State waiting = in(0, "MPI_Win_lock", 2);
    waiting.calls[0].window = "7";
    State holder = in_collective(1, "MPI_Barrier", 3);
    holder.locks.push_back({"7", 2, "exclusive"});
    State target = in_collective(2, "MPI_Barrier", 3);
    EXPECT_EQ(kind_of({waiting, holder, target}), "lock held");
    // Who does not answer may hold it.
    EXPECT_EQ(kind_of({waiting, rank(1, Doing::computes), target}), "lock held");
}

TEST(Cause, epochs_without_partner)
{
    State start = in(0, "MPI_Win_start");
    start.calls[0].window = "7";
    start.calls[0].group = *RankSet::parse("1");
    EXPECT_EQ(kind_of({start, in_collective(1, "MPI_Barrier", 3)}), "missing post");
    State wait = in(0, "MPI_Win_wait");
    wait.calls[0].window = "7";
    wait.calls[0].group = *RankSet::parse("1");
    EXPECT_EQ(kind_of({wait, in_collective(1, "MPI_Barrier", 3)}), "missing complete");
}

TEST(Cause, ranks_that_are_lost_come_first)
{
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 1), rank(1, Doing::stopped)}), "rank stopped");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 1), rank(1, Doing::unreachable)}), "host lost");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 1), rank(1, Doing::ended)}), "rank ended");
    EXPECT_EQ(kind_of({in(0, "MPI_Recv", rank_none, 1), rank(1, Doing::starts)}), "rank starts");
}

TEST(Cause, somebody_outside)
{
    State accept = in_collective(0, "MPI_Comm_accept", 1, 0);
    EXPECT_EQ(kind_of({accept}), "waits for others");
}

TEST(Cause, the_answer_has_all_of_it)
{
    std::string text = answer_in_words({in(1, "MPI_Recv", rank_none, 0), finalizes(0)});
    EXPECT_EQ(text.substr(0, 27), "cause (message never sent):");
    EXPECT_NE(text.find("    1 -> 0  MPI_Recv\n"), std::string::npos) << text;
    EXPECT_NE(text.find("    rank 0 on alpha (process 100): finalizes\n"), std::string::npos) << text;
    EXPECT_LT(text.find("    rank 0 on"), text.find("    rank 1 on"));
}

// A large job is no reason to wait for the answer.
TEST(Cause, of_a_large_job)
{
    std::vector<State> states;
    for (int i = 0; i < 500; ++i) {
        State state = i == 234 ? rank(i, Doing::computes) : in_collective(i, "MPI_Barrier", 3);
        if (i != 234)
            state.communicators[0].members = *RankSet::parse("0-499");
        states.push_back(state);
    }
    Verdict verdict = find_cause(states);
    ASSERT_EQ(verdict.causes.size(), 1U);
    EXPECT_EQ(verdict.causes[0].kind, "rank computes");
}

}  // namespace
}  // namespace pm

#include "netmod/report/cause.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/escape.h"

namespace pm {
namespace {

enum class Waits { receive, send, collective, lock, posts, completes, finalize, connection, something };

// What a call waits for.
struct Wait {
    const State *state;
    const Call *call;
    Waits kind = Waits::something;
    int peer = rank_none;
    int tag = tag_unknown;
    std::string communicator;
    RankSet whom;      // who could end it
    bool any = false;  // one of `whom` is enough
};

bool begins(std::string_view text, std::string_view with)
{
    return text.substr(0, with.size()) == with;
}

// Without MPI_ or MPIX_, and without the _c of large counts.
std::string_view plain_name(std::string_view name)
{
    name.remove_prefix(begins(name, "MPIX_") ? 5 : begins(name, "MPI_") ? 4 : 0);
    if (name.size() > 2 && name.substr(name.size() - 2) == "_c")
        name.remove_suffix(2);
    return name;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names)
{
    return std::ranges::find(names, name) != names.end();
}

bool is_collective(std::string_view name)
{
    static constexpr std::string_view beginnings[] = {"Barrier",     "Bcast",    "Gather",   "Scatter",   "Allgather",   "Alltoall", "Reduce",
                                                      "Allreduce",   "Scan",     "Exscan",   "Neighbor_", "Comm_dup",    "Comm_idup", "Comm_split",
                                                      "Comm_create", "Comm_disconnect", "Cart_create", "Cart_sub", "Graph_create", "Dist_graph_create", "Intercomm_",
                                                      "Win_create",  "Win_allocate", "Win_free", "Win_fence", "Bitmap_"};
    return std::ranges::any_of(beginnings, [name](std::string_view each) { return begins(name, each); }) &&
           !is_one_of(name, {"Reduce_local", "Comm_create_keyval", "Comm_create_errhandler", "Comm_create_group", "Win_create_keyval",
                             "Win_create_errhandler", "Win_free_keyval"});
}

std::string of_call(const State &state, const Call &call)
{
    std::string text = call.name;
    if (!call.communicator.empty() && call.window.empty())
        text += " on " + state.communicator_name(call.communicator);
    else if (!call.window.empty())
        text += " on window " + call.window;
    return text;
}

std::string rank_name(int rank)
{
    return "rank " + std::to_string(rank);
}

std::string ranks_name(const RankSet &ranks)
{
    return (ranks.count() == 1 ? "rank " : "ranks ") + ranks.text();
}

std::string tag_name(int tag)
{
    return tag == tag_any ? "any tag" : tag == tag_unknown ? "some tag" : "tag " + std::to_string(tag);
}

class Finder {
  public:
    explicit Finder(const std::vector<State> &states)
    {
        for (const State &state : states)
            by_rank_[state.rank] = &state;
        for (const State &state : states)
            add_waits(state);
        for (const Wait &wait : waits_)
            of_rank_[wait.state->rank].push_back(&wait);
    }

    Verdict find()
    {
        Verdict verdict;
        for (const Wait &wait : waits_)
            if (!wait.whom.empty())
                verdict.edges.push_back({wait.state->rank, wait.whom, wait.any, call_in_words(*wait.state, *wait.call)});
        find_lost(&verdict);
        find_stuck();
        for (const auto &search : {&Finder::find_messages, &Finder::find_collectives, &Finder::find_left, &Finder::find_locks, &Finder::find_posts,
                                   &Finder::find_cycle, &Finder::find_rest})
            if (verdict.causes.empty())
                (this->*search)(&verdict);
        find_running(&verdict);
        find_connections(&verdict);
        return verdict;
    }

  private:
    const State *at(int rank) const
    {
        auto found = by_rank_.find(rank);
        return found == by_rank_.end() ? nullptr : found->second;
    }

    RankSet members(const State &state, const std::string &communicator) const
    {
        RankSet set;
        if (const Communicator *found = state.communicator(communicator))
            found->members.each([&](int rank) {
                if (rank != state.rank)
                    set.add(rank);
            });
        return set;
    }

    // How many collectives it has begun, if it says so.
    static std::optional<std::uint64_t> collectives(const State *state, const std::string &communicator)
    {
        const Communicator *found = state == nullptr ? nullptr : state->communicator(communicator);
        return found == nullptr ? std::nullopt : std::optional(found->collectives);
    }

    // Those that have not begun the collective this rank is in.
    RankSet missing(const State &state, const std::string &communicator) const
    {
        RankSet set;
        auto own = collectives(&state, communicator);
        members(state, communicator).each([&](int rank) {
            auto theirs = collectives(at(rank), communicator);
            if (!theirs || !own || *theirs < *own)
                set.add(rank);
        });
        return set;
    }

    RankSet holders(const State &state, const Call &call) const
    {
        RankSet set;
        for (const auto &[rank, other] : by_rank_)
            for (const Lock &lock : other->locks)
                if (rank != state.rank && lock.window == call.window && (call.to == rank_none || lock.target == call.to))
                    set.add(rank);
        // One that does not answer does not say what it holds.
        if (set.empty())
            members(state, call.communicator).each([&](int rank) {
                if (at(rank) == nullptr || at(rank)->doing != Doing::calls)
                    set.add(rank);
            });
        return set;
    }

    void add_operation(const State &state, const Call &call, const Operation &operation, bool any)
    {
        Wait wait{&state, &call, Waits::something, operation.peer, operation.tag, operation.communicator, {}, any};
        if (operation.kind == "receive" || operation.kind == "send") {
            wait.kind = operation.kind == "send" ? Waits::send : Waits::receive;
            add_peer(&wait);
        } else if (operation.kind == "collective") {
            wait.kind = Waits::collective;
            wait.whom = missing(state, operation.communicator);
        }
        waits_.push_back(std::move(wait));
    }

    void add_peer(Wait *wait) const
    {
        if (wait->peer >= 0)
            wait->whom.add(wait->peer);
        else if (wait->peer == rank_any) {
            wait->whom = members(*wait->state, wait->communicator);
            wait->any = true;
        }
    }

    void add_waits(const State &state)
    {
        if (state.doing == Doing::finalizes) {
            static const Call finalize = [] {
                Call call;
                call.name = "MPI_Finalize";
                return call;
            }();
            add_finalize(state, finalize);
        }
        if (state.doing != Doing::calls)
            return;
        for (const Call &call : state.calls)
            add_call(state, call);
    }

    void add_finalize(const State &state, const Call &call)
    {
        Wait wait{&state, &call, Waits::finalize, rank_none, tag_unknown, {}, {}, false};
        for (const auto &[rank, other] : by_rank_)
            if (rank != state.rank && other->doing != Doing::finalizes && !in_finalize(*other))
                wait.whom.add(rank);
        waits_.push_back(std::move(wait));
    }

    static bool in_finalize(const State &state)
    {
        return state.doing == Doing::finalizes || state.doing == Doing::over ||
               (state.doing == Doing::calls && std::ranges::any_of(state.calls, [](const Call &call) { return call.name == "MPI_Finalize"; }));
    }

    void add_call(const State &state, const Call &call)
    {
        std::string_view name = plain_name(call.name);
        Wait wait{&state, &call, Waits::something, rank_none, tag_unknown, call.communicator, {}, false};
        if (name == "Finalize") {
            add_finalize(state, call);
            return;
        }
        if (!call.pending.empty()) {
            bool any = is_one_of(name, {"Waitany", "Waitsome", "Testany", "Testsome"});
            for (const Operation &operation : call.pending)
                add_operation(state, call, operation, any);
            return;
        }
        bool receives = is_one_of(name, {"Recv", "Mrecv", "Probe", "Mprobe", "Iprobe", "Improbe", "Mcast_recv"});
        if (begins(name, "Sendrecv"))
            receives = std::ranges::any_of(state.posted, [&](const Operation &posted) {
                return posted.peer == call.from && posted.tag == call.from_tag && posted.communicator == call.communicator;
            });
        if (receives) {
            wait.kind = Waits::receive;
            wait.peer = call.from;
            wait.tag = call.from_tag;
            add_peer(&wait);
        } else if (is_one_of(name, {"Send", "Ssend", "Rsend"}) || begins(name, "Sendrecv")) {
            wait.kind = Waits::send;
            wait.peer = call.to;
            wait.tag = call.to_tag;
            add_peer(&wait);
        } else if (is_one_of(name, {"Comm_accept", "Comm_connect", "Comm_spawn", "Comm_spawn_multiple"})) {
            wait.kind = Waits::connection;
            wait.whom = missing(state, call.communicator);
        } else if (is_collective(name)) {
            wait.kind = Waits::collective;
            wait.whom = missing(state, call.communicator);
        } else if (is_one_of(name, {"Win_lock", "Win_lock_all"})) {
            wait.kind = Waits::lock;
            wait.whom = holders(state, call);
        } else if (is_one_of(name, {"Win_start", "Win_complete"})) {
            wait.kind = Waits::posts;
            wait.whom = not_in(call, {"Win_wait", "Win_test"});
        } else if (name == "Win_wait") {
            wait.kind = Waits::completes;
            wait.whom = call.group;
        } else if (call.to >= 0)
            wait.whom.add(call.to);
        waits_.push_back(std::move(wait));
    }

    // Of the group of a call, those that are not in one of these on the same window: they have done their part.
    RankSet not_in(const Call &call, std::initializer_list<std::string_view> names) const
    {
        RankSet set;
        call.group.each([&](int rank) {
            const State *other = at(rank);
            bool done = other != nullptr && other->doing == Doing::calls && std::ranges::any_of(other->calls, [&](const Call &each) {
                return each.window == call.window && is_one_of(plain_name(each.name), names);
            });
            if (!done)
                set.add(rank);
        });
        return set;
    }

    // Ranks that wait directly for this one.
    RankSet waiters(int rank) const
    {
        RankSet set;
        for (const Wait &wait : waits_)
            if (wait.whom.contains(rank) && wait.kind != Waits::finalize)
                set.add(wait.state->rank);
        if (set.empty())
            for (const Wait &wait : waits_)
                if (wait.whom.contains(rank))
                    set.add(wait.state->rank);
        return set;
    }

    static std::string wait_or_waits(const RankSet &ranks) { return ranks.count() == 1 ? " waits" : " wait"; }

    // Ranks that will not go on whatever others do.
    void find_lost(Verdict *verdict)
    {
        std::map<std::string, RankSet> hosts;
        for (const auto &[rank, state] : by_rank_) {
            RankSet waiting = waiters(rank);
            std::string who = waiting.empty() ? "" : "; " + ranks_name(waiting) + wait_or_waits(waiting) + " for it";
            if (state->doing == Doing::unreachable)
                hosts[state->host].add(rank);
            else if (state->doing == Doing::stopped)
                verdict->causes.push_back({"rank stopped", rank_name(rank) + " on " + plain_text(state->host) + " (process " + std::to_string(state->process) +
                                                               ") is stopped by a signal" + who + ". `kill -CONT` lets it go on"});
            else if (state->doing == Doing::ended && !waiting.empty())
                verdict->causes.push_back({"rank ended", rank_name(rank) + " on " + plain_text(state->host) + " has ended" + who});
        }
        for (const auto &[host, ranks] : hosts)
            verdict->causes.push_back({"host lost", "host " + plain_text(host) + " does not answer: " + ranks_name(ranks) + " cannot be asked"});
    }

    static bool does_not_end(const Wait &wait)
    {
        return wait.kind == Waits::collective && wait.whom.empty() && wait.call->milliseconds.value_or(0) >= 1000;
    }

    // Something that is not understood, or comes from elsewhere, may happen. A collective that all have begun should.
    bool can_go_on(const std::vector<const Wait *> &these, const std::set<int> &free) const
    {
        bool any = false, has_any = false;
        for (const Wait *wait : these) {
            bool some_free = wait->whom.empty(), all_free = !does_not_end(*wait);
            wait->whom.each([&](int other) {
                bool is_free = free.contains(other) || at(other) == nullptr;
                some_free |= is_free;
                all_free &= is_free;
            });
            if (!wait->any && !all_free)
                return false;
            has_any |= wait->any;
            any |= wait->any && some_free;
        }
        return any || !has_any;
    }

    // Ranks that nobody who runs can set free.
    void find_stuck()
    {
        std::set<int> free;
        for (const auto &[rank, state] : by_rank_)
            if (!of_rank_.contains(rank))
                free.insert(rank);
        for (bool changed = true; changed;) {
            changed = false;
            for (const auto &[rank, these] : of_rank_)
                if (!free.contains(rank) && can_go_on(these, free)) {
                    free.insert(rank);
                    changed = true;
                }
        }
        for (const auto &[rank, state] : by_rank_)
            if (!free.contains(rank))
                stuck_.insert(rank);
    }

    bool is_stuck(const Wait &wait) const { return stuck_.contains(wait.state->rank); }

    std::string communicator_name(const State &state, const std::string &id) const
    {
        if (state.communicator(id) != nullptr)
            return state.communicator_name(id);
        for (const auto &[rank, other] : by_rank_)
            if (other->communicator(id) != nullptr)
                return other->communicator_name(id);
        return "communicator " + id;
    }

    // A message that is there, and a receive that does not fit.
    void find_messages(Verdict *verdict)
    {
        for (const Wait &wait : waits_) {
            if (!is_stuck(wait) || wait.kind != Waits::receive)
                continue;
            const State &state = *wait.state;
            std::string wants = rank_name(state.rank) + " wants a message from " + peer_in_words(wait.peer) + ", " + tag_name(wait.tag) + ", " +
                                communicator_name(state, wait.communicator) + " (" + wait.call->name + ")";
            for (const Operation &there : state.unexpected) {
                if (there.kind != "message")
                    continue;
                bool source = wait.peer == rank_any || wait.peer == there.peer;
                bool tag = wait.tag == tag_any || wait.tag == there.tag;
                bool communicator = wait.communicator == there.communicator;
                if (source + tag + communicator != 2)
                    continue;
                std::string has = ", but what has come is from " + peer_in_words(there.peer) + ", " + tag_name(there.tag) + ", " +
                                  communicator_name(state, there.communicator);
                const char *kind = !source ? "wrong source" : !tag ? "wrong tag" : "wrong communicator";
                verdict->causes.push_back({kind, wants + has});
                break;
            }
        }
    }

    // Collectives that are not the same.
    void find_collectives(Verdict *verdict)
    {
        for (const Wait &wait : waits_) {
            if (!is_stuck(wait) || (wait.kind != Waits::collective && wait.kind != Waits::connection))
                continue;
            for (const Wait &other : waits_) {
                if (&other == &wait || other.state->rank <= wait.state->rank || !is_stuck(other) ||
                    (other.kind != Waits::collective && other.kind != Waits::connection))
                    continue;
                if (wait.communicator == other.communicator && wait.communicator != "") {
                    if (collectives(wait.state, wait.communicator) != collectives(other.state, other.communicator))
                        continue;
                    compare(wait, other, verdict);
                } else if (wait.whom.contains(other.state->rank) && other.whom.contains(wait.state->rank))
                    verdict->causes.push_back({"different communicators", rank_name(wait.state->rank) + " is in " + of_call(*wait.state, *wait.call) + ", " +
                                                                              rank_name(other.state->rank) + " in " + of_call(*other.state, *other.call) +
                                                                              ": each is for both of them, and they wait for each other"});
                if (!verdict->causes.empty())
                    return;
            }
        }
        find_counts(verdict);
    }

    void compare(const Wait &wait, const Wait &other, Verdict *verdict) const
    {
        std::string both = rank_name(wait.state->rank) + " is in " + of_call(*wait.state, *wait.call);
        auto number = collectives(wait.state, wait.communicator);
        std::string which = number ? ", collective " + std::to_string(*number) + " of that communicator" : "";
        bool blocking = wait.call->pending.empty() && other.call->pending.empty();
        if (blocking && wait.call->name != other.call->name)
            verdict->causes.push_back({"collective order", both + ", " + rank_name(other.state->rank) + " in " + other.call->name + which +
                                                               ": all ranks must call the same in the same order"});
        else if (blocking && wait.call->to != other.call->to)
            verdict->causes.push_back({"different roots", both + which + ", with root " + std::to_string(wait.call->to) + ", and " +
                                                              rank_name(other.state->rank) + " with root " + std::to_string(other.call->to)});
        else if (blocking && wait.call->bytes != other.call->bytes && has_one_count(wait.call->name))
            verdict->causes.push_back({"different counts", both + which + ", with " + bytes(*wait.call) + ", and " + rank_name(other.state->rank) + " with " +
                                                               bytes(*other.call)});
    }

    static bool has_one_count(std::string_view name) { return is_one_of(plain_name(name), {"Bcast", "Reduce", "Allreduce", "Scan", "Exscan"}); }
    static std::string bytes(const Call &call) { return call.bytes ? std::to_string(*call.bytes) + " bytes" : "no count"; }

    // A collective that all have begun, and some have left: what one has of it does not fit what others sent.
    void find_counts(Verdict *verdict)
    {
        for (const Wait &wait : waits_)
            if (is_stuck(wait) && does_not_end(wait)) {
                verdict->causes.push_back({"collective does not end", rank_name(wait.state->rank) + " is in " + of_call(*wait.state, *wait.call) +
                                                                          ", which all others have called: do counts, types and roots agree?"});
                return;
            }
    }

    // One that has freed a communicator does not say what it has called on it.
    static constexpr const char *freed = ": it was not called, or has been left and the communicator freed; do counts, types and roots agree?";
    bool have(const RankSet &ranks, const std::string &communicator) const
    {
        bool all = true;
        ranks.each([&](int rank) { all &= collectives(at(rank), communicator).has_value(); });
        return all;
    }

    // Whoever is in MPI_Finalize sends, receives and calls nothing any more.
    void find_left(Verdict *verdict)
    {
        for (const Wait &wait : waits_) {
            if (!is_stuck(wait) || wait.kind == Waits::finalize)
                continue;
            RankSet left;
            wait.whom.each([&](int rank) {
                if (at(rank) != nullptr && in_finalize(*at(rank)))
                    left.add(rank);
            });
            if (left.empty() || (wait.any && left.count() < wait.whom.count()))
                continue;
            std::string they = ranks_name(left) + (left.count() == 1 ? " is" : " are") + " in MPI_Finalize";
            std::string who = rank_name(wait.state->rank);
            std::string in = " (" + wait.call->name + (wait.communicator.empty() ? "" : ", " + communicator_name(*wait.state, wait.communicator)) + ")";
            switch (wait.kind) {
                case Waits::receive:
                    verdict->causes.push_back({"message never sent", they + ", but " + who + " waits for a message from " + peer_in_words(wait.peer) + ", " +
                                                                         tag_name(wait.tag) + in});
                    break;
                case Waits::send:
                    verdict->causes.push_back({"message never received", they + ", but " + who + " sends to it, " + tag_name(sent_tag(wait)) + in});
                    break;
                case Waits::collective:
                case Waits::connection:
                    verdict->causes.push_back({"missing in a collective", they + (have(left, wait.communicator) ? " without having called " : ", but not in ") +
                                                                              of_call(*wait.state, *wait.call) + ", in which " + who + " is" +
                                                                              (have(left, wait.communicator) ? "" : freed)});
                    break;
                default:
                    verdict->causes.push_back({"left early", they + ", but " + who + " waits for " + (left.count() == 1 ? "it" : "them") + in});
            }
            return;
        }
    }

    // The tag of a send that is waited for is not kept; the receiver has it among what it did not expect.
    int sent_tag(const Wait &wait) const
    {
        if (wait.tag != tag_unknown || at(wait.peer) == nullptr)
            return wait.tag;
        for (const Operation &each : at(wait.peer)->unexpected)
            if (each.peer == wait.state->rank && each.communicator == wait.communicator)
                return each.tag;
        return tag_unknown;
    }

    void find_locks(Verdict *verdict)
    {
        for (const Wait &wait : waits_)
            if (is_stuck(wait) && wait.kind == Waits::lock && !wait.whom.empty()) {
                verdict->causes.push_back({"lock held", lock_sentence(wait)});
                return;
            }
    }

    std::string lock_sentence(const Wait &wait) const
    {
        std::string text = rank_name(wait.state->rank) + " waits for a lock" + (wait.call->to >= 0 ? " of rank " + std::to_string(wait.call->to) : "") +
                           ", window " + wait.call->window + " (" + wait.call->name + "), which " + ranks_name(wait.whom) +
                           (wait.whom.count() == 1 ? " holds" : " may hold");
        wait.whom.each([&](int rank) {
            const State *other = at(rank);
            if (other != nullptr && wait.whom.count() <= 4)
                text += "; " + rank_name(rank) + " is " +
                        (other->doing == Doing::calls && !other->calls.empty() ? "in " + of_call(*other, other->calls[0]) : plain_text(doing_words(*other)));
        });
        return text;
    }

    static std::string doing_words(const State &state) { return state.detail.empty() ? word_of(state.doing) : state.detail; }

    void find_posts(Verdict *verdict)
    {
        for (const Wait &wait : waits_)
            if (is_stuck(wait) && (wait.kind == Waits::posts || wait.kind == Waits::completes)) {
                bool posts = wait.kind == Waits::posts;
                verdict->causes.push_back({posts ? "missing post" : "missing complete",
                                           rank_name(wait.state->rank) + " is in " + of_call(*wait.state, *wait.call) + " and waits for " +
                                               (posts ? "MPI_Win_post" : "MPI_Win_complete") + " of " + ranks_name(wait.whom)});
                return;
            }
    }

    // A cycle of ranks of which each needs the next.
    void find_cycle(Verdict *verdict)
    {
        std::map<int, const Wait *> next_wait;
        std::map<int, int> next;
        for (const Wait &wait : waits_)
            if (is_stuck(wait) && !wait.any && !next.contains(wait.state->rank))
                wait.whom.each([&](int rank) {
                    if (stuck_.contains(rank) && !next.contains(wait.state->rank)) {
                        next[wait.state->rank] = rank;
                        next_wait[wait.state->rank] = &wait;
                    }
                });
        for (const auto &[start, unused] : next) {
            std::vector<int> way;
            int rank = start;
            while (next.contains(rank) && std::ranges::find(way, rank) == way.end()) {
                way.push_back(rank);
                rank = next[rank];
            }
            if (!next.contains(rank))
                continue;
            way.erase(way.begin(), std::ranges::find(way, rank));
            std::string text;
            for (std::size_t i = 0; i < way.size(); ++i) {
                if (i >= 8 && i + 1 < way.size()) {
                    if (i == 8)
                        text += "... -> ";
                    continue;
                }
                text += std::to_string(way[i]) + " (" + next_wait[way[i]]->call->name + ") -> ";
            }
            bool sends = std::ranges::all_of(way, [&](int each) { return next_wait[each]->kind == Waits::send; });
            bool receives = std::ranges::all_of(way, [&](int each) { return next_wait[each]->kind == Waits::receive; });
            std::string hint = sends      ? ". All of them send, and nobody receives"
                               : receives ? ". All of them receive, and nobody sends"
                                          : "";
            verdict->causes.push_back({"deadlock", "each of " + std::to_string(way.size()) + " ranks waits for the next: " + text + std::to_string(way[0]) + hint});
            return;
        }
    }

    // Stuck in a way that has no better name.
    void find_rest(Verdict *verdict)
    {
        RankSet all;
        for (int rank : stuck_)
            all.add(rank);
        if (!all.empty())
            verdict->causes.push_back({"deadlock", ranks_name(all) + wait_or_waits(all) + " for each other and for nobody else"});
    }

    // Ranks that others wait for and that wait for nobody.
    void find_running(Verdict *verdict)
    {
        for (const auto &[rank, state] : by_rank_) {
            if (!is_one_of_doing(state->doing))
                continue;
            RankSet waiting = waiters(rank);
            if (waiting.empty())
                continue;
            std::string lock;
            for (const Wait &wait : waits_)
                if (wait.kind == Waits::lock && wait.whom.contains(rank))
                    lock = lock_sentence(wait);
            const char *kind = !lock.empty()                     ? "lock held"
                               : state->doing == Doing::computes ? "rank computes"
                               : state->doing == Doing::sleeps   ? "rank sleeps"
                               : state->doing == Doing::starts   ? "rank starts"
                                                                 : "rank has finished";
            verdict->causes.push_back({kind, !lock.empty() ? lock
                                                           : rank_name(rank) + " on " + plain_text(state->host) + " (process " +
                                                                 std::to_string(state->process) + ") " + plain_text(doing_words(*state)) + "; " +
                                                                 ranks_name(waiting) + wait_or_waits(waiting) + " for it"});
        }
    }

    static bool is_one_of_doing(Doing doing)
    {
        return doing == Doing::computes || doing == Doing::sleeps || doing == Doing::starts || doing == Doing::over;
    }

    // What only somebody outside can end.
    void find_connections(Verdict *verdict)
    {
        if (!verdict->causes.empty())
            return;
        for (const Wait &wait : waits_)
            if (wait.kind == Waits::connection) {
                std::string_view name = plain_name(wait.call->name);
                const char *whom = name == "Comm_accept"    ? "for another program to call MPI_Comm_connect"
                                   : name == "Comm_connect" ? "for another program to accept it"
                                                            : "for new processes to be through MPI_Init";
                verdict->causes.push_back({"waits for others", rank_name(wait.state->rank) + " is in " + wait.call->name + " and waits " + whom});
                return;
            }
    }

    std::map<int, const State *> by_rank_;
    std::vector<Wait> waits_;
    std::map<int, std::vector<const Wait *>> of_rank_;
    std::set<int> stuck_;
};

}  // namespace

Verdict find_cause(const std::vector<State> &states)
{
    return Finder(states).find();
}

std::string answer_in_words(const std::vector<State> &states)
{
    std::map<int, std::vector<State>> groups;
    for (const State &state : states)
        groups[state.group].push_back(state);
    std::string text;
    for (auto &[group, of_group] : groups) {
        std::ranges::sort(of_group, {}, &State::rank);
        if (group != 0)
            text += "spawned group " + std::to_string(group) + ":\n";
        Verdict verdict = find_cause(of_group);
        for (const Cause &cause : verdict.causes)
            text += "cause (" + cause.kind + "): " + cause.sentence + "\n";
        if (verdict.causes.empty())
            text += "cause: none found; nobody waits for a rank that does not go on\n";
        // Those that wait for the same in the same way are one line.
        std::map<std::pair<std::string, std::string>, RankSet> lines;
        for (const Edge &edge : verdict.edges) {
            std::string call = edge.what.substr(0, edge.what.find_first_of(" ,"));
            lines[{(edge.any ? "any of " : "") + edge.to.text(), call}].add(edge.from);
        }
        if (!lines.empty())
            text += "who waits for whom:\n";
        for (const auto &[whom, ranks] : lines)
            text += "    " + ranks.text() + " -> " + whom.first + "  " + whom.second + "\n";
        text += "ranks:\n";
        for (const State &state : of_group) {
            std::string words = state_in_words(state);
            for (std::size_t at = 0; at < words.size();) {
                std::size_t end = words.find('\n', at);
                text += "    " + words.substr(at, end - at) + "\n";
                at = end + 1;
            }
        }
    }
    return text;
}

}  // namespace pm

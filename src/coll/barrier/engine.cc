#include "coll/barrier/engine.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "coll/team/places.h"

namespace pm::coll {

BarrierEngine::~BarrierEngine()
{
    while (!groups_.empty())
        close(groups_.begin()->first);
}

// Whoever is ahead of us may tell us about a communicator before we have it.
BarrierEngine::Group &BarrierEngine::made_group_of(std::uint32_t id)
{
    std::unique_ptr<Group> &group = groups_[id];
    if (!group)
        group = std::make_unique<Group>();
    last_id_ = id;
    last_ = group.get();
    return *group;
}

BarrierEngine::Group &BarrierEngine::group_of(std::uint32_t id)
{
    return last_ != nullptr && last_id_ == id ? *last_ : made_group_of(id);
}

void BarrierEngine::open(const pm_group_setup &setup)
{
    Group &group = group_of(setup.id);
    group.setup = setup;
    group.is_open = true;
    for (const Early &each : std::exchange(group.early, {}))
        if (!take(&group, each.source, each.message))
            transport_.dropped(nullptr);  // its sender may be gone by now
}

// All that matters of a sender's messages is the last one.
void BarrierEngine::keep_early(Group *group, pm_peer *source, const BarrierMessage &message)
{
    auto found = std::ranges::find_if(group->early, [&](const Early &each) {
        return each.source == source && each.message.kind == message.kind && each.message.round == message.round;
    });
    if (found == group->early.end())
        group->early.push_back({source, message});
    else
        found->message = message;
}

void BarrierEngine::close(std::uint32_t id)
{
    auto found = groups_.find(id);
    if (found == groups_.end())
        return;
    Group &group = *found->second;
    in_flight_ -= group.waiting.size();
    std::erase(active_, &group);
    if (group.board != nullptr && group.leads())
        transport_.free_board(group.board);
    last_ = nullptr;
    groups_.erase(found);
}

// Who stands where: the same at all ranks.
void BarrierEngine::place(Group *group)
{
    const pm_group_setup &setup = group->setup;
    std::vector<int> memory(pm_places_ints(setup.size));
    pm_places places;
    pm_places_of(&places, memory.data(), setup.size, setup.rank, setup.host, setup.context);
    group->leaders.assign(places.first, places.first + places.hosts);
    group->mates.assign(places.mate, places.mate + places.mates);
    group->place = static_cast<std::size_t>(places.ours);
    group->leader = group->leaders[group->place];
    group->rounds = static_cast<unsigned>(std::bit_width(group->leaders.size() - 1));
    group->placed = true;
    if (group->mates.empty()) {
        group->board_known = true;
    } else if (group->leads()) {
        bool shared = std::ranges::all_of(group->mates, [&](int rank) { return transport_.on_host(group->peer(rank)); });
        group->board = shared ? transport_.make_board() : nullptr;
        group->board_known = true;
        if (group->board != nullptr)
            group->base = group->board->begin();
        note_heard(group);
        for (int rank : group->mates)
            send(group, rank, BarrierMessage::Kind::board, reinterpret_cast<std::uint64_t>(group->board));
    }
}

void BarrierEngine::send(Group *group, int rank, BarrierMessage::Kind kind, std::uint64_t number, unsigned round)
{
    if (!transport_.send(group->peer(rank),
                         {group->setup.id, kind, static_cast<std::uint8_t>(round), group->setup.rank, number, group->base}))
        transport_.failed({});
}

bool BarrierEngine::is_in_flight(std::uint32_t id, const volatile int *flag) const
{
    const Group *group = last_id_ == id ? last_ : nullptr;
    if (group == nullptr) {
        auto found = groups_.find(id);
        if (found == groups_.end())
            return false;
        group = found->second.get();
    }
    return std::ranges::any_of(group->waiting, [&](const Started &started) { return started.flag == flag; });
}

void BarrierEngine::start(std::uint32_t id, volatile int *flag, void *cookie)
{
    Group &group = group_of(id);
    if (!group.placed) [[unlikely]]
        place(&group);
    if (flag != nullptr)
        *flag = 0;
    ++group.started;
    if (!std::exchange(group.active, true))
        active_.push_back(&group);
    group.waiting.push_back({flag, cookie});
    ++in_flight_;
    advance(&group);
    end();
}

void BarrierEngine::end()
{
    while (!ended_cookies_.empty()) {
        void *cookie = ended_cookies_.front();
        ended_cookies_.erase(ended_cookies_.begin());
        ended_(cookie);
    }
}

// Tells the host that we have arrived, as far as there is room on the board.
void BarrierEngine::announce(Group *group)
{
    if (group->mates.empty()) {
        group->announced = group->started;
        return;
    }
    if (!group->board_known)
        return;
    if (group->board == nullptr && group->board_at != 0) {
        group->board = transport_.view(group->peer(group->leader), group->board_at);
        if (group->board == nullptr)
            return transport_.failed("shmem: shared memory of rank " + std::to_string(group->leader) +
                                     ", with the board of a barrier, cannot be read");
    }
    if (group->board == nullptr) {
        if (group->announced < group->started && !group->leads())
            send(group, group->leader, BarrierMessage::Kind::arrived, group->started);
        group->announced = group->started;
        return;
    }
    if (group->are_two())
        return announce_of_two(group);
    const std::size_t all = group->mates.size() + 1;
    while (group->announced < group->started && group->announced < group->completed + BarrierBoard::places) {
        const std::uint64_t number = ++group->announced;
        if (group->spans_hosts())
            group->board->come_of_several(group->base + number, all, group->leads(), [&] { tell_of_host(group, number); },
                                          [&] { transport_.ring(group->peer(group->leader)); });
        else
            group->board->come(group->base + number, all, [&] { nudge_mates(group); });
    }
}

void BarrierEngine::announce_of_two(Group *group)
{
    if (group->announced == group->started)
        return;
    const std::uint64_t first = group->announced + 1;
    group->announced = group->started;
    group->board->come_of_two(group->leads() ? 0 : 1, group->base + first, group->base + group->started,
                              [&] { transport_.nudge(group->peer(group->mates.front())); });
}

void BarrierEngine::nudge_mates(Group *group)
{
    for (int rank : group->mates)
        transport_.nudge(group->peer(rank));
}

// All ranks of all hosts have arrived, up to this one.
void BarrierEngine::publish(Group *group, std::uint64_t number)
{
    if (group->board != nullptr) {
        group->board->publish(group->base + number, [&] { nudge_mates(group); });
    } else {
        for (int rank : group->mates)
            send(group, rank, BarrierMessage::Kind::done, number);
        group->done = number;
    }
}

// The leader of a host: how far it has come, and what the others are told of it.
void BarrierEngine::lead(Group *group)
{
    if (group->mates.empty()) {
        group->led = group->started;
    } else if (group->board != nullptr) {
        group->led = group->board->lead(group->base + group->led, group->base + group->announced, group->mates.size() + 1) - group->base;
    } else {
        group->led = group->started;
        for (int rank : group->mates)
            group->led = std::min(group->led, group->mates_arrived[rank]);
    }
    const std::uint64_t known = group->is_star() ? lead_star(group) : lead_rounds(group);
    if (known > group->finished) {
        group->finished = known;
        publish(group, known);
    }
}

// Both answer how far all hosts have come.
std::uint64_t BarrierEngine::lead_star(Group *group)
{
    if (group->board == nullptr && group->told[0] < group->led) {
        group->told[0] = group->led;
        tell_of_host(group, group->led);
    }
    const std::uint64_t known = std::min(group->led, group->least_heard());
    if (group->is_hub() && known > group->finished)
        for (std::size_t place = 1; place < group->leaders.size(); ++place)
            send(group, group->leaders[place], BarrierMessage::Kind::round, known);
    return known;
}

std::uint64_t BarrierEngine::lead_rounds(Group *group)
{
    std::uint64_t known = group->led;
    for (unsigned round = 0; round < group->rounds; ++round) {
        if (group->told[round] < known && (round > 0 || group->board == nullptr)) {
            group->told[round] = known;
            send(group, group->partner(round), BarrierMessage::Kind::round, known, round);
        }
        known = std::min(known, group->heard[round]);
    }
    return known;
}

// All of our host have arrived. Whoever of them knows may say so.
void BarrierEngine::tell_of_host(Group *group, std::uint64_t number)
{
    if (!group->is_star())
        send(group, group->partner(0), BarrierMessage::Kind::round, number);
    else if (!group->is_hub())
        send(group, group->leaders[0], BarrierMessage::Kind::round, number, static_cast<unsigned>(group->place));
}

bool BarrierEngine::complete(Group *group)
{
    const std::uint64_t done = group->all_here();
    const std::uint64_t before = group->completed;
    while (group->completed < done && !group->waiting.empty()) {
        Started first = group->waiting.front();
        group->waiting.pop_front();
        ++group->completed;
        --in_flight_;
        // [B6] for a thread that looks at its flag without a call.
        if (first.flag != nullptr)
            __atomic_store_n(first.flag, 1, __ATOMIC_RELEASE);
        if (first.cookie != nullptr)
            ended_cookies_.push_back(first.cookie);
    }
    return group->completed != before;
}

bool BarrierEngine::advance(Group *group)
{
    bool something = false, completed;
    do {
        announce(group);
        if (group->leads() && (group->spans_hosts() || group->board == nullptr))
            lead(group);
        completed = complete(group);
        something = something || completed;
    } while (completed && group->announced < group->started);  // there is room for more now
    if (group->board != nullptr && !group->are_two()) {
        std::uint16_t arrived = group->board->place(group->base + group->completed + 1).load(std::memory_order_relaxed);
        something = something || arrived != group->seen;
        group->seen = arrived;
    }
    return something;
}

bool BarrierEngine::has_news() const
{
    return std::ranges::any_of(active_, [](const Group *group) {
        return group->board != nullptr && group->all_here() > group->completed;
    });
}

bool BarrierEngine::poll()
{
    bool something = false;
    for (std::size_t i = 0; i < active_.size();) {
        Group *group = active_[i];
        something = advance(group) || something;
        if (group->waiting.empty()) {
            group->active = false;
            active_[i] = active_.back();
            active_.pop_back();
        } else {
            ++i;
        }
    }
    end();
    return something;
}

// For whoever comes last on our host.
void BarrierEngine::note_heard(Group *group)
{
    if (group->board != nullptr)
        group->board->note_heard(group->base + group->least_heard());
}

bool BarrierEngine::Group::is_led_by(int rank) const
{
    if (placed || setup.host == nullptr)
        return placed && rank == leader;
    int first = 0;
    while (setup.host(setup.context, first) != setup.host(setup.context, setup.rank))
        ++first;
    return rank == first;
}

bool BarrierEngine::is_in_order(const Group &group, const pm_peer *source, const BarrierMessage &message)
{
    if (message.from < 0 || message.from >= group.setup.size || group.peer(message.from) != source)
        return false;
    switch (message.kind) {
        case BarrierMessage::Kind::board:
            return !group.board_known && group.is_led_by(message.from);
        case BarrierMessage::Kind::arrived:
            return true;
        case BarrierMessage::Kind::round:
            return message.round < most_rounds;
        case BarrierMessage::Kind::done:
            return group.placed && message.from == group.leader;  // before we have begun nothing is
    }
    return false;
}

void BarrierEngine::on_message(pm_peer *source, const BarrierMessage &message)
{
    Group &group = group_of(message.group);
    if (!group.is_open && message.kind <= BarrierMessage::Kind::done && message.round < most_rounds)
        keep_early(&group, source, message);
    else if (!group.is_open || !take(&group, source, message))
        transport_.dropped(source);
}

bool BarrierEngine::take(Group *group, pm_peer *source, const BarrierMessage &message)
{
    if (!is_in_order(*group, source, message))
        return false;
    switch (message.kind) {
        case BarrierMessage::Kind::board:
            group->board_known = true;
            group->board_at = message.number;
            group->base = message.base;
            break;
        case BarrierMessage::Kind::arrived:
            group->mates_arrived[message.from] = message.number;
            break;
        case BarrierMessage::Kind::round:
            group->heard[message.round] = std::max(group->heard[message.round], message.number);
            note_heard(group);
            break;
        case BarrierMessage::Kind::done:
            group->done = message.number;
            break;
    }
    return true;
}

void BarrierEngine::attend()
{
    for (Group *group : active_)
        for (int rank : group->mates)
            if (transport_.has_ended(group->peer(rank)))
                transport_.failed("rank " + std::to_string(rank) + " has ended during a barrier");
}

}  // namespace pm::coll

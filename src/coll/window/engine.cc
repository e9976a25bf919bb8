#include "coll/window/engine.h"

#include <algorithm>
#include <cstring>

#include "coll/payload.h"

namespace pm::coll {
namespace {

void set(volatile int *flag, int value)
{
    // [F1] for a thread that looks at its flag without a call: what the flag tells of is visible.
    __atomic_store_n(flag, value, __ATOMIC_RELEASE);
}

struct Card {
    std::uint64_t board;
    std::uint64_t bytes;
    std::uint64_t unit;
    std::uint64_t base;
    std::uint64_t mailboxes;
};
static_assert(sizeof(Card) == PM_WINDOW_CARD);

// The data is there: `board` is that of the part it is in.
void tell(std::byte *memory, WindowBoard *board, const pm_after &after)
{
    // [N1] the data is visible to whoever sees the count or the flag; pairs with what the program reads a flag by, too.
    switch (after.kind) {
        case PM_AFTER_NOTIFY:
            WindowBoard::Counts::add(&board->by_processors.notifications[after.value]);
            break;
        case PM_AFTER_COUNT:
            WindowBoard::Counts::add(&board->by_processors.counters[after.value]);
            break;
        case PM_AFTER_FLAG:
            __atomic_store_n(reinterpret_cast<int *>(memory + after.offset), after.value, __ATOMIC_RELEASE);
            break;
        case PM_AFTER_NOTHING:
            break;
    }
}

pm_after after_of(const WindowMessage &message)
{
    return {static_cast<pm_after_kind>(message.after), message.value, message.flag, message.may_be_discarded};
}

}  // namespace

// A message that the device has not accepted as a whole.
struct WindowEngine::Sending {
    volatile int *flag = nullptr;
    std::uint64_t window = 0;
    int notification = -1;  // of the data that was read, here
};

struct WindowEngine::Incoming : Payload {
    pm_window *window;  // nullptr: it is closed, and the rest goes nowhere
    WindowMessage message;
    volatile int *accepted;
};

// Waits until the targets have said that so much of what we sent has happened. Then a flag is set, or a rank that asked us is
// answered.
struct WindowEngine::Sync {
    std::vector<std::pair<int, std::uint64_t>> missing;
    volatile int *flag;
    int asked_by;
    std::uint64_t number;
};

}  // namespace pm::coll

pm_window::pm_window() = default;
pm_window::~pm_window() = default;

bool pm_window::take(int notification)
{
    auto which = static_cast<std::size_t>(notification);
    if (board->notified(which) == taken[which])
        return false;
    ++taken[which];
    return true;
}

bool pm_window::take_count(int counter, std::uint32_t arrivals)
{
    auto which = static_cast<std::size_t>(counter);
    if (board->counted(which) - counted[which] < arrivals)
        return false;
    counted[which] += arrivals;
    return true;
}

namespace pm::coll {

// --- windows ------------------------------------------------------------------------------------------------------------

pm_window *WindowEngine::open(const pm_window_setup &setup, void *card)
{
    auto made = std::make_unique<pm_window>();
    pm_window *window = made.get();
    window->setup = setup;
    window->targets.resize(static_cast<std::size_t>(setup.size));
    window->board = transport_.make_board();
    Card mine{reinterpret_cast<std::uint64_t>(window->board), setup.bytes, setup.unit, reinterpret_cast<std::uint64_t>(setup.base),
              setup.is_of_program && window->board != nullptr ? transport_.mailboxes() : 0};
    std::memcpy(card, &mine, sizeof mine);
    if (window->board == nullptr) {
        window->own_board = std::make_unique<WindowBoard>();
        window->board = window->own_board.get();
    }
    // A board that was used before counts on.
    for (std::size_t i = 0; i < window->taken.size(); ++i)
        window->taken[i] = window->board->notified(i);
    for (std::size_t i = 0; i < window->counted.size(); ++i)
        window->counted[i] = window->board->counted(i);
    window->board->discard.store(0, std::memory_order_relaxed);
    window->board->epochs.reset((setup.id << 32) + static_cast<std::uint64_t>(setup.rank) + 1);
    windows_[setup.id] = std::move(made);
    return window;
}

void WindowEngine::meet(pm_window *window, int rank, const void *card)
{
    Card its;
    std::memcpy(&its, card, sizeof its);
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    target.bytes = its.bytes;
    target.unit = its.unit;
    target.base = its.base;
    target.mailboxes = its.mailboxes;
    if (rank == window->setup.rank) {
        target.memory = static_cast<std::byte *>(window->setup.base);
        target.board = window->board;
        target.direct = true;
        return;
    }
    target.peer = window->setup.peer(window->setup.context, rank);
    if (its.board != 0)
        target.board = transport_.view(target.peer, its.board);
    target.name_address = its.board + offsetof(WindowBoard, epochs) + offsetof(EpochBoard, name);
    if (target.board != nullptr)
        target.memory = static_cast<std::byte *>(window->setup.memory(window->setup.context, rank, its.base, its.bytes));
    target.direct = target.memory != nullptr;
    window->near = window->near && target.direct;
}

pm_window *WindowEngine::find(std::uint64_t id)
{
    auto found = windows_.find(id);
    return found == windows_.end() ? nullptr : found->second.get();
}

void WindowEngine::close(pm_window *window)
{
    if (window->own_board == nullptr)
        transport_.free_board(window->board);
    std::erase_if(armed_, [&](const Armed &armed) { return armed.window == window; });
    for (Incoming *incoming : window->incoming) {
        incoming->window = nullptr;
        incoming->place = nullptr;
    }
    windows_.erase(window->setup.id);
}

// --- by stores ----------------------------------------------------------------------------------------------------------

bool WindowEngine::store(pm_window *window, int rank, std::uint64_t offset, const void *data, std::size_t size, const pm_after &after)
{
    const pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (!target.direct)
        return false;
    if (after.may_be_discarded && target.board->discard.load(std::memory_order_relaxed) != 0)
        return true;
    if (size != 0)
        std::memmove(target.memory + offset, data, size);  // another rank may have us copy within our own part
    tell(target.memory, target.board, after);
    if (target.peer != nullptr) {
        if (after.kind == PM_AFTER_NOTIFY)
            transport_.nudge(target.peer);
        else if (after.kind == PM_AFTER_COUNT)
            transport_.ring(target.peer);  // its flag is set by itself
    }
    return true;
}

bool WindowEngine::load(pm_window *window, int rank, std::uint64_t offset, void *data, std::size_t size, int notification)
{
    const pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (!target.direct)
        return false;
    if (size != 0)
        std::memcpy(data, target.memory + offset, size);
    if (notification < 0)
        return true;
    tell(target.memory, target.board, {PM_AFTER_NOTIFY, notification, 0, 0});
    if (target.peer != nullptr)
        transport_.nudge(target.peer);
    return true;
}

// --- by messages --------------------------------------------------------------------------------------------------------

int WindowEngine::send(pm_window *window, int rank, WindowMessage message, const void *data, std::size_t size,
                       std::unique_ptr<Sending> sending)
{
    message.window = window->setup.id;
    message.from = window->setup.rank;
    void *cookie = size != 0 && sending != nullptr ? sending.release() : nullptr;
    int status = transport_.send(window->targets[static_cast<std::size_t>(rank)].peer, message, data, size, cookie);
    if (status == PM_QUEUED && cookie != nullptr)
        return status;
    if (cookie != nullptr)
        sending.reset(static_cast<Sending *>(cookie));
    if (status == PM_FAILED)
        transport_.failed({});
    else if (sending != nullptr)
        taken(sending.release());
    return status;
}

namespace {

// One more message on its way to that target, whose effect we do not know of.
void issue(pm_window *window, int rank)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (target.known == target.issued++)
        window->unknown.push_back(rank);
}

WindowMessage message_of(WindowMessage::Kind kind, std::uint64_t offset, const pm_after &after)
{
    WindowMessage message;
    message.kind = kind;
    message.offset = offset;
    message.after = static_cast<std::uint8_t>(after.kind);
    message.value = after.value;
    message.flag = after.offset;
    message.may_be_discarded = after.may_be_discarded != 0;
    return message;
}

}  // namespace

int WindowEngine::put(pm_window *window, int target, std::uint64_t offset, const void *data, std::size_t size, const pm_after &after)
{
    issue(window, target);
    return send(window, target, message_of(WindowMessage::Kind::put, offset, after), data, size, nullptr) == PM_FAILED ? PM_FAILED : PM_OK;
}

int WindowEngine::get(pm_window *window, int target, std::uint64_t offset, void *data, std::size_t size, int notification)
{
    WindowMessage message = message_of(WindowMessage::Kind::get, offset, {PM_AFTER_NOTIFY, notification, 0, 0});
    message.size = size;
    message.place = ++window->last_number;
    window->gets[message.place] = {target, static_cast<std::byte *>(data), size};
    issue(window, target);
    return send(window, target, message, nullptr, 0, nullptr) == PM_FAILED ? PM_FAILED : PM_OK;
}

int WindowEngine::copy(pm_window *window, int source, std::uint64_t source_offset, int target, std::uint64_t target_offset,
                       std::size_t size, const pm_after &after)
{
    if (source == window->setup.rank) {
        const std::byte *data = static_cast<const std::byte *>(window->setup.base) + source_offset;
        return store(window, target, target_offset, data, size, after) ? static_cast<int>(PM_OK)
                                                                       : put(window, target, target_offset, data, size, after);
    }
    WindowMessage message = message_of(WindowMessage::Kind::copy, source_offset, after);
    message.size = size;
    message.target = target;
    message.target_offset = target_offset;
    issue(window, source);
    return send(window, source, message, nullptr, 0, nullptr) == PM_FAILED ? PM_FAILED : PM_OK;
}

void WindowEngine::taken(void *cookie)
{
    std::unique_ptr<Sending> sending(static_cast<Sending *>(cookie));
    if (sending->flag != nullptr)
        set(sending->flag, 1);
    if (sending->notification >= 0)
        if (auto found = windows_.find(sending->window); found != windows_.end())
            tell(nullptr, found->second->board, {PM_AFTER_NOTIFY, sending->notification, 0, 0});
}

// --- messages arrive ----------------------------------------------------------------------------------------------------

namespace {

inline bool lies_within(std::uint64_t offset, std::uint64_t size, std::uint64_t bytes)
{
    return offset <= bytes && size <= bytes - offset;
}

// What is to happen behind a write can happen in a part that has so many bytes and begins there.
inline bool is_possible(const WindowMessage &message, std::uint64_t bytes, std::uint64_t base)
{
    switch (message.after) {
        case PM_AFTER_NOTHING:
            return true;
        case PM_AFTER_NOTIFY:
            return message.value >= 0 && message.value < PM_NOTIFICATIONS;
        case PM_AFTER_COUNT:
            return message.value >= 0 && message.value < PM_COUNTERS;
        case PM_AFTER_FLAG:
            return lies_within(message.flag, sizeof(int), bytes) && (base + message.flag) % alignof(int) == 0;
        default:
            return false;
    }
}

}  // namespace

inline bool WindowEngine::is_in_order(const pm_window *window, const WindowMessage &message, const pm_peer *source, std::size_t size)
{
    const pm_window_setup &ours = window->setup;
    auto is_rank = [&](int rank) { return static_cast<unsigned>(rank) < static_cast<unsigned>(ours.size); };
    if (!is_rank(message.from) || source == nullptr || window->targets[static_cast<std::size_t>(message.from)].peer != source)
        return false;
    if (message.kind == WindowMessage::Kind::put) [[likely]]
        return (size == 0 || lies_within(message.offset, size, ours.bytes)) &&
               is_possible(message, ours.bytes, reinterpret_cast<std::uint64_t>(ours.base));
    return is_other_in_order(window, message, size);
}

bool WindowEngine::is_other_in_order(const pm_window *window, const WindowMessage &message, std::size_t size)
{
    const pm_window_setup &ours = window->setup;
    switch (message.kind) {
        case WindowMessage::Kind::put:
            return false;
        case WindowMessage::Kind::get:
            return size == 0 && lies_within(message.offset, message.size, ours.bytes) && message.value >= -1 &&
                   message.value < PM_NOTIFICATIONS;
        case WindowMessage::Kind::reply: {
            auto found = window->gets.find(message.place);
            return found != window->gets.end() && found->second.from == message.from && found->second.size == size;
        }
        case WindowMessage::Kind::copy: {
            if (size != 0 || message.target < 0 || message.target >= ours.size)
                return false;
            const pm_window::Target &target = window->targets[static_cast<std::size_t>(message.target)];
            return lies_within(message.offset, message.size, ours.bytes) &&
                   lies_within(message.target_offset, message.size, target.bytes) && is_possible(message, target.bytes, target.base);
        }
        case WindowMessage::Kind::sync:
        case WindowMessage::Kind::accept:
            return size == 0;
        case WindowMessage::Kind::synced:
            return size == 0 && message.place <= window->targets[static_cast<std::size_t>(message.from)].issued;
        case WindowMessage::Kind::keyed: {
            auto found = window->accepted.find(message.place);
            return found != window->accepted.end() && found->second.from == message.from && size <= found->second.room;
        }
    }
    return false;
}

void *WindowEngine::arrived(const Envelope &envelope, const void *piece, std::size_t piece_size, std::size_t total)
{
    WindowMessage message;
    std::memcpy(&message, envelope.header, sizeof message);
    auto found = windows_.find(message.window);
    pm_window *window = found != windows_.end() ? found->second.get() : nullptr;
    if (window == nullptr || !is_in_order(window, message, envelope.source, total)) [[unlikely]] {
        transport_.dropped(envelope.source);
        return nullptr;
    }
    std::byte *place = nullptr;
    volatile int *accepted = nullptr;
    if (message.kind == WindowMessage::Kind::put) [[likely]] {
        if (message.may_be_discarded && window->board->discard.load(std::memory_order_relaxed) != 0) {
            message.after = PM_AFTER_NOTHING;
            piece_size = total = 0;
        }
        if (total != 0)
            place = static_cast<std::byte *>(window->setup.base) + message.offset;
    } else if (message.kind == WindowMessage::Kind::reply) {
        place = window->gets.extract(message.place).mapped().place;
    } else if (message.kind == WindowMessage::Kind::keyed) {
        pm_window::Accept wanted = window->accepted.extract(message.place).mapped();
        place = static_cast<std::byte *>(window->setup.base) + wanted.offset;
        accepted = wanted.flag;
    }
    if (piece_size == total) {
        if (total != 0)
            std::memcpy(place, piece, total);
        finish(window, message, accepted);
        return nullptr;
    }
    auto incoming = new Incoming{{place, 0, total}, window, message, accepted};
    window->incoming.push_back(incoming);
    more(incoming, piece, piece_size);
    return incoming;
}

void *WindowEngine::place(void *cookie)
{
    return static_cast<Incoming *>(cookie)->place;
}

void WindowEngine::more(void *cookie, const void *piece, std::size_t piece_size)
{
    if (static_cast<Incoming *>(cookie)->add(piece, piece_size))
        placed(cookie);
}

void WindowEngine::placed(void *cookie)
{
    std::unique_ptr<Incoming> incoming(static_cast<Incoming *>(cookie));
    if (incoming->window == nullptr)
        return;
    std::erase(incoming->window->incoming, incoming.get());
    finish(incoming->window, incoming->message, incoming->accepted);
}

// All of a message is here, and its data in its place.
void WindowEngine::finish(pm_window *window, const WindowMessage &message, volatile int *accepted)
{
    switch (message.kind) {
        case WindowMessage::Kind::put:
            tell(static_cast<std::byte *>(window->setup.base), window->board, after_of(message));
            break;
        case WindowMessage::Kind::get:
            on_get(window, message);
            break;
        case WindowMessage::Kind::copy: {
            copy(window, window->setup.rank, message.offset, message.target, message.target_offset, message.size, after_of(message));
            pm_window::Target &target = window->targets[static_cast<std::size_t>(message.target)];
            target.forwarded = target.issued;
            break;
        }
        case WindowMessage::Kind::sync:
            on_sync(window, message);
            break;
        case WindowMessage::Kind::synced: {
            pm_window::Target &target = window->targets[static_cast<std::size_t>(message.from)];
            target.arrived = std::max(target.arrived, message.place);
            if (message.forwarded)
                target.known = std::max(target.known, message.place);
            if (target.known == target.issued)
                std::erase(window->unknown, message.from);
            settle(window);
            break;
        }
        case WindowMessage::Kind::accept:
            window->accepts[{message.from, message.value}].push_back(message);
            match(window, message.from, message.value);
            break;
        case WindowMessage::Kind::keyed:
            set(accepted, 1);
            break;
        case WindowMessage::Kind::reply:
            break;
    }
}

void WindowEngine::on_get(pm_window *window, const WindowMessage &message)
{
    WindowMessage reply;
    reply.kind = WindowMessage::Kind::reply;
    reply.place = message.place;
    auto sending = std::make_unique<Sending>();
    sending->window = window->setup.id;
    sending->notification = message.value;
    send(window, message.from, reply, static_cast<std::byte *>(window->setup.base) + message.offset, message.size, std::move(sending));
}

// --- has it happened? ---------------------------------------------------------------------------------------------------

namespace {

WindowMessage sync_of(std::uint64_t number, bool forwarded)
{
    WindowMessage message;
    message.kind = WindowMessage::Kind::sync;
    message.place = number;
    message.forwarded = forwarded;
    return message;
}

}  // namespace

int WindowEngine::sync(pm_window *window, volatile int *flag)
{
    Sync sync{{}, flag, -1, 0};
    set(flag, 0);
    for (int rank : window->unknown) {
        pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
        sync.missing.emplace_back(rank, target.issued);
        if (target.asked == target.issued)
            continue;
        target.asked = target.issued;
        if (send(window, rank, sync_of(target.issued, true), nullptr, 0, nullptr) == PM_FAILED)
            return PM_FAILED;
    }
    if (sync.missing.empty())
        set(flag, 1);
    else
        window->syncs.push_back(std::move(sync));
    return PM_OK;
}

void WindowEngine::forget(pm_window *window, const volatile int *flag)
{
    std::erase_if(window->syncs, [&](const Sync &sync) { return sync.flag == flag; });
}

// Messages of one rank come in order: all before this one have happened. But what we have forwarded may be under way; for that the
// targets are asked in turn, for nothing further.
void WindowEngine::on_sync(pm_window *window, const WindowMessage &message)
{
    Sync sync{{}, nullptr, message.from, message.place};
    for (int rank : window->unknown) {
        const pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
        if (!message.forwarded || target.forwarded <= target.arrived)
            continue;
        // Not remembered as asked: one that we ask for ourselves asks for more.
        sync.missing.emplace_back(rank, target.forwarded);
        send(window, rank, sync_of(target.forwarded, false), nullptr, 0, nullptr);
    }
    if (sync.missing.empty())
        answer(window, message.from, message.place, message.forwarded);
    else
        window->syncs.push_back(std::move(sync));
}

void WindowEngine::answer(pm_window *window, int rank, std::uint64_t number, bool forwarded)
{
    WindowMessage message;
    message.kind = WindowMessage::Kind::synced;
    message.place = number;
    message.forwarded = forwarded;
    send(window, rank, message, nullptr, 0, nullptr);
}

void WindowEngine::settle(pm_window *window)
{
    for (std::size_t i = 0; i < window->syncs.size();) {
        std::erase_if(window->syncs[i].missing, [&](const auto &each) {
            const pm_window::Target &target = window->targets[static_cast<std::size_t>(each.first)];
            return (window->syncs[i].flag != nullptr ? target.known : target.arrived) >= each.second;
        });
        if (!window->syncs[i].missing.empty()) {
            ++i;
            continue;
        }
        Sync done = std::move(window->syncs[i]);
        window->syncs.erase(window->syncs.begin() + static_cast<std::ptrdiff_t>(i));
        if (done.flag != nullptr)
            set(done.flag, 1);
        else
            answer(window, done.asked_by, done.number, true);
    }
}

// --- counters -----------------------------------------------------------------------------------------------------------

bool WindowEngine::is_armed(const pm_window *window, int counter) const
{
    return std::ranges::any_of(armed_, [&](const Armed &armed) { return armed.window == window && armed.counter == counter; });
}

bool WindowEngine::arm(pm_window *window, int counter, int arrivals, volatile int *flag)
{
    if (is_armed(window, counter))
        return false;
    set(flag, 0);
    armed_.push_back({window, counter, static_cast<std::uint32_t>(arrivals), flag});
    poll();
    return true;
}

void WindowEngine::poll()
{
    std::erase_if(armed_, [](const Armed &armed) {
        if (!armed.window->take_count(armed.counter, armed.arrivals))
            return false;
        set(armed.flag, 1);
        return true;
    });
}

// --- rendezvous ---------------------------------------------------------------------------------------------------------

int WindowEngine::offer(pm_window *window, int target, int key, const void *data, std::size_t size, volatile int *flag)
{
    set(flag, 0);
    window->offers[{target, key}].push_back({data, size, flag});
    return match(window, target, key);
}

int WindowEngine::accept(pm_window *window, int source, int key, std::uint64_t offset, std::size_t room, volatile int *flag)
{
    WindowMessage message;
    message.window = window->setup.id;
    message.kind = WindowMessage::Kind::accept;
    message.from = window->setup.rank;
    message.value = key;
    message.target_offset = offset;
    message.size = room;
    message.place = ++window->last_number;
    set(flag, 0);
    window->accepted[message.place] = {source, offset, room, flag};
    if (source == window->setup.rank) {
        finish(window, message, nullptr);
        return PM_OK;
    }
    return send(window, source, message, nullptr, 0, nullptr) == PM_FAILED ? PM_FAILED : PM_OK;
}

// The first offer and the first accept of a pair and a key belong together.
int WindowEngine::match(pm_window *window, int target, int key)
{
    auto offers = window->offers.find({target, key});
    auto accepts = window->accepts.find({target, key});
    if (offers == window->offers.end() || accepts == window->accepts.end())
        return PM_OK;
    pm_window::Offer offer = offers->second.front();
    WindowMessage accepted = accepts->second.front();
    offers->second.pop_front();
    accepts->second.pop_front();
    if (offers->second.empty())
        window->offers.erase(offers);
    if (accepts->second.empty())
        window->accepts.erase(accepts);
    std::size_t size = std::min<std::size_t>(offer.size, accepted.size);
    if (target == window->setup.rank) {
        if (size != 0)
            std::memcpy(static_cast<std::byte *>(window->setup.base) + accepted.target_offset, offer.data, size);
        set(offer.flag, 1);
        set(window->accepted.extract(accepted.place).mapped().flag, 1);
        return PM_OK;
    }
    WindowMessage message;
    message.kind = WindowMessage::Kind::keyed;
    message.offset = accepted.target_offset;
    message.place = accepted.place;
    auto sending = std::make_unique<Sending>();
    sending->flag = offer.flag;
    issue(window, target);
    return send(window, target, message, offer.data, size, std::move(sending)) == PM_FAILED ? PM_FAILED : PM_OK;
}

}  // namespace pm::coll

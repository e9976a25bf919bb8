#include "coll/window/errands.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <unordered_map>

#include "base/tuning.h"
#include "coll/window/direct.h"
#include "netmod/core/shared.h"

namespace pm::coll {

static_assert(sizeof(Mailboxes) <= PM_SHARED_LIMIT);
static_assert(Errand::data_max == PM_ERRAND_MAX);

namespace {

using Moves = Pieces<Errand::data_max / sizeof(Piece)>;
static_assert(epoch_ranks_max <= 256);

// Between memory of this process and of the peer's. `here(piece)` and `there(piece)`: where a piece is.
template <class Here, class There>
bool move_pieces(const pm_peer *peer, bool reads, const Moves &pieces, Here &&here, There &&there)
{
    iovec ours[Errand::data_max / sizeof(Piece)], its[Errand::data_max / sizeof(Piece)];
    std::size_t count = 0;
    for (const Piece &piece : pieces) {
        ours[count] = {reinterpret_cast<void *>(here(piece)), piece.size};
        its[count++] = {reinterpret_cast<void *>(there(piece)), piece.size};
    }
    return (reads ? pm_read_pieces(peer, ours, its, count) : pm_write_pieces(peer, ours, its, count)) != 0;
}

// Pieces of our memory, and where they go to or come from.
struct Sent {
    pm_window *window = nullptr;
    int rank = 0;
    bool put = false;
    Moves pieces;

    bool is_like(const Sent &other) const { return window == other.window && rank == other.rank && put == other.put; }
    pm_window::Target &target() const { return window->targets[static_cast<std::size_t>(rank)]; }
    bool move() const
    {
        const pm_window::Target &its = target();
        return move_pieces(
            its.peer, !put, pieces, [](const Piece &piece) { return piece.address; },
            [&](const Piece &piece) { return its.base + piece.offset; });
    }
};

}  // namespace

// What we ask of one process, for all windows that we share with it.
class Errands {
  public:
    Errands(pm_peer *peer, Mailboxes *all, Mailbox *box) : peer_(peer), runner_(all, box) {}
    ~Errands() { runner_.release(); }
    Errands(const Errands &) = delete;
    Errands &operator=(const Errands &) = delete;

    // Whether it is worth trying: it has not let us wait in vain just now, and does not sleep. If it sleeps, because it
    // had nothing to do, it is woken for the next ones.
    bool is_promising()
    {
        if (passes_ != 0) {
            --passes_;
            return false;
        }
        if (!pm_may_sleep(peer_)) {
            looks_after_ring_ = 0;
            return true;
        }
        // It takes some time to wake up, and falls asleep soon: we look each time, until it is not worth it for now.
        if (looks_after_ring_ == 0) {
            pm_ring(peer_);
            looks_after_ring_ = PM_ERRAND_LOOKS_AFTER_RING;
        } else if (--looks_after_ring_ == 0) {
            pass_some();
        }
        return false;
    }
    // nullptr: there is no room, even after waiting, or it is gone.
    Errand *next()
    {
        if (!runner_.has_room())
            wait();
        if (!runner_.has_room())
            return nullptr;
        if (runner_.unseen() == Mailbox::room)
            see();
        return &runner_.next();
    }
    // `result`, unless it is null, gets what comes of it, by settle().
    void post(pm_window *window, int rank, void *result, std::size_t size) { post(window, rank, false, result, size); }

    // By the kernel, with others of its kind, the target doing its part if it looks. -1: it is gone.
    int move(const Sent &what, const Piece &piece);
    // What was moved goes before what is asked for next, or the other way round. False: it is gone.
    bool settle_moves() { return !moves_ || settle_all(); }

    // Until all is done, of all windows: 1, or -1 when it is gone or would not do something of this one's.
    int settle(pm_window::Target &target)
    {
        const bool settled = settle_all();
        return std::exchange(target.failed, false) || !settled ? -1 : 1;
    }

  private:
    std::size_t slot_of(const Errand &errand) const { return static_cast<std::size_t>(&errand - runner_.first()); }
    void see()
    {
        const Errand &errand = runner_.see();
        auto [place, size] = results_[slot_of(errand)];
        Sent &sent = sent_[slot_of(errand)];
        // It may not be allowed to copy what we are.
        bool done = errand.refused == 0 || (sent.pieces.count() != 0 && sent.move());
        if (errand.refused != 0)
            pass_some();
        if (!done && sent.window != nullptr)
            sent.target().failed = true;
        sent.pieces.clear();
        if (place != nullptr)
            std::memcpy(place, errand.data.data(), size);
    }
    // Answers where pieces are noted, if they are to be moved: there are none yet.
    Moves &post(pm_window *window, int rank, bool put, void *result, std::size_t size)
    {
        Errand &errand = runner_.next();
        Sent &sent = sent_[slot_of(errand)];
        errand.refused = 0;
        results_[slot_of(errand)] = {result, size};
        sent.window = window;
        sent.rank = rank;
        sent.put = put;
        sent.pieces.clear();
        runner_.post();
        return sent.pieces;
    }
    bool settle_all();
    bool wait();
    void share();
    void leave(const Moves &pieces);
    void do_ourselves(Errand &errand);
    void pass_some()
    {
        passes_ = passes_next_ = std::min<std::uint32_t>(2 * passes_next_ + PM_ERRAND_PASSES_FIRST, PM_ERRAND_PASSES);
    }

    pm_peer *peer_;
    ErrandRunner runner_;
    std::array<std::pair<void *, std::size_t>, Mailbox::room> results_{};  // where they go
    std::array<Sent, Mailbox::room> sent_;  // whose they are, and what they are to copy: it is not read from where the target could write
    Sent gathered_;
    bool moves_ = false;  // that is what was asked for last
    std::uint32_t looks_after_ring_ = 0;
    std::uint32_t passes_ = 0, passes_next_ = 0;
};

namespace {

constinit Mailboxes *ours = nullptr;
pm_core *core_of_ours = nullptr;
std::unordered_map<pm_peer *, std::weak_ptr<Errands>> by_peer;

bool makes_sense(const Errand::Head &errand, std::uint64_t bytes)
{
    if (errand.size == 0 || errand.size > Errand::data_max || errand.offset > bytes || errand.size > bytes - errand.offset)
        return false;
    if (errand.kind == Errand::Kind::put || errand.kind == Errand::Kind::get)
        return true;
    auto element = static_cast<pm_element>(errand.element);
    std::size_t one = pm_element_size(element);
    bool known = one != 0 && errand.operation < PM_OPERATIONS && errand.size % one == 0;
    return known && (errand.kind == Errand::Kind::apply || (errand.kind == Errand::Kind::swap && errand.size == one));
}

// What an errand does with `size` bytes of its data to `memory`, which may be a copy.
void perform_on(const Errand::Head &errand, std::byte *data, std::size_t size, std::byte *memory)
{
    auto element = static_cast<pm_element>(errand.element);
    switch (errand.kind) {
        case Errand::Kind::put:
            std::memcpy(memory, data, size);
            break;
        case Errand::Kind::get:
            std::memcpy(data, memory, size);
            break;
        case Errand::Kind::apply:
            pm_atomic_apply(element, static_cast<pm_operation>(errand.operation), memory, data, data, size / pm_element_size(element));
            break;
        case Errand::Kind::swap:
            pm_atomic_swap(element, memory, data, data + size, data);
            break;
        default:
            break;
    }
}

bool is_move(const Errand::Head &errand)
{
    return errand.kind == Errand::Kind::pull || errand.kind == Errand::Kind::push;
}

bool changes_elements(const Errand::Head &errand)
{
    return errand.kind == Errand::Kind::apply || errand.kind == Errand::Kind::swap;
}

// In the part of `rank`, by pieces in which nobody else changes elements meanwhile. `piece(at, size)` does one; false: it cannot.
template <class Piece>
bool perform_in(pm_window *window, int rank, const Errand::Head &errand, Piece &&piece)
{
    if (!changes_elements(errand))
        return piece(0, errand.size);
    std::size_t one = pm_element_size(static_cast<pm_element>(errand.element));
    for (std::size_t at = 0; at < errand.size;) {
        std::uint64_t offset = errand.offset + at;
        std::uint64_t end = pm_direct_enter(window, rank, offset);
        if (end == 0)
            return false;
        std::size_t size = std::min<std::size_t>(errand.size - at, (end - offset + one - 1) / one * one);
        bool done = piece(at, size);
        pm_direct_leave(window, rank, offset);
        if (!done)
            return false;
        at += size;
    }
    return true;
}

// Between another's memory and our part.
bool move_here(pm_window *window, const Errand::Head &errand, const std::byte *data)
{
    if (errand.origin >= window->targets.size() || errand.size > Errand::data_max || errand.size % sizeof(Piece) != 0)
        return false;
    const pm_peer *origin = window->targets[errand.origin].peer;
    const std::uint64_t bytes = window->setup.bytes;
    Moves pieces;
    for (std::size_t at = 0; at < errand.size; at += sizeof(Piece)) {
        Piece piece;
        std::memcpy(&piece, data + at, sizeof piece);
        if (piece.offset > bytes || piece.size > bytes - piece.offset)
            return false;
        pieces.add(piece);
    }
    const auto base = reinterpret_cast<std::uint64_t>(window->setup.base);
    return origin != nullptr && move_pieces(
                                    origin, errand.kind == Errand::Kind::pull, pieces, [&](const Piece &piece) { return base + piece.offset; },
                                    [](const Piece &piece) { return piece.address; });
}

// Another's, in our memory. What it says is copied before it is looked at: the other may still write there.
void perform_here(Errand &theirs)
{
    const Errand::Head errand = theirs.head;
    pm_window *window = find_window(errand.window);
    theirs.refused = 1;
    if (window == nullptr || window->direct_parts.empty())
        return;
    if (is_move(errand)) {
        theirs.refused = !move_here(window, errand, theirs.data.data());
        return;
    }
    if (!makes_sense(errand, window->setup.bytes))
        return;
    std::byte *memory = static_cast<std::byte *>(window->setup.base) + errand.offset;
    // Elements are where they can be changed as a whole: otherwise we are not asked.
    if (changes_elements(errand) && reinterpret_cast<std::uintptr_t>(memory) % pm_element_size(static_cast<pm_element>(errand.element)) != 0)
        return;
    theirs.refused = !perform_in(window, window->setup.rank, errand, [&](std::size_t at, std::size_t size) {
        perform_on(errand, theirs.data.data() + at, size, memory + at);
        return true;
    });
}

// Our own, which the target did not do, but may have written to.
void perform_there(Errand &ours_there)
{
    const Errand::Head errand = ours_there.head;
    pm_window *window = find_window(errand.window);
    ours_there.refused = 1;
    if (window == nullptr || window->direct_parts.empty() || errand.rank >= window->targets.size())
        return;
    const pm_window::Target &target = window->targets[errand.rank];
    if (target.peer == nullptr || !makes_sense(errand, target.bytes))
        return;
    int rank = static_cast<int>(errand.rank);
    ours_there.refused = !perform_in(window, rank, errand, [&](std::size_t at, std::size_t size) {
        alignas(16) std::byte copy[Errand::data_max];
        std::byte before[Errand::data_max];
        bool reads = errand.kind != Errand::Kind::put;
        if (reads && !pm_direct_read(window, rank, errand.offset + at, copy, size))
            return false;
        std::memcpy(before, copy, reads ? size : 0);
        perform_on(errand, ours_there.data.data() + at, size, copy);
        // What has not changed is not written: somebody else may have changed it by a put.
        return (reads && std::memcmp(before, copy, size) == 0) || pm_direct_write(window, rank, errand.offset + at, copy, size) != 0;
    });
}

using Since = pm_window::Target::Since;

// Answers what was noted before. direct.unsettled counts the targets of which anything is noted.
Since note(pm_window *window, pm_window::Target &target, Since now)
{
    window->direct.unsettled += (now != Since::nothing) - (target.since != Since::nothing);
    return std::exchange(target.since, now);
}

// Posts one, if that is promising.
template <class Fill>
bool ask(pm_window *window, int rank, Errand::Kind kind, std::uint64_t offset, std::size_t size, void *result, Fill &&fill)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (target.errands == nullptr || size > Errand::data_max || !target.errands->is_promising())
        return false;
    Errand *errand = target.errands->settle_moves() ? target.errands->next() : nullptr;
    if (errand == nullptr)
        return false;
    errand->head = {window->setup.id, offset, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), kind, 0, 0, 0};
    fill(*errand);
    target.errands->post(window, rank, result, size);
    note(window, target, Since::asked);
    return true;
}

// 1, or -1.
int settle(pm_window *window, int rank, Since then = Since::nothing)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    return note(window, target, then) == Since::asked ? target.errands->settle(target) : 1;
}

// What is longer the kernel copies as quickly; but of many the next can be filled while one is done.
bool is_worth_asking(const pm_window *window, int rank, std::size_t size)
{
    return size <= PM_ERRAND_MOVE || (size <= Errand::data_max && window->targets[static_cast<std::size_t>(rank)].since != Since::nothing);
}

// What is long, or not alone, is gathered or shared; 0: the caller does it.
int move(pm_window *window, int rank, bool put, const void *data, std::uint64_t offset, std::size_t size)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (target.errands == nullptr)
        return 0;
    if (target.since == Since::nothing && size < PM_SHARE_LEAST) {
        note(window, target, Since::moved);
        return 0;
    }
    note(window, target, Since::asked);
    return target.errands->move({window, rank, put, {}}, {reinterpret_cast<std::uint64_t>(data), offset, size});
}

// It could not be asked: what was asked before has happened when somebody else does it.
int not_asked(pm_window *window, int rank)
{
    if (window->targets[static_cast<std::size_t>(rank)].since != Since::asked)
        return 0;
    return settle(window, rank, Since::moved) == 1 ? 0 : -1;
}

}  // namespace

// Until all is done, by whoever does it. False: the target is gone.
bool Errands::wait()
{
    // What we share it has begun with by now, or does not look.
    const unsigned patience = moves_ ? PM_SHARE_PATIENCE : PM_ERRAND_PATIENCE;
    constexpr unsigned long_enough = 1 << 20;  // for any of it to be copied
    if (runner_.unseen() == 0)
        return true;
    for (unsigned looks = 0, all = 0; !runner_.is_settled() && looks < patience && all < long_enough; ++looks, ++all) {
        if (all % PM_LOOKS_BETWEEN_PROGRESS != 0)
            continue;
        serve_errands();  // it may wait for us as well
        if (moves_ && runner_.is_target_at_it())
            looks = 0;
    }
    if (runner_.is_settled())
        passes_next_ = 0;
    else
        pass_some();
    while (!runner_.is_settled() && !runner_.take_back([this](Errand &errand) { do_ourselves(errand); })) {
        if (pm_has_ended(peer_)) {
            results_ = {};  // the program may free what they were for, and the window
            sent_ = {};
            return false;
        }
        sched_yield();
        serve_errands();
    }
    return true;
}

void Errands::do_ourselves(Errand &errand)
{
    if (const Sent &sent = sent_[slot_of(errand)]; sent.pieces.count() != 0)
        errand.refused = !sent.move();
    else
        perform_there(errand);
}

int Errands::move(const Sent &what, const Piece &piece)
{
    if (!moves_ && settle(what.target()) != 1)
        return -1;
    moves_ = true;
    if (!gathered_.is_like(what)) {
        share();
        // A put and then a get are seen in this order.
        if (gathered_.put != what.put && settle(what.target()) != 1)
            return -1;
        moves_ = true;
        gathered_ = what;
    }
    gathered_.pieces.add(piece);
    if (gathered_.pieces.bytes() >= PM_SHARE_GATHER || !gathered_.pieces.has_room())
        share();
    return what.target().failed ? settle(what.target()) : 1;
}

// The target does what is last, as long as it keeps up, and we what is first.
void Errands::share()
{
    Moves &left = gathered_.pieces;
    if (left.bytes() == 0)
        return;
    const bool asks = left.bytes() >= PM_SHARE_LEAST && is_promising();
    const std::size_t part = asks ? std::min<std::size_t>(PM_SHARE_PART, (left.bytes() + 1) / 2) : std::min<std::size_t>(left.bytes(), PM_SHARE_ALONE);
    while (left.bytes() != 0) {
        while (asks && left.bytes() > part && runner_.waiting() < PM_SHARE_AHEAD)
            leave(left.take_last(part));
        Sent ours{gathered_.window, gathered_.rank, gathered_.put, left.take_first(part)};
        if (!ours.move())
            ours.target().failed = true;
    }
    left.clear();
}

void Errands::leave(const Moves &pieces)
{
    if (runner_.unseen() == Mailbox::room)
        see();
    Errand &errand = runner_.next();
    errand.head = {gathered_.window->setup.id, 0, static_cast<std::uint32_t>(gathered_.rank), static_cast<std::uint32_t>(pieces.count() * sizeof(Piece)),
                   gathered_.put ? Errand::Kind::pull : Errand::Kind::push, 0, 0, static_cast<std::uint8_t>(gathered_.window->setup.rank)};
    std::memcpy(errand.data.data(), pieces.begin(), pieces.count() * sizeof(Piece));
    post(gathered_.window, gathered_.rank, gathered_.put, nullptr, 0) = pieces;
}

bool Errands::settle_all()
{
    share();
    const bool settled = wait();
    while (runner_.is_settled() && runner_.unseen() != 0)
        see();
    moves_ = false;
    return settled;
}

std::uint64_t open_mailboxes(pm_core *core)
{
    if (ours == nullptr) {
        if (void *block = pm_shared_alloc(core, PM_SHARED_LIMIT)) {
            std::memset(block, 0, sizeof(Mailboxes));
            ours = new (block) Mailboxes;
            core_of_ours = core;
        }
    }
    return reinterpret_cast<std::uint64_t>(ours);
}

bool has_mailboxes()
{
    return ours != nullptr;
}

void close_mailboxes()
{
    if (ours != nullptr)
        pm_shared_free(core_of_ours, ours);
    ours = nullptr;
    by_peer.clear();
}

bool serve_errands()
{
    return ours != nullptr && ours->serve(perform_here);
}

void meet_errands(pm_window *window)
{
    // Where ranks share cores, who is asked hardly ever looks.
    if (ours == nullptr || pm_crowded(core_of_ours))
        return;
    for (pm_window::Target &target : window->targets) {
        if (target.peer == nullptr || target.memory != nullptr || target.mailboxes == 0)
            continue;
        std::weak_ptr<Errands> &known = by_peer[target.peer];
        target.errands = known.lock();
        if (target.errands != nullptr)
            continue;
        auto all = static_cast<Mailboxes *>(pm_shared_view(target.peer, target.mailboxes, sizeof(Mailboxes)));
        if (all == nullptr || reinterpret_cast<std::uintptr_t>(all) % alignof(Mailboxes) != 0)
            continue;
        if (Mailbox *box = all->claim())
            known = target.errands = std::make_shared<Errands>(target.peer, all, box);
    }
}

}  // namespace pm::coll

using namespace pm::coll;

extern "C" {

int pm_errand_put(pm_window *window, int target, uint64_t offset, const void *data, size_t size)
{
    auto fill = [&](Errand &errand) { std::memcpy(errand.data.data(), data, size); };
    if (is_worth_asking(window, target, size) && ask(window, target, Errand::Kind::put, offset, size, nullptr, fill))
        return 1;
    return move(window, target, true, data, offset, size);
}

int pm_errand_get(pm_window *window, int target, uint64_t offset, void *data, size_t size)
{
    if (is_worth_asking(window, target, size) && ask(window, target, Errand::Kind::get, offset, size, data, [](Errand &) {}))
        return 1;
    return move(window, target, false, data, offset, size);
}

int pm_errand_apply(pm_window *window, int target, uint64_t offset, pm_element element, pm_operation operation, const void *origin,
                    void *result, size_t size)
{
    auto fill = [&](Errand &errand) {
        errand.head.element = static_cast<std::uint8_t>(element);
        errand.head.operation = static_cast<std::uint8_t>(operation);
        if (operation != PM_NO_OPERATION)
            std::memcpy(errand.data.data(), origin, size);
    };
    return ask(window, target, Errand::Kind::apply, offset, size, result, fill) ? 1 : not_asked(window, target);
}

int pm_errand_swap(pm_window *window, int target, uint64_t offset, pm_element element, const void *origin, const void *compare, void *result)
{
    std::size_t size = pm_element_size(element);
    auto fill = [&](Errand &errand) {
        errand.head.element = static_cast<std::uint8_t>(element);
        errand.head.operation = PM_REPLACE;
        std::memcpy(errand.data.data(), origin, size);
        std::memcpy(errand.data.data() + size, compare, size);
    };
    return ask(window, target, Errand::Kind::swap, offset, size, result, fill) ? 1 : not_asked(window, target);
}

int pm_errands_settle(pm_window *window)
{
    int settled = 1;
    for (int rank = 0; window->direct.unsettled != 0 && rank < window->setup.size; ++rank)
        settled = std::min(settled, settle(window, rank));
    return settled;
}

}  // extern "C"

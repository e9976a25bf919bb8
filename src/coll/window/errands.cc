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
    void post(void *result, std::size_t size)
    {
        Errand &errand = runner_.next();
        errand.refused = 0;
        results_[static_cast<std::size_t>(&errand - runner_.first())] = {result, size};
        runner_.post();
    }

    // Until all is done: 1, or -1 when the target is gone or would not do something.
    int settle();

  private:
    void see()
    {
        const Errand &errand = runner_.see();
        auto [place, size] = results_[static_cast<std::size_t>(&errand - runner_.first())];
        failed_ = failed_ || errand.refused != 0;
        if (place != nullptr)
            std::memcpy(place, errand.data.data(), size);
    }
    void wait();
    void pass_some()
    {
        passes_ = passes_next_ = std::min<std::uint32_t>(2 * passes_next_ + PM_ERRAND_PASSES_FIRST, PM_ERRAND_PASSES);
    }

    pm_peer *peer_;
    ErrandRunner runner_;
    std::array<std::pair<void *, std::size_t>, Mailbox::room> results_{};  // where they go
    bool failed_ = false;
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
    }
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

// Another's, in our memory. What it says is copied before it is looked at: the other may still write there.
void perform_here(Errand &theirs)
{
    const Errand::Head errand = theirs.head;
    pm_window *window = find_window(errand.window);
    theirs.refused = 1;
    if (window == nullptr || window->direct_parts.empty() || !makes_sense(errand, window->setup.bytes))
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
    Errand *errand = target.errands->next();
    if (errand == nullptr)
        return false;
    errand->head = {window->setup.id, offset, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), kind, 0, 0};
    fill(*errand);
    target.errands->post(result, size);
    note(window, target, Since::asked);
    return true;
}

// 1, or -1.
int settle(pm_window *window, int rank, Since then = Since::nothing)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    return note(window, target, then) == Since::asked ? target.errands->settle() : 1;
}

// What is longer the kernel copies as quickly; but of many the next can be filled while one is done.
bool is_worth_asking(pm_window *window, int rank, std::size_t size)
{
    pm_window::Target &target = window->targets[static_cast<std::size_t>(rank)];
    if (target.errands == nullptr || size <= PM_ERRAND_MOVE)
        return target.errands != nullptr;
    if (target.since != Since::nothing)
        return true;
    note(window, target, Since::moved);
    return false;
}

// It could not be asked: what was asked before has happened when somebody else does it.
int not_asked(pm_window *window, int rank)
{
    if (window->targets[static_cast<std::size_t>(rank)].since != Since::asked)
        return 0;
    return settle(window, rank, Since::moved) == 1 ? 0 : -1;
}

}  // namespace

// Until all is done, by whoever does it, or the target is gone.
void Errands::wait()
{
    unsigned looks = 0;
    while (!runner_.is_settled() && ++looks < PM_ERRAND_PATIENCE)
        if (looks % PM_LOOKS_BETWEEN_PROGRESS == 0)
            serve_errands();  // it may wait for us as well
    if (runner_.is_settled())
        passes_next_ = 0;
    else
        pass_some();
    while (!runner_.is_settled() && !runner_.take_back(perform_there)) {
        if (pm_has_ended(peer_)) {
            failed_ = true;
            results_ = {};  // the program may free what they were for
            return;
        }
        sched_yield();
        serve_errands();
    }
}

int Errands::settle()
{
    wait();
    while (runner_.is_settled() && runner_.unseen() != 0)
        see();
    return std::exchange(failed_, false) ? -1 : 1;
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
    bool asked = is_worth_asking(window, target, size) && ask(window, target, Errand::Kind::put, offset, size, nullptr, fill);
    return asked ? 1 : not_asked(window, target);
}

int pm_errand_get(pm_window *window, int target, uint64_t offset, void *data, size_t size)
{
    bool asked = is_worth_asking(window, target, size) && ask(window, target, Errand::Kind::get, offset, size, data, [](Errand &) {});
    return asked ? 1 : not_asked(window, target);
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

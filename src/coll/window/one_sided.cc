#include "coll/window/one_sided.h"

#include <cstring>

#include "base/tuning.h"

void pm_window::Unregister::operator()(pm_memory *memory) const
{
    pm_unregister(memory);
}

void pm_window::CloseRemote::operator()(pm_remote *remote) const
{
    pm_close_remote(remote);
}

namespace pm::coll {
namespace {

// Of the part, and then of the counts.
struct Key {
    std::uint64_t base = 0;
    std::uint64_t size = 0;  // 0: by messages only
    std::byte bytes[PM_MEMORY_KEY_MAX] = {};
};
static_assert(PM_WINDOW_CARD + 2 * sizeof(Key) == PM_WINDOW_CARD_MAX);

Key key_of(void *base, const pm_memory *memory)
{
    Key key;
    key.base = reinterpret_cast<std::uint64_t>(base);
    key.size = memory != nullptr ? pm_memory_key(memory, key.bytes) : 0;
    return key;
}

pm_window::Target &target_of(pm_window *window, int rank)
{
    return window->targets[static_cast<std::size_t>(rank)];
}

pm_window::Remote open(pm_peer *peer, const Key &key)
{
    return pm_window::Remote(key.size != 0 && key.size <= sizeof key.bytes ? pm_open_remote(peer, key.bytes, key.size) : nullptr);
}

// Where the target's processor has to help anyway, a message of ours does the same with fewer on the way.
bool is_better_sent(const pm_remote *remote, std::size_t size)
{
    return size <= PM_SHORT_MOVE && !pm_writes_by_itself(remote);
}

std::uint64_t place_of(const pm_after &after)
{
    std::size_t which = static_cast<std::size_t>(after.value);
    return after.kind == PM_AFTER_COUNT ? offsetof(WindowBoard::Counts, counters) + which * sizeof(WindowBoard::Counts::counters[0])
                                        : offsetof(WindowBoard::Counts, notifications) + which * sizeof(WindowBoard::Counts::notifications[0]);
}

}  // namespace

bool wants_put(Way way, std::size_t size, const pm_after &after, bool whole, bool by_itself)
{
    if (!whole || size == 0 || (after.kind != PM_AFTER_NOTIFY && after.kind != PM_AFTER_COUNT))
        return false;
    return way == Way::put || (way == Way::best && by_itself && size > PM_LONG_WRITE);
}

std::size_t register_part(pm_core *core, pm_window *window, std::byte *card)
{
    const pm_window_setup &setup = window->setup;
    for (int rank = 0; setup.registers && !window->one_sided && rank < setup.size; ++rank)
        window->one_sided = pm_may_be_one_sided(setup.peer(setup.context, rank)) != 0;
    if (!window->one_sided)
        return 0;
    WindowBoard::Counts *counts = &window->board->by_devices;
    window->part.reset(pm_register(core, setup.base, setup.bytes));
    // What two devices add to one place is not atomic: where there are several, messages do it.
    window->counts.reset(pm_one_sided_networks(core) == 1 ? pm_register(core, counts, sizeof *counts) : nullptr);
    const Key keys[] = {key_of(setup.base, window->part.get()), key_of(counts, window->counts.get())};
    std::memcpy(card, keys, sizeof keys);
    return sizeof keys;
}

void meet_part(pm_window *window, int rank, const std::byte *card)
{
    if (!window->one_sided || rank == window->setup.rank)
        return;
    pm_window::Target &target = target_of(window, rank);
    Key keys[2];
    std::memcpy(keys, card, sizeof keys);
    target.part = open(target.peer, keys[0]);
    target.counts = open(target.peer, keys[1]);
    target.counts_base = keys[1].base;
}

int put_part(pm_window *window, int rank, std::uint64_t offset, const void *data, std::size_t size, const pm_after *after)
{
    pm_window::Target &target = target_of(window, rank);
    if (target.part == nullptr || (after != nullptr && target.counts == nullptr) || (after == nullptr && is_better_sent(target.part.get(), size)))
        return PM_QUEUED;
    int started = pm_put(target.part.get(), target.base + offset, data, size);
    window->devices_used |= started == PM_OK;
    if (started != PM_OK || after == nullptr)
        return started;
    // Where a put went, an addition goes, too.
    return pm_add_behind(target.counts.get(), target.counts_base + place_of(*after), 1) == PM_OK ? PM_OK : PM_FAILED;
}

int get_part(pm_window *window, int rank, std::uint64_t offset, void *data, std::size_t size)
{
    pm_window::Target &target = target_of(window, rank);
    if (target.part == nullptr || is_better_sent(target.part.get(), size))
        return PM_QUEUED;
    int started = pm_get(target.part.get(), target.base + offset, data, size);
    window->devices_used |= started == PM_OK;
    return started;
}

bool parts_done(pm_core *core, pm_window *window)
{
    if (window->devices_used && pm_one_sided_done(core))
        window->devices_used = false;
    return !window->devices_used;
}

}  // namespace pm::coll

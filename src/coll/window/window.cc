// The windows of this process, on the composite device.
#include "coll/window/window.h"

#include <string>
#include <string_view>

#include "base/tuning.h"
#include "coll/boards.h"
#include "coll/handler.h"
#include "coll/tags.h"
#include "coll/window/engine.h"
#include "coll/window/errands.h"
#include "coll/window/one_sided.h"
#include "netmod/core/failed.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"

size_t pm_counters_armed;

namespace {

using pm::coll::WindowBoard;
using pm::coll::WindowMessage;

class CoreTransport : public pm::coll::WindowTransport {
  public:
    explicit CoreTransport(pm_core *core_of_all) : core(core_of_all), boards_(core) {}

    int send(pm_peer *peer, const WindowMessage &message, const void *data, std::size_t size, void *cookie) override
    {
        return pm_send(peer, pm::coll::window_tag, &message, sizeof message, data, size, cookie);
    }
    void ring(pm_peer *peer) override { pm_ring(peer); }
    void nudge(pm_peer *peer) override { pm_nudge(peer); }
    void failed(const std::string &text) override { pm_give_up(core, text.empty() ? pm_error_text() : text.c_str()); }

    WindowBoard *make_board() override { return boards_.make(); }
    void free_board(WindowBoard *board) override { boards_.free(board); }
    WindowBoard *view(pm_peer *peer, std::uint64_t address) override { return boards_.view(peer, address); }
    void dropped(const pm_peer *peer) override { pm_count_dropped(core, peer); }
    std::uint64_t mailboxes() override { return pm::coll::open_mailboxes(core); }

    pm_core *const core;

  private:
    pm::coll::Boards<WindowBoard> boards_;
};

using pm::coll::Way;
Way way;
constexpr const char *names[] = {"auto", "message", "put"};

CoreTransport *transport;
pm::coll::WindowEngine *engine;

void update_armed()
{
    pm_counters_armed = engine->armed() + pm::coll::has_mailboxes();
}

bool found(bool something)
{
    if (something)
        pm_wait_restart();
    return something;
}

}  // namespace

pm_window *pm::coll::find_window(std::uint64_t id)
{
    return engine->find(id);
}

extern "C" {

int pm_windows_open(pm_core *core, const char *text)
{
    transport = new CoreTransport(core);
    engine = new pm::coll::WindowEngine(*transport);
    for (Way each : {Way::best, Way::message, Way::put})
        if (std::string_view(text) == names[static_cast<int>(each)]) {
            way = each;
            return pm::coll::handle<engine>(core, pm::coll::window_tag, "window", sizeof(WindowMessage));
        }
    return pm::failed({pm::Status::invalid, std::string("unknown value \"") + text +
                                                "\" of MPIR_CVAR_CH4_COMPOSITE_NOTIFY; known are auto, message, put"});
}

void pm_windows_close(void)
{
    pm::coll::close_mailboxes();
    delete engine;
    delete transport;
    engine = nullptr;
    pm_counters_armed = 0;
}

pm_window *pm_window_open(const pm_window_setup *setup, void *card, size_t *card_size)
{
    pm_window *window = engine->open(*setup, card);
    update_armed();
    *card_size = PM_WINDOW_CARD + pm::coll::register_part(transport->core, window, static_cast<std::byte *>(card) + PM_WINDOW_CARD);
    return window;
}

void pm_window_meet(pm_window *window, int rank, const void *card)
{
    engine->meet(window, rank, card);
    pm::coll::meet_part(window, rank, static_cast<const std::byte *>(card) + PM_WINDOW_CARD);
}

void pm_window_close(pm_window *window)
{
    // Whoever frees a window in an epoch has done wrong, but nothing of it may come to memory, or look for a window, that is gone.
    (void)pm_errands_settle(window);
    engine->close(window);
    update_armed();
}

int pm_window_is_one_sided(const pm_window *window)
{
    return window->one_sided;
}

int pm_window_put_alone(pm_window *window, int target, uint64_t offset, const void *data, size_t size)
{
    return pm::coll::put_part(window, target, offset, data, size, nullptr);
}

int pm_window_get_alone(pm_window *window, int target, uint64_t offset, void *data, size_t size)
{
    return pm::coll::get_part(window, target, offset, data, size);
}

int pm_window_alone_done(pm_window *window)
{
    return pm::coll::parts_done(transport->core, window);
}

uint64_t pm_window_offset(const pm_window *window, int target, int64_t displacement)
{
    uint64_t offset;
    bool overflow = __builtin_mul_overflow(window->targets[static_cast<std::size_t>(target)].unit, static_cast<uint64_t>(displacement), &offset);
    constexpr uint64_t beyond = uint64_t{1} << 63;
    return overflow || offset > beyond ? beyond : offset;
}

int pm_window_is_aligned(const pm_window *window, int target, uint64_t offset)
{
    return (window->targets[static_cast<std::size_t>(target)].base + offset) % alignof(int) == 0;
}

int pm_window_holds(const pm_window *window, int target, uint64_t offset, uint64_t size)
{
    uint64_t bytes = window->targets[static_cast<std::size_t>(target)].bytes;
    return offset <= bytes && size <= bytes - offset;
}

int pm_window_store(pm_window *window, int target, uint64_t offset, const void *data, size_t size, const pm_after *after)
{
    return engine->store(window, target, offset, data, size, *after);
}

int pm_window_load(pm_window *window, int target, uint64_t offset, void *data, size_t size, int notification)
{
    return engine->load(window, target, offset, data, size, notification);
}

int pm_window_put(pm_window *window, int target, uint64_t offset, const void *data, size_t size, const pm_after *after, int whole)
{
    const pm_window::Remote &part = window->targets[static_cast<std::size_t>(target)].part;
    if (part != nullptr && pm::coll::wants_put(way, size, *after, whole != 0, pm_writes_by_itself(part.get()) != 0))
        if (int put = pm::coll::put_part(window, target, offset, data, size, after); put != PM_QUEUED)
            return put;
    return engine->put(window, target, offset, data, size, *after);
}

int pm_window_get(pm_window *window, int target, uint64_t offset, void *data, size_t size, int notification)
{
    return engine->get(window, target, offset, data, size, notification);
}

int pm_window_copy(pm_window *window, int source, uint64_t source_offset, int target, uint64_t target_offset, size_t size,
                   const pm_after *after)
{
    return engine->copy(window, source, source_offset, target, target_offset, size, *after);
}

int pm_window_sync(pm_window *window, volatile int *flag)
{
    return engine->sync(window, flag);
}

void pm_window_forget(pm_window *window, const volatile int *flag)
{
    engine->forget(window, flag);
}

int pm_window_is_clean(const pm_window *window)
{
    return window->unknown.empty();
}

int pm_window_take_any(pm_window *window, int first, int count, int *which)
{
    for (int i = first; i < first + count; ++i)
        if (window->take(i)) {
            *which = i;
            return found(true);
        }
    return 0;
}

int pm_window_take_count(pm_window *window, int counter, int arrivals)
{
    return found(window->take_count(counter, static_cast<std::uint32_t>(arrivals)));
}

int pm_window_looks(const pm_window *window)
{
    return !pm_crowded(transport->core) && window->near ? PM_LOOKS_BETWEEN_PROGRESS : 1;
}

int pm_window_arm(pm_window *window, int counter, int arrivals, volatile int *flag)
{
    bool armed = engine->arm(window, counter, arrivals, flag);
    update_armed();
    return armed;
}

int pm_window_is_armed(const pm_window *window, int counter)
{
    return engine->is_armed(window, counter);
}

void pm_windows_poll(void)
{
    engine->poll();
    if (pm::coll::serve_errands())
        pm_wait_restart();  // there may be more
    update_armed();
}

void pm_window_discard(pm_window *window, int discard)
{
    window->board->discard.store(discard != 0, std::memory_order_relaxed);
}

int pm_window_offer(pm_window *window, int target, int key, const void *data, size_t size, volatile int *flag)
{
    return engine->offer(window, target, key, data, size, flag);
}

int pm_window_accept(pm_window *window, int source, int key, uint64_t offset, size_t room, volatile int *flag)
{
    return engine->accept(window, source, key, offset, room, flag);
}

}  // extern "C"

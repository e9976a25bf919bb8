// The engine of this process, on the composite device.
#include "coll/barrier/barrier.h"

#include <cstring>

#include "coll/barrier/engine.h"
#include "coll/barrier/news.h"
#include "coll/boards.h"
#include "coll/tags.h"
#include "netmod/core/handlers.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"

size_t pm_barriers_in_flight;

namespace {

using pm::coll::BarrierBoard;
using pm::coll::BarrierMessage;

class CoreTransport : public pm::coll::BarrierTransport {
  public:
    explicit CoreTransport(pm_core *core) : core_(core), boards_(core) {}

    bool send(pm_peer *peer, const BarrierMessage &message) override
    {
        return pm_send(peer, pm::coll::barrier_tag, &message, sizeof message, nullptr, 0, nullptr) != PM_FAILED;
    }
    bool on_host(const pm_peer *peer) override { return pm_on_host(peer) != 0; }
    bool has_ended(const pm_peer *peer) override { return pm_has_ended(peer) != 0; }
    void ring(pm_peer *peer) override { pm_ring(peer); }
    void nudge(pm_peer *peer) override { pm_nudge(peer); }
    void failed(const std::string &text) override { pm_give_up(core_, text.empty() ? pm_error_text() : text.c_str()); }

    BarrierBoard *make_board() override { return boards_.make(); }
    void free_board(BarrierBoard *board) override { boards_.free(board); }
    BarrierBoard *view(pm_peer *peer, std::uint64_t address) override { return boards_.view(peer, address); }
    void dropped(const pm_peer *peer) override { pm_count_dropped(core_, peer); }

  private:
    pm_core *core_;
    pm::coll::Boards<BarrierBoard> boards_;
};

CoreTransport *transport;
pm::coll::BarrierEngine *engine;

const pm_handler handler{
    .name = "barrier",
    .smallest_header = sizeof(BarrierMessage),
    .for_strangers = 0,
    .arrived = [](pm_core *, const pm_envelope *envelope, void *, std::size_t, std::size_t) -> void * {
        BarrierMessage message;
        std::memcpy(&message, envelope->header, sizeof message);
        engine->on_message(envelope->source, message);
        return nullptr;
    },
    .more = nullptr,
    .place = nullptr,
    .placed = nullptr,
    .offered = nullptr,
    .sent = nullptr,
};

}  // namespace

extern "C" {

void pm_barrier_open(pm_core *core, void (*ended)(void *cookie))
{
    transport = new CoreTransport(core);
    engine = new pm::coll::BarrierEngine(*transport, ended);
    pm_handle(core, pm::coll::barrier_tag, &handler);
}

void pm_barrier_close(void)
{
    delete engine;
    delete transport;
    engine = nullptr;
    pm_barriers_in_flight = 0;
}

void pm_barrier_group_open(const pm_group_setup *setup)
{
    engine->open(*setup);
}

void pm_barrier_group_close(uint32_t id)
{
    if (engine != nullptr)
        engine->close(id);
}

void pm_barrier_start(uint32_t id, volatile int *flag, void *cookie)
{
    engine->start(id, flag, cookie);
    pm_barriers_in_flight = engine->in_flight();
}

int pm_barrier_is_in_flight(uint32_t id, const volatile int *flag)
{
    return engine->is_in_flight(id, flag);
}

void pm_barrier_poll(void)
{
    if (engine->poll())
        pm_wait_restart();
    pm_barriers_in_flight = engine->in_flight();
}

int pm_barrier_has_news(void)
{
    return pm_barriers_in_flight != 0 && engine->has_news();
}

void pm_barrier_attend(void)
{
    if (engine != nullptr)
        engine->attend();
}

}  // extern "C"

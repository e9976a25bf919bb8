#include "coll/mcast/mcast.h"

#include <sys/random.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>

#include "base/tuning.h"
#include "coll/boards.h"
#include "coll/handler.h"
#include "coll/mcast/engine.h"
#include "coll/mcast/outbox.h"
#include "coll/mcast/wire.h"
#include "coll/tags.h"
#include "netmod/core/failed.h"
#include "netmod/core/setup.h"
#include "netmod/core/shared.h"

int pm_mcast_watches;

namespace {

class CoreTransport : public pm::coll::Transport {
  public:
    CoreTransport(pm_core *core, int (*may_open)(std::uint32_t)) : core_(core), may_open_(may_open), outboxes_(core) {}

    std::size_t largest_header() override { return pm_largest_header(core_); }
    int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override
    {
        return pm_send(peer, pm::coll::mcast_tag, header, header_size, data, size, cookie);
    }
    bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) override
    {
        return pm_send_now(peer, pm::coll::mcast_tag, header, header_size, data, size) != 0;
    }
    bool on_host(const pm_peer *peer) override { return pm_on_host(peer) != 0; }
    bool has_ended(const pm_peer *peer) override { return pm_has_ended(peer) != 0; }
    void *allocate_shared(std::size_t size) override { return pm_shared_alloc(core_, size); }
    void free_shared(void *block) override { pm_shared_free(core_, block); }
    pm::coll::Outbox *make_outbox() override { return outboxes_.make(); }
    void free_outbox(pm::coll::Outbox *outbox) override { outboxes_.free(outbox); }
    void nudge(pm_peer *peer) override { pm_nudge(peer); }
    void watches(bool any) override { pm_mcast_watches = any; }
    void *view(pm_peer *peer, std::uint64_t address, std::size_t size) override { return pm_shared_view(peer, address, size); }
    bool may_open(std::uint32_t group) override { return may_open_(group) != 0; }
    void dropped(const pm_peer *peer) override { pm_count_dropped(core_, peer); }
    void failed(const std::string &text) override { pm_give_up(core_, text.empty() ? pm_error_text() : text.c_str()); }

  private:
    pm_core *core_;
    int (*may_open_)(std::uint32_t);
    pm::coll::Boards<pm::coll::Outbox> outboxes_;
};

CoreTransport *transport;
pm::coll::Engine *engine;

}  // namespace

extern "C" {

int pm_mcast_open(pm_core *core, const pm_mcast_setup *setup)
{
    pm::coll::Settings settings;
    if (std::string_view(setup->algorithm) != "auto") {
        pm::Result<pm::coll::Algorithm> algorithm = pm::coll::parse_algorithm(setup->algorithm);
        if (!algorithm.ok())
            return pm::failed(algorithm.error());
        settings.choose = false;
        settings.algorithm = algorithm.value();
    }
    settings.thresholds = {setup->tree_limit, setup->doubling_limit, setup->chain_limit};
    settings.shared_limit = setup->shared_limit;
    settings.block = PM_SHARED_LIMIT - sizeof(pm::coll::BlockHead);
    settings.piece = std::min<std::size_t>(setup->piece, PM_SHARED_LIMIT - sizeof(pm::coll::BlockHead));
    settings.fanout = static_cast<std::uint32_t>(setup->fanout);
    settings.sent = setup->sent;
    settings.received = setup->received;
    std::uint64_t origin = 0;
    if (getrandom(&origin, sizeof origin, 0) != sizeof origin)
        return pm::failed(pm::system_error("getrandom", errno));
    transport = new CoreTransport(core, setup->may_open);
    engine = new pm::coll::Engine(settings, *transport, origin);
    return pm::coll::handle<engine>(core, pm::coll::mcast_tag, "mcast", sizeof(pm::coll::WireHeader));
}

void pm_mcast_close(void)
{
    delete engine;
    delete transport;
    engine = nullptr;
    pm_mcast_watches = 0;
}

pm_group *pm_group_open(const pm_group_setup *setup)
{
    return engine->open_group(*setup);
}

void pm_group_close(pm_group *group)
{
    if (engine != nullptr)
        engine->close_group(group);
}

int pm_mcast_send(pm_group *group, const void *data, size_t size, const uint64_t *members, int tag, int delivered, void *cookie)
{
    return engine->send(group, data, size, members, tag, delivered != 0, cookie);
}

void pm_mcast_receive(pm_group *group, void *buffer, size_t room, int source, int tag, uint64_t *members, void *cookie)
{
    engine->receive(group, buffer, room, source, tag, members, cookie);
}

int pm_mcast_probe(pm_group *group, int source, int tag, int *found_source, int *found_tag, size_t *size)
{
    return engine->probe(group, source, tag, found_source, found_tag, size);
}

int pm_mcast_owes(void)
{
    return engine != nullptr && engine->owes();
}

int pm_mcast_is_short(size_t size)
{
    return size <= PM_SEND_NOW_LIMIT;
}

pm_backlog pm_mcast_backlog(void)
{
    std::size_t bytes = engine->backlog();
    return bytes == 0 ? PM_BACKLOG_NONE : bytes <= PM_MCAST_BACKLOG ? PM_BACKLOG_SOME : PM_BACKLOG_MUCH;
}

void pm_mcast_poll(void)
{
    if (engine->poll())
        pm_wait_restart();
}

int pm_mcast_has_news(void)
{
    return pm_mcast_watches && engine->has_news();
}

void pm_mcast_attend(void)
{
    if (engine != nullptr)
        engine->attend(std::chrono::steady_clock::now().time_since_epoch());
}

}  // extern "C"

// The engine of this process, on the composite device.
#include "coll/am/am.h"

#include <string>

#include "coll/am/engine.h"
#include "coll/handler.h"
#include "coll/tags.h"
#include "netmod/core/failed.h"
#include "netmod/core/setup.h"

int pm_am_pending;

namespace {

class CoreTransport : public pm::coll::AmTransport {
  public:
    explicit CoreTransport(pm_core *core) : core_(core) {}

    int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) override
    {
        return pm_send(peer, pm::coll::am_tag, header, header_size, data, size, cookie);
    }
    bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) override
    {
        return pm_send_now(peer, pm::coll::am_tag, header, header_size, data, size) != 0;
    }
    void dropped(const pm_peer *peer) override { pm_count_dropped(core_, peer); }
    void failed(const std::string &text) override { pm_give_up(core_, text.c_str()); }

  private:
    pm_core *core_;
};

// What an upcall may change is told when it ends.
class Engine : public pm::coll::AmEngine {
  public:
    using AmEngine::AmEngine;
    void placed(void *cookie)
    {
        AmEngine::placed(cookie);
        pm_am_pending = pending();
    }
    void more(void *cookie, const void *piece, std::size_t piece_size)
    {
        AmEngine::more(cookie, piece, piece_size);
        pm_am_pending = pending();
    }
};

CoreTransport *transport;
Engine *engine;

}  // namespace

extern "C" {

int pm_am_open(pm_core *core, const pm_am_setup *setup)
{
    transport = new CoreTransport(core);
    engine = new Engine(*transport, *setup);
    return pm::coll::handle<engine>(core, pm::coll::am_tag, "active messages", sizeof(pm::coll::AmHeader));
}

void pm_am_close(void)
{
    delete engine;
    delete transport;
    engine = nullptr;
    pm_am_pending = 0;
}

void pm_am_group_open(const pm_group_setup *setup)
{
    engine->open(*setup);
}

void pm_am_group_close(uint32_t id)
{
    if (engine == nullptr)
        return;
    engine->close(id);
    pm_am_pending = engine->pending();
}

int pm_am_register(uint32_t group, const char *name, const pm_am_user *user, int *number)
{
    std::string why = engine->add(group, name, *user, number);
    return why.empty() ? PM_OK : pm::failed({pm::Status::invalid, why});
}

int pm_am_deregister(uint32_t group, int number)
{
    return engine->remove(group, number);
}

int pm_am_is_placing(uint32_t group, int number)
{
    return engine->is_placing(group, number);
}

int pm_am_send_now(pm_peer *peer, const pm_am_post *post)
{
    const pm::coll::AmOutgoing outgoing(*post);
    return pm_send_now(peer, pm::coll::am_tag, outgoing.bytes, outgoing.length, post->data, post->size);
}

int pm_am_send(const pm_am_post *post, int to, const pm_am_end *end)
{
    int status = engine->send(*post, to, *end);
    pm_am_pending = engine->pending();
    return status;
}

int pm_am_mcast(const pm_am_post *post, const uint64_t *members, const pm_am_end *end)
{
    int status = engine->mcast(*post, members, *end);
    pm_am_pending = engine->pending();
    return status;
}

void pm_am_forget(const volatile int *flag)
{
    engine->forget(flag);
}

void pm_am_poll(void)
{
    if (engine->poll())
        pm_wait_restart();
    pm_am_pending = engine->pending();
}

void pm_am_attend(void)
{
    if (engine != nullptr)
        engine->attend();
}

}  // extern "C"

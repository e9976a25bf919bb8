// The engine of this process, on the composite device.
#include "coll/exchange/exchange.h"

#include "coll/exchange/engine.h"
#include "coll/tags.h"
#include "netmod/core/handlers.h"

namespace {

pm::coll::ExchangeEngine *engine;

}  // namespace

extern "C" {

int pm_exchange_open(pm_core *core)
{
    engine = new pm::coll::ExchangeEngine;
    pm_handler handler{};
    handler.name = "exchange";
    handler.smallest_header = pm::coll::ExchangeMessage::smallest;
    handler.for_strangers = 1;  // somebody has connected to all others before we have
    handler.arrived = [](pm_core *at, const pm_envelope *envelope, void *, std::size_t, std::size_t) -> void * {
        if (!engine->arrived(envelope->header, envelope->header_size))
            pm_count_dropped(at, envelope->source);
        return nullptr;
    };
    return pm_handle(core, pm::coll::exchange_tag, &handler);
}

void pm_exchange_close(void)
{
    delete engine;
    engine = nullptr;
}

pm_exchange *pm_exchange_start(const pm_group_setup *group, const void *bytes, size_t size)
{
    pm::coll::ExchangeMessage message;
    pm_exchange *exchange = engine->start(group->id, group->rank, group->size, bytes, size, &message);
    for (int i = 1; i < group->size; ++i) {
        pm_peer *peer = group->peer(group->context, (group->rank + i) % group->size);
        if (pm_send(peer, pm::coll::exchange_tag, &message, message.length(), nullptr, 0, nullptr) == PM_FAILED)
            return nullptr;
    }
    return exchange;
}

int pm_exchange_is_done(const pm_exchange *exchange)
{
    return exchange->is_done();
}

const char (*pm_exchange_end(pm_exchange *exchange))[PM_EXCHANGE_BYTES_LIMIT]
{
    return pm::coll::ExchangeEngine::end(exchange);
}

void pm_exchange_forget(uint32_t group)
{
    if (engine != nullptr)
        engine->forget(group);
}

}  // extern "C"

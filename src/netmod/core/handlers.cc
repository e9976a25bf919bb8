#include "netmod/core/handlers.h"

#include <string>

#include "netmod/core/state.h"

using pm::failed;

extern "C" int pm_handle(pm_core *core, int tag, const pm_handler *handler)
{
    std::string what = std::string("the messages of \"") + handler->name + "\" cannot have tag " + std::to_string(tag);
    if (core == nullptr)
        return PM_FAILED;  // pm_open() has said why
    if (tag < 0 || tag >= PM_TAGS_MAX)
        return failed({pm::Status::invalid, what + "; tags are 0 to " + std::to_string(PM_TAGS_MAX - 1)});
    pm_handler &place = core->handlers[static_cast<std::size_t>(tag)];
    if (place.name != nullptr)
        return failed({pm::Status::invalid, what + ": it is that of \"" + place.name + "\""});
    place = *handler;
    return PM_OK;
}

extern "C" void pm_count_dropped(pm_core *core, const pm_peer *source)
{
    // A stranger's came by whatever listens to strangers first.
    const pm::Channel *channel = source != nullptr ? source->used->channel : core->links.channels.front().get();
    core->messages_dropped[channel->number]++;
}

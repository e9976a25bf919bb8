// Start and end of the core, and the words for what went wrong.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "netmod/core/setup.h"
#include "netmod/core/state.h"
#include "netmod/report/complaints.h"

using pm::failed;

static thread_local std::string error_text;

void pm::tell_missing(pm_core *core)
{
    if (core->card.process != 0 || std::exchange(core->missing_told, true))
        return;
    for (const std::string &missing : core->links.missing)
        std::fprintf(stderr, "composite: on host %s: %s\n", core->card.host.c_str(), missing.c_str());
}

int pm::failed(const Error &error)
{
    error_text = error.text;
    return PM_FAILED;
}

extern "C" {

const char *pm_error_text(void)
{
    return error_text.c_str();
}

// Of the first variable that is wrong.
static std::string environment_error;

void pm_check_environment(void)
{
    environment_error.clear();
    std::vector<std::string> wrong;
    for (char **entry = environ; entry != nullptr && *entry != nullptr; ++entry)
        if (pm::Error error = pm::check_variable(*entry)) {
            if (wrong.empty())
                environment_error = error.text;
            wrong.push_back(std::string(*entry).substr(0, std::string_view(*entry).find('=')));
        }
    for (const std::string &name : wrong)
        unsetenv(name.c_str());
}

static pm_core *not_opened(const pm::Error &error)
{
    failed(error);
    return nullptr;
}

pm_core *pm_open(const pm_setup *setup)
{
    if (!environment_error.empty())
        return not_opened({pm::Status::invalid, environment_error});
    auto opening = std::make_unique<pm_core>();
    auto mode = pm::parse_wait_mode(setup->wait);
    if (!mode.ok())
        return not_opened(mode.error());
    auto background_mode = pm::parse_wait_mode(setup->background_wait, "MPIR_CVAR_CH4_COMPOSITE_PROGRESS_WAIT");
    if (!background_mode.ok())
        return not_opened(background_mode.error());
    auto rendezvous = pm::parse_rendezvous(setup->rendezvous);
    if (!rendezvous.ok())
        return not_opened(rendezvous.error());
    for (const pm::Error &error : {pm::check_priority(setup->priority), pm::check_routes(setup->routes), pm::check_report(setup->report)})
        if (error)
            return not_opened(error);
    pm::Sink sinks[pm::channels_max];
    pm::make_sinks(opening.get(), sinks);
    auto links = pm::open_links(*setup, sinks);
    if (!links.ok())
        return not_opened(links.error());

    opening->links = std::move(links.value());
    opening->watches = std::ranges::any_of(opening->links.channels, [](const auto &each) { return each->watching != nullptr; });
    opening->card = opening->links.card(static_cast<std::uint32_t>(setup->process));
    for (const std::string &name : opening->card.fit())
        opening->links.missing.push_back("network " + name + " is not used: there are more than other processes can be told of");
    opening->wait_mode = mode.value();
    opening->background_mode = background_mode.value();
    opening->rendezvous = rendezvous.value();
    opening->ranks_on_host = setup->ranks_on_host;
    opening->silence_limit = setup->udp_silence_limit > 0
                                 ? std::chrono::milliseconds(static_cast<long>(std::ceil(setup->udp_silence_limit * 1000)))
                                 : pm::never;
    opening->idle = setup->idle;
    opening->owes = setup->owes;
    opening->has_news = setup->has_news;
    // Where the user chose, a choice that did not come true is worth a line.
    if (std::string_view(setup->devices) != "auto" || std::string_view(setup->networks) != "auto")
        pm::tell_missing(opening.get());
    return opening.release();
}

size_t pm_complaint(const char *text, void *card)
{
    std::size_t size = std::min<std::size_t>(std::strlen(text), PM_CARD_MAX - 1);
    std::byte *bytes = static_cast<std::byte *>(card);
    *bytes = std::byte{0};
    std::memcpy(bytes + 1, text, size);
    return size + 1;
}

char *pm_complaints(const void *const *cards, const size_t *sizes, int count)
{
    std::vector<std::string> complaints(count);
    for (int rank = 0; rank < count; ++rank) {
        const char *card = static_cast<const char *>(cards[rank]);
        if (sizes[rank] == 0 || *card == 0)
            complaints[rank] = sizes[rank] < 2 ? "it did not say why" : std::string(card + 1, sizes[rank] - 1);
    }
    std::string text = pm::complaints_in_words(complaints);
    return text.empty() ? nullptr : strdup(text.c_str());
}

void pm_allow_threads(pm_core *core)
{
    core->threads = true;
    if (core->links.direct != nullptr)
        core->links.direct->attend_senders(false, false);
}

void pm_close(pm_core *core)
{
    for (const auto &channel : core->links.channels)
        channel->leave();
    for (auto &[id, peer] : core->peers)
        pm::disconnect(peer.get());
    for (auto &peer : core->measured)
        pm::disconnect(peer.get());
    delete core;
}

int pm_must_linger(const pm_core *core)
{
    return core->must_linger;
}

}  // extern "C"

#include "netmod/composite/settings.h"

#include <algorithm>

#include "base/joined.h"

namespace pm {

const std::vector<std::string> &known_devices()
{
#ifdef PM_HAVE_UCX
    static const std::vector<std::string> devices{"shmem", "ucx", "udp"};
#else
    static const std::vector<std::string> devices{"shmem", "udp"};
#endif
    return devices;
}

Result<std::vector<std::string>> parse_devices(std::string_view text)
{
    if (text == "auto")
        return known_devices();
    std::vector<std::string> devices;
    while (true) {
        std::size_t comma = text.find(',');
        std::string word(text.substr(0, comma));
        if (std::ranges::find(known_devices(), word) == known_devices().end())
            return Error{Status::invalid, "unknown device \"" + word + "\" in MPIR_CVAR_CH4_COMPOSITE_DEVICES; known are " +
                                              joined(known_devices(), ", ") + ", or auto for all of them"};
        if (std::ranges::find(devices, word) != devices.end())
            return Error{Status::invalid, "device \"" + word + "\" is named twice in MPIR_CVAR_CH4_COMPOSITE_DEVICES"};
        devices.push_back(word);
        if (comma == std::string_view::npos)
            return devices;
        text.remove_prefix(comma + 1);
    }
}

Result<Rendezvous> parse_rendezvous(std::string_view text)
{
    if (text == "auto")
        return Rendezvous::automatic;
    if (text == "pipeline")
        return Rendezvous::pipeline;
    if (text == "cma")
        return Rendezvous::pull;
    return Error{Status::invalid,
                 "unknown rendezvous \"" + std::string(text) +
                     "\" in MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV; known are auto, pipeline, cma"};
}

Error check_priority(std::string_view text)
{
    if (text == "given" || text == "measure")
        return {};
    return {Status::invalid, "unknown priority \"" + std::string(text) +
                                 "\" in MPIR_CVAR_CH4_COMPOSITE_PRIORITY; known are given, measure"};
}

Error check_routes(std::string_view text)
{
    for (std::string_view word : {"off", "init", "text", "json"})
        if (text == word)
            return {};
    for (std::string_view ending : {".txt", ".json", ".html"})
        if (text.size() > ending.size() && text.ends_with(ending))
            return {};
    return {Status::invalid, "unknown value \"" + std::string(text) + "\" of MPIR_CVAR_CH4_COMPOSITE_ROUTES; known are off, init, text, "
                             "json, and the name of a file that ends in .txt, .json or .html"};
}

}  // namespace pm

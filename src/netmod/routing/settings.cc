#include "netmod/routing/settings.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "base/joined.h"

namespace pm {
namespace {

using enum Setting::Kind;

constexpr long most_bytes = 2'147'483'647;
const std::string family = "CH4_COMPOSITE_";

// How many letters must be changed, added or left out to make one word of another.
std::size_t distance(std::string_view a, std::string_view b)
{
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 0; i < a.size(); ++i) {
        std::size_t diagonal = row[0]++;
        for (std::size_t j = 0; j < b.size(); ++j) {
            std::size_t changed = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            row[j + 1] = std::min({changed, diagonal + 1, row[j] + 1});
        }
    }
    return row.back();
}

Error unknown_setting(const std::string &prefix, const std::string &name)
{
    std::string nearest;
    std::size_t best = std::max<std::size_t>(name.size() / 2, 3);
    for (const Setting &each : known_settings())
        if (std::size_t steps = distance(name, each.name); steps < best) {
            best = steps;
            nearest = each.name;
        }
    return {Status::invalid, prefix + name + " in the environment is no setting of this library" +
                                 (nearest.empty() ? "" : "; did you mean " + prefix + nearest + "?") +
                                 (nearest.empty() ? "; " : " ") + "man 7 mpich-composite and README.md list them"};
}

std::string allowed_values(const Setting &setting)
{
    if (setting.kind == flag)
        return "0 or 1 (no, yes, false, true, off, on)";
    std::string range = setting.kind == seconds ? "a number of seconds" : "a whole number";
    range += " from " + std::to_string(setting.least) + " to " + std::to_string(setting.most);
    return setting.meaning_of_zero == nullptr ? range : range + "; 0 means " + setting.meaning_of_zero;
}

bool makes_sense(const Setting &setting, std::string_view value)
{
    static constexpr std::string_view flags[] = {"0",  "no", "NO", "false", "FALSE", "off", "OFF",
                                                 "1", "yes", "YES", "true", "TRUE", "on", "ON"};
    if (setting.kind == flag)
        return std::ranges::find(flags, value) != std::end(flags);
    if (setting.kind == words)
        return true;
    double number = 0;
    long whole = 0;
    const char *end = value.data() + value.size();
    auto [stop, error] = setting.kind == seconds ? std::from_chars(value.data(), end, number, std::chars_format::fixed)
                                                 : std::from_chars(value.data(), end, whole);
    if (setting.kind == count)
        number = static_cast<double>(whole);
    return error == std::errc() && stop == end && number >= static_cast<double>(setting.least) && number <= static_cast<double>(setting.most);
}

bool names_a_file(std::string_view text)
{
    for (std::string_view ending : {".txt", ".json", ".html"})
        if (text.size() > ending.size() && text.ends_with(ending))
            return true;
    return false;
}

}  // namespace

const std::vector<Setting> &known_settings()
{
    static const std::vector<Setting> settings{
        {"DEVICES"},
        {"NETWORKS"},
        {"PRIORITY"},
        {"ROUTES"},
        {"WAIT"},
        {"PROGRESS_WAIT"},
        {"SHMEM_RNDV"},
        {"SHMEM_BACKING"},
        {"UDP_INTERFACES"},
        {"UDP_PORTS"},
        {"UDP_GUARD"},
        {"UDP_SILENCE_LIMIT", seconds, 0, 1'000'000, "never"},
        {"UDP_RECOVERY"},
        {"UDP_SEGMENTATION"},
        {"REPORT"},
        {"MCAST_ALGORITHM"},
        {"MCAST_TREE_LIMIT", count, 0, most_bytes, "no multicast by a tree"},
        {"MCAST_DOUBLING_LIMIT", count, 0, most_bytes, "none by recursive doubling"},
        {"MCAST_CHAIN_LIMIT", count, 0, most_bytes, "none around a ring"},
        {"MCAST_SHARED_LIMIT", count, 0, most_bytes, "every multicast is shared"},
        {"MCAST_PIECE", count, 1024, most_bytes},
        {"NOTIFY"},
        {"COLL_BARRIER"},
        {"COLL_BCAST"},
        {"COLL_REDUCE"},
        {"COLL_ALLREDUCE"},
        {"COLL_GATHER"},
        {"COLL_SCATTER"},
        {"COLL_ALLGATHER"},
        {"COLL_ALLTOALL"},
        {"COLL_REDUCE_SCATTER"},
        {"COLL_SCAN"},
        {"COLL_TABLE"},
        {"MCAST_FANOUT", count, 1, 1'000'000},
        {"WHY_AFTER", count, 0, 1'000'000, "never"},
    };
    return settings;
}

Error check_variable(std::string_view entry)
{
    std::size_t equals = entry.find('=');
    for (const char *start : {"MPIR_CVAR_", "MPIR_PARAM_", "MPICH_"}) {
        std::string prefix = start + family;
        if (equals == std::string_view::npos || !entry.starts_with(prefix))
            continue;
        std::string name(entry.substr(prefix.size(), equals - prefix.size()));
        std::string value(entry.substr(equals + 1));
        auto setting = std::ranges::find(known_settings(), name, [](const Setting &each) { return std::string_view(each.name); });
        if (setting == known_settings().end())
            return unknown_setting(prefix, name);
        if (!makes_sense(*setting, value))
            return {Status::invalid, "\"" + value + "\" is no value of " + prefix + name + ", which is " + allowed_values(*setting)};
    }
    return {};
}

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
    if (text == "both")
        return Rendezvous::joint;
    return Error{Status::invalid,
                 "unknown rendezvous \"" + std::string(text) +
                     "\" in MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV; known are auto, pipeline, cma, both"};
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
    if (names_a_file(text))
        return {};
    return {Status::invalid, "unknown value \"" + std::string(text) + "\" of MPIR_CVAR_CH4_COMPOSITE_ROUTES; known are off, init, text, "
                             "json, and the name of a file that ends in .txt, .json or .html"};
}

Error check_report(std::string_view text)
{
    std::string_view format = text.starts_with("profile:") ? text.substr(8) : "";
    if (makes_sense({"", flag}, text) || text == "profile" || format == "text" || format == "json" || names_a_file(format))
        return {};
    return {Status::invalid, "unknown value \"" + std::string(text) + "\" of MPIR_CVAR_CH4_COMPOSITE_REPORT; known are 0, 1, profile, profile:json "
                             "and profile:FILE, where FILE ends in .txt, .json or .html"};
}

}  // namespace pm

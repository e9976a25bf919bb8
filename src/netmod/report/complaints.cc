#include "netmod/report/complaints.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "netmod/report/state.h"

namespace pm {
namespace {

// So many different ones are told: the job does not start because of any of them.
constexpr std::size_t most_told = 8;

std::string who(const RankSet &ranks, std::size_t all)
{
    if (ranks.count() == static_cast<int>(all))
        return "the job";
    return (ranks.count() == 1 ? "rank " : "ranks ") + ranks.text();
}

}  // namespace

std::string complaints_in_words(const std::vector<std::string> &by_rank)
{
    std::vector<std::pair<std::string, RankSet>> complaints;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
        if (by_rank[rank].empty())
            continue;
        auto same = std::ranges::find(complaints, by_rank[rank], &std::pair<std::string, RankSet>::first);
        if (same == complaints.end())
            same = complaints.insert(same, {by_rank[rank], {}});
        same->second.add(static_cast<int>(rank));
    }
    std::string text;
    for (std::size_t i = 0; i < std::min(complaints.size(), most_told); ++i)
        text += "composite: " + who(complaints[i].second, by_rank.size()) + " cannot start: " + complaints[i].first + "\n";
    if (complaints.size() > most_told)
        text += "composite: others cannot start, for " + std::to_string(complaints.size() - most_told) + " more reasons like these\n";
    return text;
}

}  // namespace pm

#include <algorithm>

#include "base/escape.h"
#include "netmod/report/report.h"
#include "netmod/report/summary.h"
#include "netmod/report/table.h"

namespace pm {
namespace {

constexpr std::size_t ranks_most = 32;   // in the table by rank
constexpr std::size_t groups_most = 16;  // in the table by host

std::string by_host(const Summary &summary)
{
    if (summary.groups.size() > groups_most)
        return "composite: routes between " + std::to_string(summary.groups.size()) +
               " kinds of hosts are too many to print; "
               "MPIR_CVAR_CH4_COMPOSITE_ROUTES=json or =FILE.html has them\n";
    Table table{{"hosts", "ranks on each", "within"}};
    for (const HostGroup &group : summary.groups) {
        table[0].push_back("to " + plain_text(group.short_label));
        std::vector<std::string> row{plain_text(group.label), group.ranks_on_each(), plain_text(summary.name_of(group.within))};
        for (const Transports &to : group.to)
            row.push_back(plain_text(summary.name_of(to)));
        table.push_back(row);
    }
    return aligned(table, false);
}

std::string by_rank(const Report &report, const Summary &summary)
{
    std::size_t ranks = report.processes.size();
    Table table{{""}};
    for (std::size_t from = 0; from < ranks; ++from) {
        table[0].push_back(std::to_string(from));
        std::vector<std::string> row{std::to_string(from)};
        for (std::size_t to = 0; to < ranks; ++to)
            row.push_back(to == from ? "-" : route_code(report, summary, from, to));
        table.push_back(row);
    }
    return "composite: routes from a rank (row) to a rank (column), device and channel: " + plain_text(letters(summary)) + "\n" +
           aligned(table, true);
}

std::string addresses(const Report &report, const Summary &summary)
{
    std::vector<std::size_t> networks = transports_with_addresses(report, summary);
    Table table{{"rank", "host", "process"}};
    for (std::size_t network : networks)
        table[0].push_back(plain_text(summary.transports[network].name()));
    for (std::size_t rank = 0; rank < report.processes.size(); ++rank) {
        const ProcessReport &process = report.processes[rank];
        std::vector<std::string> row{std::to_string(rank), plain_text(process.host), std::to_string(process.process)};
        for (std::size_t network : networks) {
            std::string address = plain_text(address_of(report, summary, rank, network));
            row.push_back(address.empty() ? "-" : address);
        }
        table.push_back(row);
    }
    return "composite: where the ranks are" + std::string(networks.empty() ? "\n" : ", and their addresses by network\n") +
           aligned(table, false);
}

}  // namespace

std::string to_text(const Report &report)
{
    Summary summary = summarize(report);
    std::size_t ranks = report.processes.size();
    std::string text = "composite: " + counted(ranks, "rank") + " on " + counted(summary.hosts.size(), "host") + "\n";
    if (ranks > 1) {
        text += by_host(summary);
        text += ranks <= ranks_most ? by_rank(report, summary) + addresses(report, summary)
                                    : "composite: routes and addresses by rank are printed for at most " +
                                          std::to_string(ranks_most) +
                                          " ranks; MPIR_CVAR_CH4_COMPOSITE_ROUTES=json or =FILE.html has them\n";
    }
    if (report.finished)
        for (const Transport &transport : summary.transports)
            text += "composite: " + plain_text(transport.name()) + " carried " + counted(transport.messages, "message") + ", " +
                    counted(transport.bytes, "byte") +
                    (transport.detail.empty() ? "" : "; " + plain_text(transport.detail)) + "\n";
    return text;
}

}  // namespace pm

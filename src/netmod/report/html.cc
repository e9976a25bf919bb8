// One page without other files: a legend with what each transport carried, the matrix of ranks, the hosts, the addresses.
// Colour is the transport (class t0, t1, ...), depth the bytes on a logarithmic scale (class b0: none, b1 to b8). The whole
// route is the title of a cell; the script only shows it at once, above the matrix.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>

#include "base/escape.h"
#include "netmod/report/report.h"
#include "netmod/report/style.h"
#include "netmod/report/summary.h"

namespace pm {
namespace {

constexpr std::size_t ranks_most = 256;    // in the matrix
constexpr std::size_t ranks_written = 32;  // with a code in each cell, and names of hosts
constexpr int depths = 8;

struct Colour {
    const char *light, *dark;
};

// Devices are families of colours, so that networks of one device look related.
Colour colour_of(const Summary &summary, std::size_t place)
{
    static const Colour shmem[] = {{"94 126 106", "140 176 152"}};
    static const Colour ucx[] = {{"42 98 166", "106 160 224"}, {"120 82 168", "172 138 220"},
                                 {"0 128 144", "70 184 198"}, {"164 66 122", "220 130 178"}};
    static const Colour udp[] = {{"196 112 20", "230 160 80"}, {"178 70 50", "226 126 106"},
                                 {"140 124 24", "196 180 80"}, {"134 92 64", "190 150 122"}};
    static const Colour other[] = {{"110 114 122", "160 164 172"}, {"70 74 82", "200 204 210"}};
    const std::string &device = summary.transports[place].device;
    std::span<const Colour> family = other;
    if (device == "shmem")
        family = shmem;
    else if (device == "ucx")
        family = ucx;
    else if (device == "udp")
        family = udp;
    auto before = std::ranges::count(std::span(summary.transports).first(place), device, &Transport::device);
    return family[static_cast<std::size_t>(before) % family.size()];
}

std::string colours(const Summary &summary)
{
    std::string light, dark;
    for (std::size_t place = 0; place < summary.transports.size(); ++place) {
        Colour colour = colour_of(summary, place);
        light += ".t" + std::to_string(place) + " { --c: " + colour.light + " }\n";
        dark += "  .t" + std::to_string(place) + " { --c: " + colour.dark + " }\n";
    }
    return light + "@media (prefers-color-scheme: dark) {\n" + dark + "}\n";
}

// 0 bytes, 1.5 KiB, 20 MiB
std::string size_text(std::uint64_t bytes)
{
    if (bytes < 1024)
        return counted(bytes, "byte");
    double value = static_cast<double>(bytes) / 1024;
    std::size_t unit = 0;
    const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    for (; value >= 1024; value /= 1024)
        ++unit;
    char text[32];
    std::snprintf(text, sizeof text, value < 10 ? "%.1f %s" : "%.0f %s", value, units[unit]);
    return text;
}

std::string element(const std::string &tag, const std::string &content)
{
    return "<" + tag + ">" + content + "</" + tag.substr(0, tag.find(' ')) + ">";
}

// The fewest and the most bytes of a pair that sent any; a factor of 256 at least (or from one byte on), so that a small
// difference looks small.
struct Range {
    std::uint64_t least = 0, most = 0;

    int depth(std::uint64_t bytes) const
    {
        if (bytes <= least)
            return bytes == 0 ? 0 : most == least ? depths : 1;
        double part = std::log2(static_cast<double>(bytes) / static_cast<double>(least)) /
                      std::log2(static_cast<double>(most) / static_cast<double>(least));
        return 1 + static_cast<int>(std::lround(part * (depths - 1)));
    }
};

Range range_of(const Report &report, const Summary &summary)
{
    Range range;
    for (std::size_t from = 0; from < summary.used.size(); ++from)
        for (std::size_t to = 0; to < summary.used.size(); ++to) {
            if (summary.used[from][to] == Summary::unknown || report.processes[from].routes[to].bytes == 0)
                continue;
            std::uint64_t bytes = report.processes[from].routes[to].bytes;
            range.least = range.least == 0 ? bytes : std::min(range.least, bytes);
            range.most = std::max(range.most, bytes);
        }
    if (range.most > 0)
        range.least = std::max<std::uint64_t>(1, std::min(range.least, range.most / 256));
    return range;
}

std::string chip(std::size_t place)
{
    return element("span class=\"chip t" + std::to_string(place) + "\"", "");
}

std::string legend(const Report &report, const Summary &summary)
{
    std::uint64_t most = 0;
    bool details = false;
    for (const Transport &transport : summary.transports) {
        most = std::max(most, transport.bytes);
        details |= report.finished && !transport.detail.empty();
    }
    std::string text = "<h2>Devices and networks</h2>\n<table class=\"list\">\n<tr><th>device</th><th>network</th>"
                       "<th class=\"number\">pairs of ranks</th>";
    if (report.finished)
        text += "<th class=\"number\">messages</th><th class=\"number\">bytes</th>";
    text += std::string(details ? "<th></th>" : "") + "</tr>\n";
    for (std::size_t place = 0; place < summary.transports.size(); ++place) {
        const Transport &transport = summary.transports[place];
        text += "<tr><td>" + chip(place) + html_text(transport.device) + "</td><td>" + html_text(transport.network) +
                "</td><td class=\"number\">" + std::to_string(transport.pairs) + "</td>";
        if (report.finished) {
            double part = most == 0 ? 0 : 100 * static_cast<double>(transport.bytes) / static_cast<double>(most);
            std::string width = std::to_string(std::lround(part));
            text += "<td class=\"number\">" + std::to_string(transport.messages) + "</td><td class=\"number\" title=\"" +
                    counted(transport.bytes, "byte") + "\">" + size_text(transport.bytes) +
                    element("span class=\"bar t" + std::to_string(place) + "\" style=\"width: " + width + "%\"", "") + "</td>";
        }
        text += (details ? element("td class=\"soft\"", html_text(transport.detail)) : "") + "</tr>\n";
    }
    return text + "</table>\n";
}

std::string scale(const Range &range)
{
    std::string text = "<p class=\"soft\">nothing sent " + element("span class=\"scale b0\"", "");
    if (range.most > 0) {
        text += " &#160; " + size_text(range.least) + " ";
        for (int depth = 1; depth <= depths; ++depth)
            text += element("span class=\"scale b" + std::to_string(depth) + "\"", "");
        text += " " + size_text(range.most) + " from one rank to another (logarithmic)";
    }
    return text + "</p>\n";
}

std::string route_text(const Report &report, const Summary &summary, std::size_t from, std::size_t to)
{
    std::string text = std::to_string(from) + " on " + report.processes[from].host + " to " + std::to_string(to) + " on " +
                       report.processes[to].host + ": ";
    if (summary.used[from][to] == Summary::unknown)
        return text + "route not known";
    const RouteReport &route = report.processes[from].routes[to];
    text += summary.transports[summary.used[from][to]].name() + ", channel " + std::to_string(route.channel);
    if (!route.address.empty())
        text += ", at " + route.address;
    if (report.finished)
        text += "; " + counted(route.messages, "message") + ", " + counted(route.bytes, "byte");
    return text;
}

// The pixels of a cell, such that the matrix fits a screen.
std::size_t cell_size(std::size_t ranks)
{
    return ranks <= 12 ? 38 : ranks <= 24 ? 32 : ranks <= 32 ? 26 : ranks <= 64 ? 14 : ranks <= 128 ? 8 : ranks <= 192 ? 5 : 4;
}

class Matrix {
  public:
    Matrix(const Report &report, const Summary &summary)
        : report_(report), summary_(summary), ranks_(report.processes.size()), written_(ranks_ <= ranks_written),
          step_(ranks_ <= 64 ? 8 : 16), range_(range_of(report, summary))
    {
        for (std::size_t rank = 0; rank < ranks_; ++rank)
            if (starts_run(rank))
                narrow_ |= report.processes[rank].host.size() * 8 > run(rank) * cell_size(ranks_);
    }

    std::string text() const
    {
        std::string text = "<h2>From rank (row) to rank (column)</h2>\n";
        if (written_)
            text += "<p class=\"soft\">A letter is the device (" + html_text(letters(summary_)) +
                    "), the number behind it the channel: of shmem 0, otherwise the receiver's process number on its host.</p>\n";
        if (report_.finished)
            text += scale(range_);
        text += "<p class=\"soft\" id=\"now\"></p>\n<div class=\"frame\"><table class=\"matrix" +
                std::string(ranks_ > 64 ? " fine" : "") + "\" style=\"--size: " + std::to_string(cell_size(ranks_)) +
                "px\">\n<thead>" + head() + "</thead>\n<tbody>\n";
        for (std::size_t from = 0; from < ranks_; ++from) {
            text += std::string("<tr") + (starts_visibly(from) ? " class=\"next\">" : ">") + row_head(from);
            for (std::size_t to = 0; to < ranks_; ++to)
                text += cell(from, to);
            text += "</tr>\n";
        }
        return text + "</tbody></table></div>\n";
    }

  private:
    bool starts_run(std::size_t rank) const { return rank == 0 || summary_.host_of[rank] != summary_.host_of[rank - 1]; }
    // Hosts are set apart where they have several ranks.
    bool starts_visibly(std::size_t rank) const
    {
        return rank > 0 && summary_.hosts.size() < ranks_ && ranks_ <= 64 && starts_run(rank);
    }
    // How many ranks from this one on are on its host.
    std::size_t run(std::size_t rank) const
    {
        std::size_t end = rank + 1;
        while (end < ranks_ && !starts_run(end))
            ++end;
        return end - rank;
    }
    std::string host(std::size_t rank) const { return html_text(report_.processes[rank].host); }

    static std::string span(const char *what, std::size_t count)
    {
        return " " + std::string(what) + "span=\"" + std::to_string(count) + "\"";
    }
    // Of a ruler along the matrix: one for step_ ranks.
    std::string mark(const char *what, std::size_t rank) const
    {
        return element("th class=\"ruler\"" + span(what, std::min(step_, ranks_ - rank)), std::to_string(rank));
    }

    std::string head() const
    {
        std::string hosts = "<tr><th colspan=\"2\"></th>", ranks = "<tr><th colspan=\"2\"></th>", ruler = "<tr><th></th>";
        for (std::size_t rank = 0; rank < ranks_; ++rank) {
            std::string first = starts_visibly(rank) ? "first" : "";
            if (starts_run(rank))
                hosts += element("th class=\"host " + first + "\"" + span("col", run(rank)) + " title=\"" + host(rank) + "\"",
                                 element(narrow_ ? "div class=\"upright\"" : "div", host(rank)));
            ranks += element("th class=\"" + first + "\"", std::to_string(rank));
            if (rank % step_ == 0)
                ruler += mark("col", rank);
        }
        return written_ ? hosts + "</tr>\n" + ranks + "</tr>" : ruler + "</tr>";
    }

    std::string row_head(std::size_t rank) const
    {
        if (!written_)
            return rank % step_ == 0 ? mark("row", rank) : "";
        std::string text;
        if (starts_run(rank))
            text = element("th class=\"host\"" + span("row", run(rank)) + " title=\"" + host(rank) + "\"", host(rank));
        return text + element("th", std::to_string(rank));
    }

    std::string cell(std::size_t from, std::size_t to) const
    {
        std::string first = starts_visibly(to) ? " first" : "";
        if (from == to)
            return element("td class=\"self" + first + "\"", written_ ? "-" : "");
        std::uint32_t place = summary_.used[from][to];
        std::string kind = place == Summary::unknown ? "unknown" : "t" + std::to_string(place);
        if (report_.finished && place != Summary::unknown)
            kind += " b" + std::to_string(range_.depth(report_.processes[from].routes[to].bytes));
        return element("td class=\"" + kind + first + "\" title=\"" + html_text(route_text(report_, summary_, from, to)) + "\"",
                       written_ ? route_code(report_, summary_, from, to) : "");
    }

    const Report &report_;
    const Summary &summary_;
    std::size_t ranks_;
    bool written_;
    std::size_t step_;
    Range range_;
    bool narrow_ = false;  // a name of a host is wider than its columns
};

std::string transports(const Summary &summary, const Transports &places)
{
    std::string text;
    for (char32_t place : places)
        text += place == Summary::unknown ? "unknown "
                                          : "<div>" + chip(place) + html_text(summary.transports[place].name()) + "</div>";
    return text;
}

std::string hosts(const Summary &summary)
{
    std::string text = "<h2>From host (row) to host (column)</h2>\n<div class=\"frame\"><table class=\"list\">\n"
                       "<tr><th>hosts</th><th class=\"number\">ranks on each</th><th>within a host</th>";
    for (const HostGroup &group : summary.groups)
        text += element("th", "to " + html_text(group.short_label));
    text += "</tr>\n";
    for (const HostGroup &group : summary.groups) {
        text += "<tr><td>" + html_text(group.label) + "</td><td class=\"number\">" + group.ranks_on_each() + "</td><td>" +
                transports(summary, group.within) + "</td>";
        for (const Transports &to : group.to)
            text += element("td", transports(summary, to));
        text += "</tr>\n";
    }
    return text + "</table></div>\n";
}

std::string addresses(const Report &report, const Summary &summary)
{
    std::vector<std::size_t> networks = transports_with_addresses(report, summary);
    std::string text = "<h2>Ranks</h2>\n<details><summary>hosts, process numbers, addresses</summary>\n"
                       "<div class=\"frame\"><table class=\"list\">\n"
                       "<tr><th class=\"number\">rank</th><th>host</th><th class=\"number\">process</th>";
    for (std::size_t network : networks)
        text += element("th", chip(network) + html_text(summary.transports[network].name()));
    text += "</tr>\n";
    for (std::size_t rank = 0; rank < report.processes.size(); ++rank) {
        const ProcessReport &process = report.processes[rank];
        text += "<tr><td class=\"number\">" + std::to_string(rank) + "</td><td>" + html_text(process.host) +
                "</td><td class=\"number\">" + std::to_string(process.process) + "</td>";
        for (std::size_t network : networks)
            text += element("td", html_text(address_of(report, summary, rank, network)));
        text += "</tr>\n";
    }
    return text + "</table></div></details>\n";
}

}  // namespace

std::string to_html(const Report &report)
{
    Summary summary = summarize(report);
    std::size_t ranks = report.processes.size();
    std::string title = counted(ranks, "rank") + " on " + counted(summary.hosts.size(), "host");
    std::string text = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width\">\n" +
                       element("title", "Routes of " + title) + "\n" + element("style", page_style + colours(summary)) +
                       "\n</head>\n<body>\n" + element("h1", "Routes of " + title) + "\n";
    if (report.run)
        text += "<p><code>" + html_text(report.run->command) + "</code></p>\n<p class=\"soft\">Started " +
                time_text(report.run->started) + ", from MPI_Init to MPI_Finalize " + duration_text(report.run->milliseconds) + ".</p>\n";
    text += report.finished ? "<p class=\"soft\">After the run, with what was sent.</p>\n"
                            : "<p class=\"soft\">At the start of the run; what is sent is not known yet.</p>\n";
    text += legend(report, summary);
    if (ranks > 1 && ranks <= ranks_most)
        text += Matrix(report, summary).text();
    else if (ranks > ranks_most)
        text += "<p class=\"soft\">The matrix of ranks is drawn for at most " + std::to_string(ranks_most) +
                " ranks; MPIR_CVAR_CH4_COMPOSITE_ROUTES=FILE.json has the routes of all.</p>\n";
    text += hosts(summary) + addresses(report, summary);
    if (ranks > 1 && ranks <= ranks_most)
        text += element("script", page_script) + "\n";
    return text + "</body>\n</html>\n";
}

}  // namespace pm

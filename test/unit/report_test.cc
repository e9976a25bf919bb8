// What a user is told about a job: the same for the same job, whatever bytes are in the names; and its way through the network.
#include "netmod/report/report.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

#include "base/escape.h"
#include "support/random.h"
#include "support/seeds.h"

namespace pm {
namespace {

struct Place {
    std::string host;
    std::uint32_t process = 0;
    std::string fabric;  // that leads to hosts on the same one, over UCX; all others are reached over UDP
};

// A job after the paper's rules. Rank `from` has sent `from + to` messages of 8 bytes to rank `to`.
Report job(const std::vector<Place> &places)
{
    Report report;
    report.finished = true;
    for (std::size_t from = 0; from < places.size(); ++from) {
        ProcessReport process;
        process.host = places[from].host;
        process.process = places[from].process;
        DeviceReport shmem{.device = "shmem", .network = "", .detail = ""};
        DeviceReport ucx{.device = "ucx", .network = places[from].fabric, .detail = ""};
        DeviceReport udp{.device = "udp", .network = "lan", .detail = std::to_string(from + 9) + " packets, 1 sent again"};
        for (std::size_t to = 0; to < places.size(); ++to) {
            const Place &peer = places[to];
            RouteReport route{.device = "shmem", .network = "", .address = ""};
            DeviceReport *device = &shmem;
            if (peer.host != process.host) {
                bool near = !peer.fabric.empty() && peer.fabric == places[from].fabric;
                device = near ? &ucx : &udp;
                route.device = device->device;
                route.network = device->network;
                route.channel = peer.process;
                if (!near)
                    route.address = "10.0.0." + std::to_string(to);
            }
            route.messages = from == to ? 0 : from + to;
            route.bytes = 8 * route.messages;
            device->messages_sent += route.messages;
            device->bytes_sent += route.bytes;
            process.routes.push_back(route);
        }
        process.devices = {shmem, ucx, udp};
        report.processes.push_back(process);
    }
    return report;
}

Report three_ranks()
{
    return job({{"a", 0, ""}, {"a", 1, ""}, {"b", 0, ""}});
}

// The example of the paper: 8 hosts of two processes on one fabric, 4 hosts of one process on another.
Report twenty_ranks()
{
    std::vector<Place> places;
    for (std::uint32_t rank = 0; rank < 16; ++rank)
        places.push_back({"a" + std::to_string(rank / 2), rank % 2, "san-a"});
    for (std::uint32_t rank = 0; rank < 4; ++rank)
        places.push_back({"b" + std::to_string(rank), 0, "san-b"});
    return job(places);
}

std::size_t count(std::string_view text, std::string_view part)
{
    std::size_t found = 0;
    for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + part.size()))
        ++found;
    return found;
}

bool contains(const std::string &text, const std::string &part)
{
    return text.find(part) != std::string::npos;
}

// ---- text -----------------------------------------------------------------------------------------------------------

TEST(ReportText, OfASmallJob)
{
    EXPECT_EQ(to_text(three_ranks()),
              "composite: 3 ranks on 2 hosts\n"
              "  hosts  ranks on each  within  to a     to b\n"
              "  a      2              shmem   -        udp lan\n"
              "  b      1              -       udp lan  -\n"
              "composite: routes from a rank (row) to a rank (column), device and channel: S shmem, U udp\n"
              "      0   1   2\n"
              "  0   -  S0  U0\n"
              "  1  S0   -  U0\n"
              "  2  U0  U1   -\n"
              "composite: where the ranks are, and their addresses by network\n"
              "  rank  host  process  udp lan\n"
              "  0     a     0        10.0.0.0\n"
              "  1     a     1        10.0.0.1\n"
              "  2     b     0        10.0.0.2\n"
              "composite: shmem carried 2 messages, 16 bytes\n"
              "composite: udp lan carried 10 messages, 80 bytes; 30 packets, 3 sent again\n");
}

TEST(ReportText, AtTheStartSaysNothingOfTraffic)
{
    Report report = three_ranks();
    report.finished = false;
    EXPECT_FALSE(contains(to_text(report), "carried"));
    EXPECT_TRUE(contains(to_text(report), "  2  U0  U1   -\n"));
}

TEST(ReportText, HostsThatAreAlikeShareARow)
{
    std::string text = to_text(twenty_ranks());
    EXPECT_TRUE(contains(text, "composite: 20 ranks on 12 hosts\n"
                               "  hosts  ranks on each  within  to a0-a7   to b0-b3\n"
                               "  a0-a7  2              shmem   ucx san-a  udp lan\n"
                               "  b0-b3  1              -       udp lan    ucx san-b\n"))
        << text;
    EXPECT_TRUE(contains(text, "S shmem, X ucx, U udp\n")) << text;
    EXPECT_TRUE(contains(text, "\n   2  X0  X1   -  S0  X0  X1  X0  X1  X0  X1  X0  X1  X0  X1  X0  X1  U0  U0  U0  U0\n"));
    EXPECT_TRUE(contains(text, "\n  16  U0  U1  U0  U1  U0  U1  U0  U1  U0  U1  U0  U1  U0  U1  U0  U1   -  X0  X0  X0\n"));
}

TEST(ReportText, AHostThatDiffersHasARowOfItsOwn)
{
    Report report = job({{"n08", 0, ""}, {"n09", 0, ""}, {"n10", 0, ""}, {"login", 0, ""}, {"m1", 0, ""}});
    // One direction alone is enough.
    report.processes[0].routes[3] = {.device = "ucx", .network = "fab", .channel = 0, .address = ""};
    std::string text = to_text(report);
    EXPECT_TRUE(contains(text, "  hosts         ranks on each  within  to n08   to n09, n10, m1  to login\n"
                               "  n08           1              -       -        udp lan          ucx fab\n"
                               "  n09, n10, m1  1              -       udp lan  udp lan          udp lan\n"
                               "  login         1              -       udp lan  udp lan          -\n"))
        << text;
}

TEST(ReportText, ManyNamesAreCutInTheHeadAlone)
{
    std::string text = to_text(job({{"alpha-1", 0, ""}, {"beta-1", 0, ""}, {"gamma-1", 0, ""}, {"delta-1", 0, ""}}));
    EXPECT_TRUE(contains(text, "  hosts                              ranks on each  within  to alpha-1 ...\n"
                               "  alpha-1, beta-1, gamma-1, delta-1  1              -       udp lan\n"))
        << text;
}

TEST(ReportText, PairsOfTwoHostsThatDifferAreBothNamed)
{
    Report report = three_ranks();
    report.processes[0].routes[2] = {.device = "ucx", .network = "fab", .channel = 0, .address = ""};
    EXPECT_TRUE(contains(to_text(report), "  a      2              shmem   -        ucx fab + udp lan\n")) << to_text(report);
}

TEST(ReportText, ManyRanksGetNoTableButAWayToGetIt)
{
    std::vector<Place> places;
    for (std::uint32_t rank = 0; rank < 33; ++rank)
        places.push_back({"a", rank, ""});
    std::string text = to_text(job(places));
    EXPECT_EQ(text, "composite: 33 ranks on 1 host\n"
                    "  hosts  ranks on each  within  to a\n"
                    "  a      33             shmem   -\n"
                    "composite: routes and addresses by rank are printed for at most 32 ranks; "
                    "MPIR_CVAR_CH4_COMPOSITE_ROUTES=json or =FILE.html has them\n"
                    "composite: shmem carried 33792 messages, 270336 bytes\n");
    places.pop_back();
    EXPECT_TRUE(contains(to_text(job(places)), "composite: routes from a rank"));
}

TEST(ReportText, ManyKindsOfHostsGetNoTable)
{
    std::vector<Place> places;
    for (std::uint32_t rank = 0; rank < 40; ++rank)
        places.push_back({"a" + std::to_string(rank), 0, "pair" + std::to_string(rank / 2)});
    EXPECT_TRUE(contains(to_text(job(places)), "composite: routes between 20 kinds of hosts are too many to print"));
}

TEST(ReportText, OfOneRankAndOfNone)
{
    EXPECT_EQ(to_text(job({{"a", 0, ""}})), "composite: 1 rank on 1 host\n");
    EXPECT_EQ(to_text(Report{}), "composite: 0 ranks on 0 hosts\n");
}

TEST(ReportText, ARouteThatIsNotKnownIsAQuestionMark)
{
    Report report = three_ranks();
    report.processes[2].routes.resize(1);
    report.processes[1].routes[0].device = "";
    std::string text = to_text(report);
    EXPECT_TRUE(contains(text, "  1   ?   -  U0\n  2  U0   ?   -\n")) << text;
    EXPECT_TRUE(contains(text, "  b      1              -                udp lan + unknown  -\n")) << text;
}

TEST(ReportText, RoutesCountWhereNoDeviceSaysAnything)
{
    Report report = three_ranks();
    for (ProcessReport &process : report.processes)
        process.devices.clear();
    EXPECT_TRUE(contains(to_text(report), "composite: shmem carried 2 messages, 16 bytes\n"
                                          "composite: udp lan carried 10 messages, 80 bytes\n"));
}

TEST(ReportText, DetailsThatDifferAreListedUnlessTheyAreMany)
{
    Report report = three_ranks();
    report.processes[1].devices[2].detail = "no packets";
    EXPECT_TRUE(contains(to_text(report), "; 20 packets, 2 sent again; no packets\n")) << to_text(report);

    std::vector<Place> places(6, Place{"a", 0, ""});
    report = job(places);
    for (std::size_t rank = 0; rank < 6; ++rank)
        report.processes[rank].devices[0].detail = "kind " + std::string(1, static_cast<char>('a' + rank));
    EXPECT_FALSE(contains(to_text(report), "kind"));
}

TEST(ReportText, DetailsTooLargeToAddAreListed)
{
    Report report = three_ranks();
    report.processes[0].devices[2].detail = "18446744073709551615 packets";
    report.processes[1].devices[2].detail = "99999999999999999999999 packets";
    report.processes[2].devices[2].detail = "2 packets";
    EXPECT_TRUE(contains(to_text(report), "; 18446744073709551615 packets; 99999999999999999999999 packets; 2 packets\n"));
}

TEST(ReportText, ControlCharactersDoNotReachTheTerminal)
{
    Report report = job({{"a\x1b[31m\n", 0, ""}, {"h\xc3\xb6st", 0, ""}});
    std::string text = to_text(report);
    EXPECT_TRUE(contains(text, "  0     a?[31m?  0        10.0.0.0\n"));
    EXPECT_TRUE(contains(text, "  1     h\xc3\xb6st     0        10.0.0.1\n")) << "columns count characters, not bytes";
    EXPECT_FALSE(contains(text, "\x1b"));
}

// ---- JSON -----------------------------------------------------------------------------------------------------------

TEST(ReportJson, OfASmallJob)
{
    Report report = job({{"a", 0, ""}, {"b", 0, ""}});
    report.processes[1].devices.clear();
    report.processes[0].devices = {{.device = "udp", .network = "lan", .messages_sent = 1, .bytes_sent = 8,
                                    .messages_received = 2, .bytes_received = 18446744073709551615u, .detail = "9 packets"}};
    EXPECT_EQ(to_json(report),
              "{\"ranks\":[\n"
              "{\"rank\":0,\"host\":\"a\",\"process\":0,\"routes\":["
              "{\"to\":1,\"device\":\"udp\",\"network\":\"lan\",\"channel\":0,\"address\":\"10.0.0.1\","
              "\"messages\":1,\"bytes\":8}"
              "],\"devices\":["
              "{\"device\":\"udp\",\"network\":\"lan\",\"messages_sent\":1,\"bytes_sent\":8,\"messages_received\":2,"
              "\"bytes_received\":18446744073709551615,\"detail\":\"9 packets\"}]},\n"
              "{\"rank\":1,\"host\":\"b\",\"process\":0,\"routes\":["
              "{\"to\":0,\"device\":\"udp\",\"network\":\"lan\",\"channel\":0,\"address\":\"10.0.0.0\","
              "\"messages\":1,\"bytes\":8}"
              "],\"devices\":[]}\n"
              "],\"finished\":true}\n");
}

TEST(ReportJson, HasTheRunWhereItIsKnown)
{
    Report report = job({{"a", 0, ""}});
    report.run = RunReport{"mpiexec -n 1 './a \"b'", 1763237703, 1234};
    std::string text = to_json(report);
    EXPECT_TRUE(contains(text, "],\n\"command\":\"mpiexec -n 1 './a \\\"b'\",\"started\":\"2025-11-15T20:15:03Z\",\"milliseconds\":1234,"
                               "\"finished\":true}\n"))
        << text;
}

TEST(ReportJson, WhatIsNotThereIsNull)
{
    std::string text = to_json(three_ranks());
    EXPECT_TRUE(contains(text, "{\"to\":1,\"device\":\"shmem\",\"network\":null,\"channel\":0,\"address\":null,"));
    EXPECT_TRUE(contains(text, "\"detail\":null"));
}

// Follows the grammar of JSON and answers what is left of the text, which is nothing for one good value.
class JsonChecker {
  public:
    static bool good(std::string_view text)
    {
        JsonChecker checker{text};
        bool good = checker.value();
        checker.blanks();
        return good && checker.rest_.empty();
    }

  private:
    explicit JsonChecker(std::string_view text) : rest_(text) {}
    void blanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \n"), rest_.size())); }
    bool take(std::string_view word)
    {
        blanks();
        if (!rest_.starts_with(word))
            return false;
        rest_.remove_prefix(word.size());
        return true;
    }
    template <class Member>
    bool list(std::string_view end, Member member)
    {
        if (take(end))
            return true;
        do
            if (!member())
                return false;
        while (take(","));
        return take(end);
    }
    bool value()
    {
        if (take("{"))
            return list("}", [&] { return string() && take(":") && value(); });
        if (take("["))
            return list("]", [&] { return value(); });
        if (take("true") || take("false") || take("null"))
            return true;
        if (rest_.starts_with('"'))
            return string();
        std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
        rest_.remove_prefix(digits);
        return digits > 0;
    }
    bool string()
    {
        if (!take("\""))
            return false;
        while (!rest_.empty() && rest_[0] != '"') {
            if (static_cast<unsigned char>(rest_[0]) < 0x20)
                return false;
            if (rest_[0] == '\\') {
                if (rest_.size() < 2 || std::string_view("\"\\/bfnrtu").find(rest_[1]) == std::string_view::npos)
                    return false;
                for (std::size_t digit = 2; rest_[1] == 'u' && digit < 6; ++digit)
                    if (digit >= rest_.size() || std::isxdigit(static_cast<unsigned char>(rest_[digit])) == 0)
                        return false;
                rest_.remove_prefix(1);
            }
            rest_.remove_prefix(1);
        }
        return take("\"");
    }

    std::string_view rest_;
};

// Every byte, alone and in company.
std::vector<std::string> awkward_names()
{
    std::vector<std::string> names{"", "\"", "\\", "</script><b>&amp;", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xc0\x80"};
    for (int byte = 0; byte < 256; ++byte)
        names.push_back("x" + std::string(1, static_cast<char>(byte)) + "y");
    return names;
}

TEST(ReportJson, IsJsonWhateverTheNamesAre)
{
    ASSERT_FALSE(JsonChecker::good("{\"a\":1")) << "the checker can fail";
    ASSERT_FALSE(JsonChecker::good("\"\n\""));
    EXPECT_TRUE(JsonChecker::good(to_json(Report{})));
    EXPECT_TRUE(JsonChecker::good(to_json(twenty_ranks())));
    for (const std::string &name : awkward_names()) {
        Report report = three_ranks();
        report.run = RunReport{name, -1, 0};
        EXPECT_TRUE(JsonChecker::good(to_json(report))) << to_json(report);
    }
    for (const std::string &name : awkward_names()) {
        Report report = job({{name, 0, name}, {name + "2", 0, name}});
        report.processes[0].routes[1].address = name;
        report.processes[0].devices[0].detail = name;
        EXPECT_TRUE(JsonChecker::good(to_json(report))) << to_json(report);
    }
}

TEST(Escape, WordsForAShell)
{
    EXPECT_EQ(shell_word("./ring-2.5,x=3"), "./ring-2.5,x=3");
    EXPECT_EQ(shell_word(""), "''");
    EXPECT_EQ(shell_word("a b"), "'a b'");
    EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
    EXPECT_EQ(shell_word("$HOME"), "'$HOME'");
}

TEST(Escape, KeepsGoodTextAndReplacesTheRest)
{
    EXPECT_EQ(json_string("a\"b\\c\n\x7f"), "\"a\\\"b\\\\c\\u000a\\u007f\"");
    EXPECT_EQ(html_text("<a href=\"b\">&"), "&lt;a href=&quot;b&quot;&gt;&amp;");
    EXPECT_EQ(plain_text("a\tb\xc2\x85"), "a?b?");
    EXPECT_EQ(json_string_or_null(""), "null");
    const std::string good = "\xc3\xb6 \xe2\x82\xac \xf0\x9f\x98\x80";
    EXPECT_EQ(plain_text(good), good);
    EXPECT_EQ(html_text(good), good);
    EXPECT_EQ(json_string(good), "\"" + good + "\"");
    // Cut short, an overlong slash, a surrogate, beyond Unicode: each byte is replaced.
    const std::string replaced = "\xef\xbf\xbd";
    EXPECT_EQ(plain_text("\xe2\x82"), replaced + replaced);
    EXPECT_EQ(plain_text("\xc0\xaf"), replaced + replaced);
    EXPECT_EQ(plain_text("\xed\xa0\x80"), replaced + replaced + replaced);
    EXPECT_EQ(plain_text("\xf4\x90\x80\x80"), replaced + replaced + replaced + replaced);
}

// ---- HTML -----------------------------------------------------------------------------------------------------------

// What is wrong with the tags of a page: nothing when each that is opened is closed, in order.
std::string tag_trouble(std::string_view page)
{
    std::vector<std::string> open;
    for (std::size_t at = page.find('<'); at != std::string_view::npos; at = page.find('<', at)) {
        bool quoted = false;
        std::size_t end = at + 1;
        for (; end < page.size() && (quoted || page[end] != '>'); ++end) {
            if (page[end] == '"')
                quoted = !quoted;
            if (page[end] == '<')
                return "< within a tag: " + std::string(page.substr(at, 80));
        }
        std::string_view tag = page.substr(at + 1, end - at - 1);
        std::string name(tag.substr(0, tag.find(' ')));
        at = end;
        if (name == "!DOCTYPE" || name == "meta")
            continue;
        if (!name.starts_with('/')) {
            open.push_back(name);
            continue;
        }
        if (open.empty() || open.back() != name.substr(1))
            return name + " closes " + (open.empty() ? "nothing" : open.back());
        open.pop_back();
    }
    return open.empty() ? "" : open.back() + " is not closed";
}

TEST(ReportHtml, HasACellForEachPair)
{
    std::string page = to_html(twenty_ranks());
    EXPECT_EQ(tag_trouble(page), "");
    EXPECT_EQ(count(page, "<td class=\"t0 "), 16u) << "shmem";
    EXPECT_EQ(count(page, "<td class=\"t1 "), 16u * 14) << "ucx san-a";
    EXPECT_EQ(count(page, "<td class=\"t2 "), 4u * 3) << "ucx san-b";
    EXPECT_EQ(count(page, "<td class=\"t3 "), 2u * 16 * 4) << "udp lan";
    EXPECT_EQ(count(page, "<td class=\"self"), 20u);
    EXPECT_TRUE(contains(page, "<td class=\"t0 b4\" title=\"0 on a0 to 1 on a0: shmem, channel 0; 1 message, 8 bytes\">S0<"));
    EXPECT_TRUE(contains(page, "title=\"16 on b0 to 3 on a1: udp lan, channel 1, at 10.0.0.3; 19 messages, 152 bytes\">U1<"));
    EXPECT_TRUE(contains(page, "<td class=\"t2 b8 first\" title=\"18 on b2 to 19 on b3: ")) << "the most bytes are the deepest";
}

TEST(ReportHtml, SaysWhatWasRunWhenAndForHowLong)
{
    Report report = twenty_ranks();
    EXPECT_FALSE(contains(to_html(report), "Started"));
    report.run = RunReport{"mpiexec -n 20 ./a<b", 1763237703, 1234};
    std::string page = to_html(report);
    EXPECT_EQ(tag_trouble(page), "");
    EXPECT_TRUE(contains(page, "<code>mpiexec -n 20 ./a&lt;b</code>")) << page.substr(0, 5000);
    EXPECT_TRUE(contains(page, "Started 2025-11-15T20:15:03Z, from MPI_Init to MPI_Finalize 1.234 s.<"));
    for (auto [milliseconds, text] : {std::pair{0, " 0.000 s."}, {9999, " 9.999 s."}, {12345, " 12.3 s."}, {99999, " 100.0 s."},
                                      {100000, " 1 min 40 s."}, {3599999, " 59 min 59 s."}, {3600000, " 1 h 0 min."}}) {
        report.run->milliseconds = static_cast<std::uint64_t>(milliseconds);
        EXPECT_TRUE(contains(to_html(report), text)) << text;
    }
}

TEST(ReportHtml, ExplainsWhatIsWrittenInItsCells)
{
    EXPECT_TRUE(contains(to_html(twenty_ranks()), "A letter is the device (S shmem, X ucx, U udp), the number behind it the channel"));
    EXPECT_FALSE(contains(to_html(job(std::vector<Place>(33, Place{"a", 0, ""}))), "A letter is")) << "its cells are empty";
}

TEST(ReportHtml, NeedsNoOtherFile)
{
    std::string page = to_html(twenty_ranks());
    for (const char *word : {"http", "src=", "href=", "url(", "@import"})
        EXPECT_FALSE(contains(page, word)) << word;
}

TEST(ReportHtml, AtTheStartHasNoDepthAndNoTraffic)
{
    Report report = three_ranks();
    report.finished = false;
    std::string page = to_html(report);
    EXPECT_EQ(tag_trouble(page), "");
    EXPECT_TRUE(contains(page, "<td class=\"t0\" title=\"0 on a to 1 on a: shmem, channel 0\">S0</td>")) << page;
    EXPECT_FALSE(contains(page, "messages</th>"));
}

TEST(ReportHtml, NothingSentIsShownAsNothing)
{
    Report report = three_ranks();
    for (ProcessReport &process : report.processes)
        for (RouteReport &route : process.routes)
            route.messages = route.bytes = 0;
    std::string page = to_html(report);
    EXPECT_EQ(count(page, "<td class=\"t0 b0"), 2u);
    EXPECT_EQ(count(page, "<td class=\"t1 b0"), 4u);
}

TEST(ReportHtml, IsWellFormedWhateverTheNamesAre)
{
    ASSERT_NE(tag_trouble("<b><i></b></i>"), "") << "the checker can fail";
    ASSERT_NE(tag_trouble("<b>"), "");
    for (const std::string &name : awkward_names()) {
        Report report = job({{name, 0, name}, {name + "2", 0, name}, {"third", 0, ""}});
        report.processes[0].routes[1].address = name;
        report.processes[0].devices[0].detail = name;
        EXPECT_EQ(tag_trouble(to_html(report)), "");
        EXPECT_EQ(count(to_html(report), "<td class=\"t"), 6u);
    }
    EXPECT_TRUE(contains(to_html(job({{"a<b", 0, ""}, {"c", 0, ""}})), "title=\"0 on a&lt;b to 1 on c: "));
}

TEST(ReportHtml, ForEveryNumberOfRanks)
{
    for (std::uint32_t ranks : {0u, 1u, 2u, 32u, 33u, 65u}) {
        std::vector<Place> places;
        for (std::uint32_t rank = 0; rank < ranks; ++rank)
            places.push_back({"a" + std::to_string(rank / 3), rank % 3, ""});
        std::string page = to_html(job(places));
        EXPECT_EQ(tag_trouble(page), "") << ranks;
        EXPECT_EQ(count(page, "<td class=\"t"), ranks < 2 ? 0 : ranks * (ranks - 1));
    }
    std::string page = to_html(job(std::vector<Place>(257, Place{"a", 0, ""})));
    EXPECT_EQ(tag_trouble(page), "");
    EXPECT_TRUE(contains(page, "drawn for at most 256 ranks"));
    EXPECT_FALSE(contains(page, "<script>"));
}

TEST(ReportHtml, ARouteThatIsNotKnownIsMarked)
{
    Report report = three_ranks();
    report.processes[2].routes.clear();
    EXPECT_EQ(count(to_html(report), "<td class=\"unknown\" title=\"2 on b to "), 2u);
}

// ---- bytes ----------------------------------------------------------------------------------------------------------

std::string differences(const ProcessReport &a, const ProcessReport &b)
{
    Report one, other;
    one.processes = {a};
    other.processes = {b};
    return to_json(one) == to_json(other) ? "" : to_json(one) + " is not " + to_json(other);
}

ProcessReport extreme()
{
    ProcessReport process;
    process.host = std::string("a\0b", 3) + std::string(300, 'x');
    process.process = 4294967295u;
    process.routes = {{}, {.device = "ucx", .network = "san-a", .channel = 4294967295u, .address = "10.0.0.1",
                           .messages = 18446744073709551615u, .bytes = 127}};
    process.devices = {{}, {.device = "udp", .network = "lan", .messages_sent = 128, .bytes_sent = 16383,
                            .messages_received = 16384, .bytes_received = 18446744073709551615u, .detail = "1 packet"}};
    return process;
}

TEST(ReportBytes, ComeBackAsTheyWere)
{
    for (const ProcessReport &process : {ProcessReport{}, extreme(), twenty_ranks().processes[16]}) {
        Result<ProcessReport> back = unpack(pack(process));
        ASSERT_TRUE(back.ok()) << back.error().text;
        EXPECT_EQ(differences(process, back.value()), "");
        EXPECT_EQ(pack(back.value()), pack(process));
    }
}

TEST(ReportBytes, CutShortOrContinuedAreInvalid)
{
    for (const ProcessReport &process : {ProcessReport{}, extreme(), three_ranks().processes[0]}) {
        std::vector<std::byte> bytes = pack(process);
        for (std::size_t size = 0; size < bytes.size(); ++size) {
            Result<ProcessReport> cut = unpack(std::span(bytes).first(size));
            ASSERT_FALSE(cut.ok()) << size;
            EXPECT_EQ(cut.error().status, Status::invalid);
        }
        bytes.push_back(std::byte{0});
        EXPECT_FALSE(unpack(bytes).ok());
    }
}

TEST(ReportBytes, NumbersThatDoNotFitAreInvalid)
{
    auto bytes_of = [](std::initializer_list<int> values) {
        std::vector<std::byte> bytes;
        for (int value : values)
            bytes.push_back(static_cast<std::byte>(value));
        return bytes;
    };
    auto unpacked = [](const std::vector<std::byte> &bytes) { return unpack(bytes).ok(); };
    EXPECT_TRUE(unpacked(bytes_of({0xc1, 0, 0, 0, 0})));
    EXPECT_FALSE(unpacked(bytes_of({0xc0, 0, 0, 0, 0}))) << "another mark";
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0, 0x80, 0, 0, 0}))) << "a byte more than needed";
    EXPECT_TRUE(unpacked(bytes_of({0xc1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0}))) << "the largest process number";
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 0, 0}))) << "one more";
    // Sizes near 2^64, and lists longer than the bytes that are left.
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0, 0, 0})));
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0, 0, 0})));
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0})));
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 1}))) << "a text of one byte, and none is left";
    EXPECT_FALSE(unpacked(bytes_of({0xc1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f})));
}

// Random bytes after a mark, and good bytes with some of them changed: what is accepted is what pack() makes.
TEST(ReportBytes, RandomOnesDoNoHarm)
{
    test::for_each_seed(20000, [](std::uint64_t seed) -> std::string {
        test::Random random(seed);
        std::vector<std::byte> bytes;
        if (random.one_in(2)) {
            bytes = pack(random.one_in(2) ? extreme() : three_ranks().processes[random.below(3)]);
            for (std::uint64_t changes = random.between(1, 4); changes > 0; --changes)
                bytes[random.below(bytes.size())] = static_cast<std::byte>(random.next());
        } else {
            bytes.push_back(std::byte{0xc1});
            for (std::uint64_t size = random.below(64); size > 0; --size)
                bytes.push_back(static_cast<std::byte>(random.one_in(2) ? random.below(4) : random.next()));
        }
        Result<ProcessReport> process = unpack(bytes);
        if (!process.ok())
            return process.error().status == Status::invalid ? "" : "an error that is not invalid";
        return pack(process.value()) == bytes ? "" : "accepted bytes that pack() does not make";
    });
}

}  // namespace
}  // namespace pm

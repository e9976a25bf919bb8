// How long a multicast takes in the cost model of the paper (section 2.3; figures 8 and 9), played in virtual time with the
// schedule that the library uses (src/coll/mcast/schedule.h).
//
// The model: a message of n bytes takes S + n M, the same between any two members. A member sends one message after the other
// and receives one after the other, in the order in which they were sent, and does both at the same time. At the start the first
// member has everything: the master's message to it, the bitmap and the acknowledgements are in none of the formulas, and are
// not counted here either.
//
//   binomial          (n M + S) ceil(log2 p)                                     (1) of the paper
//   scatter_ring      2 ((p-1)/p) n M + (ceil(log2 p) + p - 1) S                 (5) of the paper
//   scatter_doubling  2 ((p-1)/p) n M + 2 ceil(log2 p) S                         not in the paper: (5) with fewer messages
//   chain             (n M / k + S) (p - 1 + k - 1), for k pieces                for k = 1 that of its section 2.3.1
//
// binomial sends everything in one piece; chain in as many as are best by its formula.
//
// The paper does not tell S and M. M is what its network is known for, about 10 GB/s. S is the one that gives its only figure in
// words, 1.3 ms for 80 KB to 256 members by scatter_ring.
//
// Promise: plays no run that may take more than --messages messages, and says so; a million of them take about 0.2 s and, where
// all are known from the start, as those of a ring, 12 MB.

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/ring_queue.h"
#include "coll/mcast/schedule.h"

namespace {

using pm::coll::Algorithm;

// Whole numbers: the same result on every machine.
using Time = std::chrono::duration<std::int64_t, std::pico>;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Costs {
    Time startup = std::chrono::nanoseconds(4880);
    Time byte = Time(100);

    Time of(std::uint64_t size) const { return startup + byte * static_cast<std::int64_t>(size); }
};

struct Options {
    Costs costs;
    std::uint64_t messages = 40'000'000;
    bool csv = true;
    bool markdown = true;
};

struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;
};

struct Played {
    Time time{0};
    std::uint64_t messages = 0;
};

class Model {
  public:
    Model(std::uint32_t members, const pm::coll::Shape &shape, const Costs &costs)
        : size_(static_cast<std::uint32_t>(shape.size)), costs_(costs), members_(members)
    {
        const pm::coll::Layout layout = pm::coll::make_layout(members, {}, -1);
        for (std::uint32_t position = 0; position < members; ++position) {
            const pm::coll::Role role = pm::coll::role_of(layout, shape, position);
            members_[position].children = role.children;
            members_[position].sends.reserve(role.sends.size());
            for (const pm::coll::Send &send : role.sends)
                members_[position].sends.push_back({send.to, range_of(send)});
        }
    }

    // Ends the program when some member does not have every byte once at the end.
    Played play(std::uint64_t pieces)
    {
        for (std::uint64_t piece = 0; piece < pieces; ++piece) {
            const std::uint64_t begin = size_ * piece / pieces, end = size_ * (piece + 1) / pieces;
            arrive(0, {static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)});
        }
        start_next(0, Time(0));
        while (!events_.empty()) {
            const Event event = events_.top();
            events_.pop();
            if (event.arrives) {
                played_.time = event.time;
                arrive(event.message.to, event.message.range);
            }
            if (event.frees) {
                members_[event.from].sending = false;
                start_next(event.from, event.time);
            }
            if (event.arrives)
                start_next(event.message.to, event.time);
        }
        for (const Member &member : members_)
            require(member.has.size() == 1 && member.has[0].begin == 0 && member.has[0].end == size_ &&
                        member.sent == member.sends.size() && member.forwards.empty(),
                    "a member lacks bytes");
        return played_;
    }

  private:
    struct Message {
        std::uint32_t to = 0;
        Range range;
    };
    struct Member {
        std::vector<std::uint32_t> children;
        std::vector<Message> sends;
        std::size_t sent = 0;
        pm::RingQueue<Message> forwards;
        std::vector<Range> has;  // in order; they do not touch
        Time receives_until{0};
        bool sending = false;
    };
    // The end of a message for its sender, for its receiver, or for both.
    struct Event {
        Time time;
        std::uint32_t from;
        bool frees, arrives;
        Message message;

        bool operator>(const Event &other) const { return time != other.time ? time > other.time : from > other.from; }
    };

    static void require(bool holds, const char *what)
    {
        if (holds)
            return;
        std::fprintf(stderr, "mcast_model: %s: the schedule is wrong\n", what);
        std::exit(1);
    }

    static Range range_of(const pm::coll::Send &send)
    {
        return {static_cast<std::uint32_t>(send.offset), static_cast<std::uint32_t>(send.offset + send.size)};
    }

    void arrive(std::uint32_t position, Range range)
    {
        Member &member = members_[position];
        auto after = std::ranges::lower_bound(member.has, range.begin, {}, &Range::begin);
        require((after == member.has.end() || range.end <= after->begin) &&
                    (after == member.has.begin() || (after - 1)->end <= range.begin),
                "a member gets a byte twice");
        auto here = member.has.insert(after, range);
        if (here + 1 != member.has.end() && here->end == (here + 1)->begin) {
            here->end = (here + 1)->end;
            member.has.erase(here + 1);
        }
        if (here != member.has.begin() && (here - 1)->end == here->begin) {
            (here - 1)->end = here->end;
            member.has.erase(here);
        }
        for (std::uint32_t child : member.children)
            member.forwards.emplace_back() = {child, range};
    }

    bool has(const Member &member, Range range) const
    {
        auto after = std::ranges::upper_bound(member.has, range.begin, {}, &Range::begin);
        return after != member.has.begin() && (after - 1)->end >= range.end;
    }

    void start_next(std::uint32_t position, Time now)
    {
        Member &member = members_[position];
        if (member.sending)
            return;
        if (!member.forwards.empty()) {
            const Message message = member.forwards.front();
            member.forwards.pop_front();
            start(position, message, now);
        } else if (member.sent < member.sends.size() && has(member, member.sends[member.sent].range)) {
            start(position, member.sends[member.sent++], now);
        }
    }

    void start(std::uint32_t from, const Message &message, Time now)
    {
        const Time cost = costs_.of(message.range.end - message.range.begin);
        Member &receiver = members_[message.to];
        const Time sent = now + cost;
        const Time received = std::max(now, receiver.receives_until) + cost;
        receiver.receives_until = received;
        members_[from].sending = true;
        ++played_.messages;
        if (sent != received)
            events_.push({sent, from, true, false, message});
        events_.push({received, from, sent == received, true, message});
    }

    std::uint64_t size_;
    Costs costs_;
    std::vector<Member> members_;
    std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
    Played played_;
};

std::int64_t steps(std::uint32_t members)
{
    return static_cast<std::int64_t>(std::bit_width(members - 1));  // ceil(log2)
}

std::uint64_t best_pieces(std::uint32_t members, std::uint64_t size, const Costs &costs)
{
    const double hops = members - 2.0, all = static_cast<double>((costs.byte * static_cast<std::int64_t>(size)).count());
    const double best = std::sqrt(hops * all / static_cast<double>(costs.startup.count()));
    return std::clamp(static_cast<std::uint64_t>(best), std::uint64_t{1}, size);
}

Time formula(Algorithm algorithm, std::uint32_t members, std::uint64_t size, std::uint64_t pieces, const Costs &costs)
{
    const std::int64_t others = members - 1;
    const Time all = costs.byte * static_cast<std::int64_t>(size), twice = 2 * all * others / static_cast<std::int64_t>(members);
    switch (algorithm) {
        case Algorithm::binomial:
            return (all + costs.startup) * steps(members);
        case Algorithm::scatter_ring:
            return twice + costs.startup * (steps(members) + others);
        case Algorithm::scatter_doubling:
            return twice + costs.startup * 2 * steps(members);
        case Algorithm::chain:
            break;
    }
    return (all / static_cast<std::int64_t>(pieces) + costs.startup) * (others + static_cast<std::int64_t>(pieces) - 1);
}

struct Run {
    std::uint64_t size = 0;
    std::uint32_t members = 0;
    Algorithm algorithm = Algorithm::binomial;
    std::uint64_t pieces = 1;
    bool fewer_pieces = false;  // than would be best: those are too many messages
    std::uint64_t most_messages = 0;
    Time formula{0};
    std::optional<Played> played;  // not when there may be too many messages
};

Run run(std::uint64_t size, std::uint32_t members, Algorithm algorithm, const Options &options)
{
    Run run;
    run.size = size;
    run.members = members;
    run.algorithm = algorithm;
    const std::uint64_t others = members - 1;
    if (algorithm == Algorithm::chain) {
        const std::uint64_t best = best_pieces(members, size, options.costs);
        run.pieces = std::min(best, std::max(options.messages / others, std::uint64_t{1}));
        run.fewer_pieces = run.pieces < best;
        run.most_messages = others * run.pieces;
    } else if (algorithm == Algorithm::scatter_ring) {
        run.most_messages = others * members;
    } else {
        run.most_messages = others * (algorithm == Algorithm::binomial ? 1 : static_cast<std::uint64_t>(steps(members)) + 1);
    }
    run.formula = formula(algorithm, members, size, run.pieces, options.costs);
    if (run.most_messages <= options.messages)
        run.played = Model(members, {algorithm, size, 1}, options.costs).play(run.pieces);
    return run;
}

double milliseconds(Time time)
{
    return Milliseconds(time).count();
}

constexpr Algorithm columns[] = {Algorithm::binomial, Algorithm::scatter_ring, Algorithm::scatter_doubling, Algorithm::chain};
constexpr std::uint32_t rows[] = {8, 16, 32, 64, 100, 128, 256, 1000, 1024, 4096, 65536};
struct Table {
    std::uint64_t size;
    const char *title;
};
// As many bytes as 10 K and 1 M numbers of eight.
constexpr Table tables[] = {{80 * 1024, "80 KB (figure 9)"}, {8 * 1024 * 1024, "8 MB (figure 8)"}};

void print_markdown(const Table &table, const std::vector<Run> &runs)
{
    std::printf("%s: milliseconds until the last member has everything, as played, and in parentheses by the formula\n\n",
                table.title);
    std::printf("| members |");
    for (Algorithm algorithm : columns)
        std::printf(" %s |", pm::coll::name_of(algorithm));
    std::printf(" pieces of chain |\n|%s\n", " ---: | ---: | ---: | ---: | ---: | ---: |");
    for (std::size_t i = 0; i < runs.size(); i += std::size(columns)) {
        std::printf("| %u |", runs[i].members);
        for (std::size_t column = 0; column < std::size(columns); ++column) {
            const Run &run = runs[i + column];
            if (run.played)
                std::printf(" %.3f (%.3f) |", milliseconds(run.played->time), milliseconds(run.formula));
            else
                std::printf(" left out (%.3f) |", milliseconds(run.formula));
        }
        const Run &chain = runs[i + std::size(columns) - 1];
        std::printf(" %llu%s |\n", static_cast<unsigned long long>(chain.pieces), chain.fewer_pieces ? ", more were better" : "");
    }
    std::printf("\n");
    for (const Run &run : runs)
        if (!run.played)
            std::printf("Left out: %s for %u members, which may take %llu messages; --messages sets how many are played.\n",
                        pm::coll::name_of(run.algorithm), run.members, static_cast<unsigned long long>(run.most_messages));
}

void print_csv(const std::vector<Run> &runs)
{
    for (const Run &run : runs) {
        std::printf("%llu,%u,%s,%llu,", static_cast<unsigned long long>(run.size), run.members, pm::coll::name_of(run.algorithm),
                    static_cast<unsigned long long>(run.pieces));
        if (run.played)
            std::printf("%llu,%.6f,", static_cast<unsigned long long>(run.played->messages), milliseconds(run.played->time));
        else
            std::printf(",,");
        std::printf("%.6f\n", milliseconds(run.formula));
    }
}

Options parse(int argc, char **argv)
{
    Options options;
    for (int i = 1; i < argc; ++i) {
        const bool has_number = i + 1 < argc && std::atoll(argv[i + 1]) > 0;
        if (std::strcmp(argv[i], "--startup-ns") == 0 && has_number)
            options.costs.startup = std::chrono::nanoseconds(std::atoll(argv[++i]));
        else if (std::strcmp(argv[i], "--byte-ps") == 0 && has_number)
            options.costs.byte = Time(std::atoll(argv[++i]));
        else if (std::strcmp(argv[i], "--messages") == 0 && has_number)
            options.messages = static_cast<std::uint64_t>(std::atoll(argv[++i]));
        else if (std::strcmp(argv[i], "--csv") == 0)
            options.markdown = false;
        else if (std::strcmp(argv[i], "--markdown") == 0)
            options.csv = false;
        else {
            std::fprintf(stderr, "mcast_model: unknown argument '%s', or a number is missing behind it\n"
                         "usage: mcast_model [--startup-ns S] [--byte-ps M] [--messages MOST] [--csv | --markdown]\n", argv[i]);
            std::exit(1);
        }
    }
    return options;
}

}  // namespace

int main(int argc, char **argv)
{
    const Options options = parse(argc, argv);
    std::vector<std::vector<Run>> results;
    for (const Table &table : tables) {
        static_assert(std::ranges::all_of(tables, [](const Table &one) {
            return one.size <= std::numeric_limits<decltype(Range::end)>::max();
        }));
        std::vector<Run> &runs = results.emplace_back();
        for (std::uint32_t members : rows)
            for (Algorithm algorithm : columns)
                runs.push_back(run(table.size, members, algorithm, options));
    }
    if (options.markdown) {
        std::printf("S = %.3f us, M = %.3f ns a byte\n\n", milliseconds(options.costs.startup) * 1e3,
                    milliseconds(options.costs.byte) * 1e6);
        for (std::size_t i = 0; i < std::size(tables); ++i) {
            print_markdown(tables[i], results[i]);
            std::printf("\n");
        }
    }
    if (options.csv) {
        std::printf("size,members,algorithm,pieces,messages,played_ms,formula_ms\n");
        for (const std::vector<Run> &runs : results)
            print_csv(runs);
    }
    return 0;
}

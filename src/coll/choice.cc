#include "coll/choice.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/joined.h"
#include "base/status.h"
#include "base/tuning.h"
#include "netmod/core/failed.h"

namespace {

using pm::Error;
using pm::Result;
using pm::Status;

enum class Choice { automatic, messages, board, memory };

// As in the names of settings, and in tables.
const std::array<const char *, PM_COLLECTIVES> names{"barrier", "bcast",     "reduce",   "allreduce",      "gather",
                                                    "scatter", "allgather", "alltoall", "reduce_scatter", "scan"};

// For up to so many ranks, up to so many bytes go on the board.
struct Line {
    pm_collective operation;
    int ranks;
    std::size_t bytes;
};

// Two ranks gather and scatter as one sends to the other.
bool has_pieces(pm_collective operation, int ranks)
{
    return operation != PM_COLL_BARRIER && (ranks == 2 || (operation != PM_COLL_GATHER && operation != PM_COLL_SCATTER));
}

std::string upper(std::string text)
{
    std::ranges::transform(text, text.begin(), [](char each) { return each >= 'a' && each <= 'z' ? static_cast<char>(each - 'a' + 'A') : each; });
    return text;
}

std::optional<Choice> parse_choice(std::string_view word)
{
    if (word == "auto")
        return Choice::automatic;
    if (word == "messages")
        return Choice::messages;
    if (word == "board")
        return Choice::board;
    if (word == "memory")
        return Choice::memory;
    return std::nullopt;
}

std::vector<std::string> words_of(std::string_view line)
{
    std::vector<std::string> words;
    line = line.substr(0, line.find('#'));
    while (true) {
        line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
        if (line.empty())
            return words;
        std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
        words.emplace_back(line.substr(0, end));
        line.remove_prefix(end);
    }
}

template <class Number>
bool parse_number(const std::string &word, Number *number)
{
    auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), *number);
    return error == std::errc() && stop == word.data() + word.size();
}

Result<Line> parse_line(const std::vector<std::string> &words, const std::string &where)
{
    auto wrong = [&](const std::string &what) {
        return Error{Status::invalid, where + what + "; a line is OPERATION RANKS BYTES, such as: bcast 8 65536"};
    };
    if (words.size() != 3)
        return wrong(std::to_string(words.size()) + " words");
    auto name = std::ranges::find_if(names, [&](const char *each) { return words[0] == each; });
    if (name == names.end() || name == names.begin())
        return wrong("unknown operation \"" + words[0] + "\", known are " + pm::joined({names.begin() + 1, names.end()}, ", "));
    Line line{static_cast<pm_collective>(name - names.begin()), 0, SIZE_MAX};
    if (!parse_number(words[1], &line.ranks) || line.ranks < 2)
        return wrong("\"" + words[1] + "\" is no number of ranks from 2 on");
    if (words[2] != "all" && !parse_number(words[2], &line.bytes))
        return wrong("\"" + words[2] + "\" is no number of bytes, nor all");
    return line;
}

Result<std::vector<Line>> parse_table(std::istream &text, const std::string &path)
{
    std::vector<Line> table;
    std::string line;
    for (int number = 1; std::getline(text, line); ++number) {
        std::string where = path + ":" + std::to_string(number) + ": ";
        std::vector<std::string> words = words_of(line);
        if (words.empty())
            continue;
        Result<Line> parsed = parse_line(words, where);
        if (!parsed.ok())
            return parsed.error();
        auto same = [&](const Line &each) { return each.operation == parsed.value().operation && each.ranks == parsed.value().ranks; };
        if (std::ranges::any_of(table, same))
            return Error{Status::invalid, where + words[0] + " for " + words[1] + " ranks is in an earlier line, too"};
        table.push_back(parsed.value());
    }
    return table;
}

Result<std::vector<Line>> read_table(const std::string &path)
{
    const std::string setting = " (MPIR_CVAR_CH4_COMPOSITE_COLL_TABLE)";
    std::ifstream file(path);
    if (!file) {
        Error error = pm::system_error("the table of collectives " + path + setting, errno);
        return Error{error.status, error.text + "; mpicomposite collectives -o FILE writes one"};
    }
    Result<std::vector<Line>> table = parse_table(file, path);
    if (file.bad())
        return Error{Status::failed, path + " could not be read" + setting};
    return table;
}

// Of the lines for as many ranks, the one for the fewest.
const Line *line_of(const std::vector<Line> &table, pm_collective operation, int ranks)
{
    const Line *best = nullptr;
    for (const Line &each : table)
        if (each.operation == operation && each.ranks >= ranks && (best == nullptr || each.ranks < best->ranks))
            best = &each;
    return best;
}

// Where memory can be read.
std::size_t usual_limit(pm_collective operation, int ranks, bool crowded)
{
    const bool pair = ranks == 2 && !crowded;
    const std::size_t own_cores = pair ? PM_TEAM_PAIR_PIECES_LIMIT : PM_TEAM_OWN_CORES_PIECES;
    switch (operation) {
        case PM_COLL_BCAST:
            return crowded ? PM_TEAM_BCAST_PIECES : own_cores;
        case PM_COLL_REDUCE:
            if (pair)
                return own_cores;
            // Who reduces does nothing else, and others go on writing meanwhile.
            return ranks <= (crowded ? PM_TEAM_REDUCE_PIECES_CROWD : PM_TEAM_REDUCE_PIECES_RANKS) ? SIZE_MAX : PM_TEAM_PAGE;
        case PM_COLL_ALLTOALL:
            if (!crowded)
                return pair ? PM_TEAM_PAIR_ALLTOALL : own_cores;
            return ranks > PM_TEAM_ALLTOALL_PIECES_RANKS ? PM_TEAM_ALLTOALL_PIECES : SIZE_MAX;
        case PM_COLL_GATHER:
        case PM_COLL_SCATTER:
            return crowded ? PM_TEAM_PAGE : own_cores;
        case PM_COLL_ALLGATHER:
            return crowded ? SIZE_MAX : own_cores;
        case PM_COLL_ALLREDUCE:
        case PM_COLL_REDUCE_SCATTER:
            return SIZE_MAX;
        default:
            return PM_TEAM_PAGE;
    }
}

}  // namespace

struct pm_choices {
    std::array<Choice, PM_COLLECTIVES> chosen{};
    std::vector<Line> table;
};

extern "C" {

pm_choices *pm_choices_open(const char *const words[PM_COLLECTIVES], const char *table)
{
    auto choices = std::make_unique<pm_choices>();
    for (int operation = 0; operation < PM_COLLECTIVES; ++operation) {
        std::optional<Choice> choice = parse_choice(words[operation]);
        if (!choice) {
            pm::failed({Status::invalid, "unknown way \"" + std::string(words[operation]) + "\" in MPIR_CVAR_CH4_COMPOSITE_COLL_" +
                                             upper(names[operation]) + "; known are auto, messages, board, memory"});
            return nullptr;
        }
        choices->chosen[operation] = *choice;
    }
    if (std::string_view(table) == "none")
        return choices.release();
    Result<std::vector<Line>> lines = read_table(table);
    if (!lines.ok()) {
        pm::failed(lines.error());
        return nullptr;
    }
    choices->table = std::move(lines.value());
    return choices.release();
}

void pm_choices_close(pm_choices *choices)
{
    delete choices;
}

pm_switch pm_switch_of(const pm_choices *choices, pm_collective operation, int ranks, int reads, int crowded)
{
    Choice choice = choices->chosen[operation];
    if (choice == Choice::messages)
        return {.board = 0, .memory = 0, .messages = 1};
    // A scan goes from rank to rank, by nothing but the board.
    if (choice == Choice::board || !reads || operation == PM_COLL_SCAN)
        return {.board = has_pieces(operation, ranks) ? SIZE_MAX : PM_TEAM_PAGE, .memory = 0, .messages = 0};
    if (choice == Choice::memory)
        return {.board = 0, .memory = 1, .messages = 0};
    const Line *line = line_of(choices->table, operation, ranks);
    std::size_t limit = line != nullptr ? line->bytes : usual_limit(operation, ranks, crowded);
    return {.board = has_pieces(operation, ranks) ? limit : std::min<std::size_t>(limit, PM_TEAM_PAGE), .memory = 1, .messages = 0};
}

int pm_by_leaders(const pm_choices *choices, pm_collective operation, size_t bytes)
{
    if (choices->chosen[operation] == Choice::messages)
        return 0;
    switch (operation) {
        case PM_COLL_BARRIER:
        case PM_COLL_BCAST:
            return 1;
        case PM_COLL_REDUCE:
        case PM_COLL_ALLREDUCE:
        case PM_COLL_REDUCE_SCATTER:
        case PM_COLL_GATHER:
        case PM_COLL_SCATTER:
            return bytes <= PM_LEADERS_REDUCE_LIMIT;
        case PM_COLL_ALLGATHER:
            return bytes <= PM_LEADERS_GATHER_LIMIT;
        case PM_COLL_ALLTOALL:
            return bytes <= PM_LEADERS_ALLTOALL_LIMIT;
        case PM_COLL_SCAN:
            return bytes <= PM_LEADERS_SCAN_LIMIT;
        default:
            return 0;
    }
}

int pm_some_in_whole(size_t bytes)
{
    return bytes <= PM_SOME_SHORT_LIMIT;
}

int pm_some_bcast_in_whole(size_t bytes, int members, int near)
{
    return pm_some_in_whole(bytes) || members <= 2 || near;
}

int pm_some_by_tree(size_t bytes, int members)
{
    return bytes <= PM_SOME_TREE_BLOCK && members > PM_SOME_FLAT_MEMBERS;
}

}  // extern "C"

#include "netmod/report/state.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "base/escape.h"

namespace pm {
namespace {

using Words = std::vector<std::string_view>;

template <class Number>
bool read(std::string_view text, Number *number)
{
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
    return error == std::errc() && end == text.data() + text.size();
}

Words split(std::string_view text, char separator)
{
    Words words;
    for (std::size_t at = 0; at <= text.size();) {
        std::size_t end = std::min(text.find(separator, at), text.size());
        words.push_back(text.substr(at, end - at));
        at = end + 1;
    }
    return words;
}

bool read_operation(const Words &words, Operation *operation)
{
    if (words.size() != 6 || !read(words[2], &operation->peer) || !read(words[3], &operation->tag) || !read(words[5], &operation->bytes))
        return false;
    operation->kind = words[1];
    operation->communicator = words[4];
    return true;
}

std::string line_of(const char *word, const Operation &each)
{
    return std::string(word) + "\t" + each.kind + "\t" + std::to_string(each.peer) + "\t" + std::to_string(each.tag) + "\t" +
           each.communicator + "\t" + std::to_string(each.bytes) + "\n";
}

constexpr std::array<std::pair<Doing, const char *>, 9> words_of_doing{{{Doing::calls, "calls"},
                                                                        {Doing::computes, "computes"},
                                                                        {Doing::sleeps, "sleeps"},
                                                                        {Doing::starts, "starts"},
                                                                        {Doing::finalizes, "finalizes"},
                                                                        {Doing::over, "over"},
                                                                        {Doing::stopped, "stopped"},
                                                                        {Doing::ended, "ended"},
                                                                        {Doing::unreachable, "unreachable"}}};

// One line of an answer. False: it is none.
bool read_line(const Words &words, State *state)
{
    std::string_view key = words[0];
    Call *call = state->calls.empty() ? nullptr : &state->calls.back();
    if (key == "rank") {
        if (words.size() != 6)
            return false;
        state->host = words[5];
        return read(words[1], &state->group) && read(words[2], &state->rank) && read(words[3], &state->size) && read(words[4], &state->process);
    }
    if (key == "doing") {
        auto doing = words.size() == 3 ? doing_of(words[1]) : std::nullopt;
        if (!doing)
            return false;
        state->doing = *doing;
        state->detail = words[2];
        return true;
    }
    if (key == "communicator") {
        Communicator each;
        auto members = words.size() == 6 ? RankSet::parse(words[4]) : std::nullopt;
        if (!members || !read(words[2], &each.size) || !read(words[3], &each.collectives))
            return false;
        each.id = words[1];
        each.members = *members;
        each.name = words[5];
        state->communicators.push_back(std::move(each));
        return true;
    }
    if (key == "call") {
        Call each;
        if (words.size() != 4 || !read(words[2], &each.number))
            return false;
        each.name = words[1];
        if (std::uint64_t milliseconds = 0; read(words[3], &milliseconds))
            each.milliseconds = milliseconds;
        state->calls.push_back(std::move(each));
        return true;
    }
    if (key == "unexpected" || key == "posted") {
        Operation each;
        if (!read_operation(words, &each))
            return false;
        (key == "posted" ? state->posted : state->unexpected).push_back(std::move(each));
        return true;
    }
    if (key == "more")
        return words.size() == 3 && read(words[1], &state->more_unexpected) && read(words[2], &state->more_posted);
    if (key == "lock") {
        Lock each;
        if (words.size() != 4 || !read(words[2], &each.target))
            return false;
        each.window = words[1];
        each.kind = words[3];
        state->locks.push_back(std::move(each));
        return true;
    }
    if (key == "path") {
        int rank = 0;
        if (words.size() != 3 || !read(words[1], &rank))
            return false;
        state->paths[rank] = words[2];
        return true;
    }
    if (call == nullptr)
        return false;
    if (key == "on" && words.size() == 3) {
        call->communicator = words[1];
        call->window = words[2];
        return true;
    }
    if (key == "to")
        return words.size() == 3 && read(words[1], &call->to) && read(words[2], &call->to_tag);
    if (key == "from")
        return words.size() == 3 && read(words[1], &call->from) && read(words[2], &call->from_tag);
    if (key == "bytes") {
        std::uint64_t bytes = 0;
        if (words.size() != 2 || !read(words[1], &bytes))
            return false;
        call->bytes = bytes;
        return true;
    }
    if (key == "group") {
        auto group = words.size() == 2 ? RankSet::parse(words[1]) : std::nullopt;
        if (group)
            call->group = *group;
        return group.has_value();
    }
    if (key == "pending") {
        Operation each;
        if (!read_operation(words, &each))
            return false;
        call->pending.push_back(std::move(each));
        return true;
    }
    return false;
}

std::string seconds(std::uint64_t milliseconds)
{
    char text[40];
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(milliseconds) / 1000);
    return text;
}

std::string tag_in_words(int tag)
{
    return tag == tag_any ? ", any tag" : tag == tag_unknown ? "" : ", tag " + std::to_string(tag);
}

std::string operation_in_words(const State &state, const Operation &each, bool size)
{
    std::string text = each.kind;
    if (each.peer != rank_none)
        text += (each.kind == "send" ? " to " : each.kind == "receive" || each.kind == "message" ? " from " : " with ") + peer_in_words(each.peer);
    text += tag_in_words(each.tag);
    if (size)
        text += ", " + std::to_string(each.bytes) + " bytes";
    if (!each.communicator.empty())
        text += ", " + state.communicator_name(each.communicator);
    return text;
}

}  // namespace

std::optional<RankSet> RankSet::parse(std::string_view text)
{
    RankSet set;
    if (text.empty())
        return set;
    for (std::string_view range : split(text, ',')) {
        Words ends = split(range, '-');
        int first = 0, last = 0;
        if (ends.size() > 2 || !read(ends[0], &first) || !read(ends.back(), &last) || first < 0 || last < first ||
            (!set.ranges_.empty() && first <= set.ranges_.back().second))
            return std::nullopt;
        set.ranges_.emplace_back(first, last);
    }
    return set;
}

void RankSet::add(int rank)
{
    auto at = std::ranges::find_if(ranges_, [rank](auto range) { return range.second >= rank - 1; });
    if (at == ranges_.end() || at->first > rank + 1) {
        ranges_.insert(at, {rank, rank});
        return;
    }
    at->first = std::min(at->first, rank);
    at->second = std::max(at->second, rank);
    if (auto next = at + 1; next != ranges_.end() && next->first <= at->second + 1) {
        at->second = std::max(at->second, next->second);
        ranges_.erase(next);
    }
}

bool RankSet::contains(int rank) const
{
    return std::ranges::any_of(ranges_, [rank](auto range) { return range.first <= rank && rank <= range.second; });
}

int RankSet::count() const
{
    int sum = 0;
    for (auto [first, last] : ranges_)
        sum += last - first + 1;
    return sum;
}

std::string RankSet::text() const
{
    std::string text;
    for (auto [first, last] : ranges_)
        text += (text.empty() ? "" : ",") + std::to_string(first) + (first == last ? "" : "-" + std::to_string(last));
    return text;
}

const Communicator *State::communicator(std::string_view id) const
{
    auto found = std::ranges::find_if(communicators, [id](const Communicator &each) { return each.id == id; });
    return found == communicators.end() ? nullptr : &*found;
}

std::string State::communicator_name(std::string_view id) const
{
    const Communicator *found = communicator(id);
    if (found == nullptr || found->name.empty())
        return "communicator " + std::string(id) + (found == nullptr ? "" : " of " + std::to_string(found->size) + " ranks");
    return found->name;
}

const char *word_of(Doing doing)
{
    for (auto [each, word] : words_of_doing)
        if (each == doing)
            return word;
    return "calls";
}

std::optional<Doing> doing_of(std::string_view text)
{
    for (auto [doing, word] : words_of_doing)
        if (text == word)
            return doing;
    return std::nullopt;
}

std::optional<State> parse_state(std::string_view text)
{
    State state;
    for (std::string_view line : split(text, '\n'))
        if (!line.empty() && !read_line(split(line, '\t'), &state))
            return std::nullopt;
    if (state.rank < 0)
        return std::nullopt;
    return state;
}

std::string to_lines(const State &state)
{
    auto number = [](auto value) { return "\t" + std::to_string(value); };
    std::string text = "rank" + number(state.group) + number(state.rank) + number(state.size) + number(state.process) + "\t" + state.host + "\n";
    text += std::string("doing\t") + word_of(state.doing) + "\t" + state.detail + "\n";
    for (const Communicator &each : state.communicators)
        text += "communicator\t" + each.id + number(each.size) + number(each.collectives) + "\t" + each.members.text() + "\t" + each.name + "\n";
    for (const Call &call : state.calls) {
        text += "call\t" + call.name + number(call.number) + "\t" + (call.milliseconds ? std::to_string(*call.milliseconds) : "-") + "\n";
        text += "on\t" + call.communicator + "\t" + call.window + "\n";
        text += "to" + number(call.to) + number(call.to_tag) + "\nfrom" + number(call.from) + number(call.from_tag) + "\n";
        if (call.bytes)
            text += "bytes" + number(*call.bytes) + "\n";
        if (!call.group.empty())
            text += "group\t" + call.group.text() + "\n";
        for (const Operation &each : call.pending)
            text += line_of("pending", each);
    }
    for (const Operation &each : state.unexpected)
        text += line_of("unexpected", each);
    for (const Operation &each : state.posted)
        text += line_of("posted", each);
    text += "more" + number(state.more_unexpected) + number(state.more_posted) + "\n";
    for (const Lock &each : state.locks)
        text += "lock\t" + each.window + number(each.target) + "\t" + each.kind + "\n";
    for (const auto &[rank, path] : state.paths)
        text += "path" + number(rank) + "\t" + path + "\n";
    return text;
}

std::string peer_in_words(int rank)
{
    return rank == rank_any ? "any rank" : rank == rank_elsewhere ? "a rank of another job" : "rank " + std::to_string(rank);
}

std::string call_in_words(const State &state, const Call &call)
{
    std::string text = call.name;
    if (call.to != rank_none)
        text += " to " + peer_in_words(call.to) + tag_in_words(call.to_tag);
    if (call.from != rank_none)
        text += " from " + peer_in_words(call.from) + tag_in_words(call.from_tag);
    if (!call.group.empty())
        text += " for ranks " + call.group.text();
    if (!call.window.empty())
        text += ", window " + call.window;
    if (!call.communicator.empty())
        text += ", " + state.communicator_name(call.communicator);
    for (int peer : {call.to, call.from})
        if (auto path = state.paths.find(peer); path != state.paths.end() && (peer == call.to || call.from != call.to)) {
            text += ", over " + path->second;
            break;
        }
    if (call.milliseconds)
        text += ", for " + seconds(*call.milliseconds);
    return text;
}

std::string state_in_words(const State &state)
{
    std::string text = "rank " + std::to_string(state.rank) + (state.group == 0 ? "" : " of spawned group " + std::to_string(state.group)) + " on " +
                       plain_text(state.host) + (state.process > 0 ? " (process " + std::to_string(state.process) + ")" : "") + ": ";
    static constexpr std::size_t most = 8;
    auto list = [&](const char *title, const std::vector<Operation> &these, std::uint64_t more, bool size) {
        if (these.empty())
            return;
        text += std::string("    ") + title + ":\n";
        for (std::size_t i = 0; i < std::min(these.size(), most); ++i)
            text += "        " + operation_in_words(state, these[i], size) + "\n";
        if (these.size() + more > most)
            text += "        and " + std::to_string(these.size() + more - std::min(these.size(), most)) + " more\n";
    };
    if (state.doing != Doing::calls || state.calls.empty())
        return text + plain_text(state.detail.empty() ? word_of(state.doing) : state.detail) + "\n";
    for (std::size_t i = 0; i < state.calls.size(); ++i) {
        text += (i == 0 ? "in " : "    another thread: in ") + call_in_words(state, state.calls[i]) + "\n";
        list("waits for", state.calls[i].pending, 0, false);
    }
    list("posted receives", state.posted, state.more_posted, false);
    list("unexpected messages", state.unexpected, state.more_unexpected, true);
    for (const Lock &each : state.locks)
        text += "    holds " + std::string(each.kind == "exclusive" ? "an exclusive" : "a shared") + " lock of " + peer_in_words(each.target) + ", window " +
                each.window + "\n";
    return text;
}

}  // namespace pm

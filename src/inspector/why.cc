// mpicomposite why: what the ranks of a job wait for.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/escape.h"
#include "base/file.h"
#include "inspector/asking.h"
#include "inspector/commands.h"
#include "netmod/report/cause.h"

namespace pm::inspector {
namespace {

constexpr int time_without_a_word = 6000;  // milliseconds, after which a host is taken for lost: its ranks have time_to_answer

int complain(const std::string &sentence)
{
    std::fprintf(stderr, "mpicomposite: %s\n", sentence.c_str());
    return failure;
}

std::optional<int> number(std::string_view text)
{
    int value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() && value > 0 ? std::optional(value) : std::nullopt;
}

// ---- the part of a proxy: it tells which processes it started for which ranks, and passes on what is said ----

int ask_for_proxy(Words words)
{
    std::vector<Started> ranks;
    for (std::size_t i = 1; i < words.size(); ++i) {
        Started each{};
        if (std::sscanf(words[i], "%d:%d", &each.rank, &each.process) != 2)
            return refuse("why --ranks takes a group, and RANK:PID for each rank");
        ranks.push_back(each);
    }
    for (const State &state : ask_ranks(words.empty() ? 0 : std::atoi(words[0]), ranks))
        std::printf("%send\n", to_lines(state).c_str());
    return success;
}

// ---- mpiexec ----

// A connection to the mpiexec with this number, if it is one of ours.
File connect_to(pid_t process)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    int length = std::snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "mpich-composite-%d", static_cast<int>(process));
    File connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (connection.get() < 0 || connect(connection.get(), reinterpret_cast<sockaddr *>(&address),
                                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length))) != 0)
        return {};
    // Anybody may take such a name: what somebody else says about a process is not believed.
    ucred peer{};
    socklen_t size = sizeof peer;
    if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid != process || (peer.uid != getuid() && getuid() != 0))
        return {};
    return connection;
}

// Those of this host that this user may ask.
std::vector<pid_t> all_mpiexecs()
{
    std::vector<pid_t> found;
    std::ifstream file("/proc/net/unix");
    for (std::string line; std::getline(file, line);)
        if (auto at = line.find(" @mpich-composite-"); at != std::string::npos)
            if (auto process = number(std::string_view(line).substr(at + 18)))
                if (std::ranges::find(found, *process) == found.end() && access(("/proc/" + std::to_string(*process) + "/fd").c_str(), R_OK) == 0)
                    found.push_back(*process);
    return found;
}

// Whether a process was started by another one, or by what that started.
bool stems_from(pid_t process, pid_t other)
{
    while (process > 1 && process != other)
        process = parent_of(process);
    return process == other;
}

// Its number, and its command as far as a line has room.
std::string job_line(pid_t process)
{
    std::ifstream file("/proc/" + std::to_string(process) + "/cmdline", std::ios::binary);
    std::string words((std::istreambuf_iterator<char>(file)), {});
    std::ranges::replace(words, '\0', ' ');
    return "\n    " + std::to_string(process) + "  " + plain_text(words.substr(0, 100));
}

struct Host {
    int group, proxy, processes, size, connected;
    std::string name;
    std::string text;
    bool done = false;
};

// What comes, by lines and by bytes, for as long as somebody says something.
class Reader {
  public:
    explicit Reader(const File &file) : file_(file.get()) {}

    bool line(std::string *text)
    {
        std::size_t end;
        while ((end = buffer_.find('\n')) == std::string::npos)
            if (!more())
                return false;
        *text = buffer_.substr(0, end);
        buffer_.erase(0, end + 1);
        return true;
    }

    bool bytes(std::size_t size, std::string *text)
    {
        while (buffer_.size() < size)
            if (!more())
                return false;
        text->append(buffer_, 0, size);
        buffer_.erase(0, size);
        return true;
    }

  private:
    bool more()
    {
        char piece[16384];
        pollfd entry{file_, POLLIN, 0};
        if (poll(&entry, 1, time_without_a_word) <= 0)
            return false;
        ssize_t size = read(file_, piece, sizeof piece);
        if (size > 0)
            buffer_.append(piece, static_cast<std::size_t>(size));
        return size > 0;
    }

    int file_;
    std::string buffer_;
};

std::vector<Host> read_hosts(const File &connection)
{
    std::vector<Host> hosts;
    Reader reader(connection);
    for (std::string line; reader.line(&line) && line != "all";) {
        Host host{};
        int name = 0;
        if (std::sscanf(line.c_str(), "host %d %d %d %d %d %n", &host.group, &host.proxy, &host.processes, &host.size, &host.connected, &name) == 5 && name > 0) {
            host.name = line.substr(static_cast<std::size_t>(name));
            hosts.push_back(std::move(host));
        }
    }
    for (std::string line; reader.line(&line);) {
        int group = 0, proxy = 0, size = 0;
        if (std::sscanf(line.c_str(), "from %d %d %d", &group, &proxy, &size) != 3 || size < 0)
            break;
        auto host = std::ranges::find_if(hosts, [=](const Host &each) { return each.group == group && each.proxy == proxy; });
        std::string unknown;
        if (!reader.bytes(static_cast<std::size_t>(size), host == hosts.end() ? &unknown : &host->text))
            break;
        if (host != hosts.end())
            host->done |= size == 0;
    }
    return hosts;
}

// The states that a host told, and one of our own making for each rank of which nobody spoke.
std::vector<State> states_of(const std::vector<Host> &hosts)
{
    std::vector<State> states;
    std::map<int, RankSet> known;
    std::map<const Host *, int> missing;
    for (const Host &host : hosts) {
        missing[&host] = host.processes;
        for (std::size_t at = 0, end; (end = host.text.find("end\n", at)) != std::string::npos; at = end + 4)
            if (auto state = parse_state(std::string_view(host.text).substr(at, end - at))) {
                known[state->group].add(state->rank);
                --missing[&host];
                states.push_back(std::move(*state));
            }
    }
    for (const Host &host : hosts)
        for (int rank = 0; rank < host.size && missing[&host] > 0; ++rank)
            if (!known[host.group].contains(rank)) {
                known[host.group].add(rank);
                --missing[&host];
                State state;
                state.group = host.group;
                state.rank = rank;
                state.size = host.size;
                state.host = host.name;
                state.doing = Doing::unreachable;
                state.detail = host.done ? "its host could not ask it: is mpicomposite installed there?" : "its host does not answer";
                states.push_back(std::move(state));
            }
    return states;
}

int tell(const std::vector<State> &states)
{
    if (states.empty())
        return complain("mpiexec knows of no rank");
    std::fputs(answer_in_words(states).c_str(), stdout);
    return success;
}

// A process without an mpiexec that we may ask here.
int ask_alone(pid_t process)
{
    for (pid_t above = process; above > 1; above = parent_of(above)) {
        std::ifstream file("/proc/" + std::to_string(above) + "/cmdline", std::ios::binary);
        std::string words((std::istreambuf_iterator<char>(file)), {});
        if (auto at = words.find("--control-port"); at != std::string::npos && words.find("hydra_pmi_proxy") != std::string::npos) {
            std::string where(words.c_str() + at + sizeof "--control-port");
            return complain("the mpiexec of process " + std::to_string(process) + " runs elsewhere (" + where.substr(0, where.rfind(':')) +
                            "): ask there, by its number or without any");
        }
    }
    if (!has_question_page(process))
        return complain("process " + std::to_string(process) + " is no mpiexec and no rank of a job that you may ask");
    std::vector<Started> ranks{{0, process}};
    std::vector<State> states = ask_ranks(0, ranks);
    std::fputs("(only this process: its mpiexec is not found)\n", stdout);
    return tell(states);
}

}  // namespace

int why(Words words)
{
    if (!words.empty() && std::string_view(words[0]) == "--ranks")
        return ask_for_proxy(words.subspan(1));
    if (words.size() > 1)
        return refuse("why takes one number of a process at most");
    std::vector<pid_t> found = all_mpiexecs();
    if (!words.empty()) {
        auto process = number(words[0]);
        if (!process)
            return refuse("\"" + std::string(words[0]) + "\" is no number of a process");
        for (pid_t above = *process; above > 1; above = parent_of(above))
            if (File connection = connect_to(above); connection.get() >= 0)
                return tell(states_of(read_hosts(connection)));
        // A script, or timeout(1) and its like, that started the job.
        std::erase_if(found, [&](pid_t each) { return !stems_from(each, *process); });
        if (found.empty())
            return ask_alone(*process);
    }
    if (found.size() > 1) {
        std::string list;
        for (pid_t each : found)
            list += job_line(each);
        return complain("there are several jobs: say which mpiexec is meant, by its number:" + list);
    }
    File connection = found.empty() ? File() : connect_to(found[0]);
    return connection.get() < 0 ? complain("no mpiexec of yours runs on this host") : tell(states_of(read_hosts(connection)));
}

}  // namespace pm::inspector

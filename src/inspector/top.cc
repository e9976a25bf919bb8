// What the ranks of this host do while they run. On a terminal the table stays at the bottom and what the job prints goes by above it;
// otherwise there is a line for each rank and look.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "inspector/commands.h"
#include "inspector/ranks.h"
#include "netmod/report/table.h"
#include "profile/summary.h"

namespace pm::inspector {
namespace {

using Clock = std::chrono::steady_clock;

struct Request {
    double interval = 1;  // seconds
    long count = -1;      // looks; negative: until the job ends
    pid_t process = 0;    // of a job that runs
    Words command;
    std::string trouble;
};

Request parse(Words words)
{
    Request request;
    std::size_t place = 0;
    auto refused = [&](const std::string &sentence) {
        request.trouble = sentence;
        return request;
    };
    for (; place < words.size() && words[place][0] == '-' && std::string_view(words[place]) != "--"; place += 2) {
        std::string_view option = words[place], number = place + 1 < words.size() ? words[place + 1] : "";
        const char *end = number.data() + number.size();
        bool is_interval = option == "--interval";
        if (!is_interval && option != "--count")
            return refused("top knows no option \"" + std::string(option) + "\"; known are --interval and --count");
        auto [stop, error] = is_interval ? std::from_chars(number.data(), end, request.interval, std::chars_format::fixed)
                                         : std::from_chars(number.data(), end, request.count);
        if (error != std::errc{} || stop != end || !(request.interval >= 0.05 && request.interval <= 86400) || request.count == 0)
            return refused(is_interval ? "behind --interval there must be seconds, 0.05 or more" : "behind --count there must be a number, 1 or more");
    }
    bool dashes = place < words.size() && std::string_view(words[place]) == "--";
    request.command = words.subspan(std::min(place + (dashes ? 1 : 0), words.size()));
    if (request.command.empty())
        return refused("top needs a command that starts a job, or the number of a process: mpicomposite top -- mpiexec -n 4 ./program");
    std::string_view first = request.command[0];
    auto [stop, error] = std::from_chars(first.data(), first.data() + first.size(), request.process);
    if (request.command.size() > 1 || error != std::errc{} || stop != first.data() + first.size())
        request.process = 0;
    return request;
}

// `output`: where what it prints goes; negative: where ours does.
pid_t start(Words command, int output)
{
    pid_t parent = getpid(), job = fork();
    if (job != 0)
        return job;
    std::signal(SIGINT, SIG_DFL);
    if (output >= 0) {
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // a job does not outlive who shows it
    if (getppid() == parent)
        execvp(command[0], command.data());
    std::fprintf(stderr, "mpicomposite: cannot start \"%s\": %s\n", command[0], std::strerror(errno));
    _exit(failure);
}

// What the job prints goes by above the table. A line that it has not ended yet is part of what is drawn again.
class Screen {
  public:
    explicit Screen(bool terminal) : terminal_(terminal) {}
    ~Screen()
    {
        if (begun_.empty())
            return;
        erase();
        write(begun_);
    }

    void print(std::string_view text)
    {
        erase();
        begun_ += text;
        std::size_t whole = begun_.rfind('\n') + 1;  // npos + 1 is 0
        write(begun_.substr(0, whole));
        begun_.erase(0, whole);
        draw();
    }
    void show(const std::string &heading, const Table &table)
    {
        std::string text = heading + "\n" + aligned(table, false);
        table_.clear();
        for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
            table_.push_back(text.substr(begin, end - begin));
        erase();
        draw();
    }

  private:
    static void write(const std::string &text)
    {
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
    }
    winsize size() const
    {
        winsize found{};
        if (!terminal_ || ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0)
            found = {};
        return found;
    }
    // A terminal that has become smaller has broken lines in a way of its own, or lets go of some: then the table begins anew below.
    void erase()
    {
        winsize now = size();
        if (drawn_ > 0 && now.ws_col >= columns_ && (now.ws_row == 0 || now.ws_row > drawn_))
            write("\033[" + std::to_string(drawn_) + "A\033[J");
        drawn_ = 0;
    }
    // Only what fits: lines that are broken or have gone by cannot be erased.
    void draw()
    {
        if (!terminal_) {
            for (const std::string &line : std::exchange(table_, {}))
                write("top: " + line + "\n");
            return;
        }
        winsize now = size();
        std::vector<std::string> lines = table_;
        if (!begun_.empty())
            lines.insert(lines.begin(), begun_);
        if (std::size_t room = now.ws_row > 1 ? now.ws_row - 1u : lines.size(); lines.size() > room) {
            std::size_t more = lines.size() - room + 1;
            lines.resize(room);
            lines.back() = "  and " + std::to_string(more) + " more lines";
        }
        std::string text;
        for (const std::string &line : lines)
            text += line.substr(0, now.ws_col > 0 ? now.ws_col : line.size()) + "\n";
        write(text);
        drawn_ = lines.size();
        columns_ = now.ws_col;
    }

    const bool terminal_;
    std::string begun_;               // by the job
    std::vector<std::string> table_;  // the last one
    std::size_t drawn_ = 0;           // lines
    std::size_t columns_ = 0;         // that the terminal had then
};

class Looks {
  public:
    explicit Looks(pid_t root) : root_(root) {}

    // False: no rank is there.
    bool look(Screen *screen)
    {
        if (ranks_.empty() || ++looks_ % 8 == 0)
            ranks_ = find_ranks(root_);
        std::map<int, std::pair<const Rank *, RankState>> states;
        for (const Rank &rank : ranks_)
            if (RankState state; rank.look(&state))
                states[state.rank] = {&rank, state};
        if (states.empty()) {
            ranks_.clear();
            return false;
        }
        Table table{{"rank", "process", "in MPI", "call", "waits for", "sends: messages/s", "bytes/s"}};
        int ranks = 0;
        for (const auto &[rank, each] : states) {
            ranks = each.second.ranks;
            add_rows(rank, *each.first, each.second, &table);
        }
        std::string heading = std::to_string(states.size()) + " of " + std::to_string(ranks) + " ranks are on host " + host();
        if (static_cast<std::size_t>(ranks) > states.size())
            heading += "; those of other hosts are not shown";
        screen->show(heading, table);
        return true;
    }

  private:
    static std::string host()
    {
        char name[256] = "";
        gethostname(name, sizeof name - 1);
        return name;
    }
    void add_rows(int rank, const Rank &process, const RankState &state, Table *table)
    {
        RankState &before = before_[process.process()];
        bool compared = before.recording && state.recording && state.now > before.now;
        auto seconds = std::chrono::duration<double>(Clock::now() - looked_[process.process()]).count();
        std::uint64_t whole = state.now - before.now;
        std::uint64_t in_mpi = std::min(state.in_mpi - std::min(before.in_mpi, state.in_mpi), whole);
        std::string share = compared ? profile::share_text(in_mpi, whole) : "-";
        std::string call = !state.recording ? "not seen yet" : state.call.empty() ? "computes" : state.call;
        std::vector<std::string> row{std::to_string(rank), std::to_string(process.process()), share, call,
                                     state.waits_for.empty() ? "-" : state.waits_for};
        for (const RankPath &path : state.paths) {
            auto same = std::ranges::find(before.paths, path.name, &RankPath::name);
            std::uint64_t messages = path.messages, bytes = path.bytes;
            if (same != before.paths.end()) {
                messages -= std::min(same->messages, messages);
                bytes -= std::min(same->bytes, bytes);
            }
            auto rate = [&](std::uint64_t number) { return compared ? static_cast<std::uint64_t>(static_cast<double>(number) / seconds) : 0; };
            row.push_back(path.name + " " + std::to_string(rate(messages)));
            row.push_back(profile::size_text(rate(bytes)));
            table->push_back(row);
            row.assign(5, "");
        }
        if (state.paths.empty())
            table->push_back(row);
        before = state;
        looked_[process.process()] = Clock::now();
    }

    const pid_t root_;
    std::vector<Rank> ranks_;
    std::map<pid_t, RankState> before_;
    std::map<pid_t, Clock::time_point> looked_;
    std::uint64_t looks_ = 0;
};

// What the job prints in this time; true: all of it has come to its end.
bool pass_on(int output, Clock::time_point until, Screen *screen)
{
    char text[4096];
    while (true) {
        auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
        pollfd entry{output, POLLIN, 0};
        if (left <= 0 || poll(&entry, 1, static_cast<int>(left)) <= 0)
            return false;
        ssize_t size = read(output, text, sizeof text);
        if (size <= 0)
            return true;
        screen->print({text, static_cast<std::size_t>(size)});
    }
}

}  // namespace

int top(Words words)
{
    Request request = parse(words);
    if (!request.trouble.empty())
        return refuse(request.trouble);
    bool terminal = isatty(STDOUT_FILENO) == 1, starts = request.process == 0;
    Screen screen(terminal);
    int output[2] = {-1, -1};
    pid_t job = request.process;
    if (starts) {
        std::signal(SIGINT, SIG_IGN);  // the terminal sends it to the job as well
        if (terminal && pipe2(output, O_CLOEXEC) != 0)
            output[0] = output[1] = -1;
        job = start(request.command, output[1]);
        if (output[1] >= 0)
            close(output[1]);
        if (job < 0) {
            std::fprintf(stderr, "mpicomposite: cannot make a process: %s\n", std::strerror(errno));
            return failure;
        }
    }
    Looks looks(job);
    auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(request.interval));
    bool seen = false, ended = false;
    int status = 0;
    long left = request.count;
    while (!ended) {
        bool there = left != 0 && looks.look(&screen);
        left -= there && left > 0;
        seen = seen || there;
        if (!starts && (!there || left == 0))
            break;
        Clock::time_point next = Clock::now() + (there ? interval : std::min<Clock::duration>(interval, std::chrono::milliseconds(100)));
        if (pass_on(output[0], next, &screen))
            output[0] = -1;
        ended = starts && waitpid(job, &status, WNOHANG) == job;
    }
    if (output[0] >= 0)
        pass_on(output[0], Clock::now() + std::chrono::seconds(1), &screen);
    if (!starts && !seen)
        std::fprintf(stderr, "mpicomposite: process %d has no ranks of this library on this host that you may look at\n", job);
    if (!starts)
        return seen ? success : failure;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace pm::inspector

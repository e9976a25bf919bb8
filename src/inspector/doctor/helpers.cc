#include "inspector/doctor/helpers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/escape.h"

namespace pm::inspector {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds farewell{2};

// Reads what is there; false at the end.
bool take(int file, std::string *text)
{
    char buffer[65536];
    ssize_t size = read(file, buffer, sizeof buffer);
    if (size > 0)
        text->append(buffer, static_cast<std::size_t>(size));
    return size > 0 || (size < 0 && (errno == EINTR || errno == EAGAIN));
}

void take_lines(Helper *helper)
{
    for (std::size_t end; (end = helper->said.find('\n')) != std::string::npos; helper->said.erase(0, end + 1)) {
        Line line = words_of(std::string_view(helper->said).substr(0, end));
        if (line.size() > 1 && line[0] == helper_mark)
            helper->lines.emplace_back(line.begin() + 1, line.end());
    }
}

// It stays a zombie until it is dismissed: its number, by which all that it has started is ended, stays its own.
bool is_over(Helper *helper)
{
    siginfo_t found{};
    if (waitid(P_PID, static_cast<id_t>(helper->process), &found, WEXITED | WNOHANG | WNOWAIT) != 0 || found.si_pid != helper->process)
        return false;
    helper->status = found.si_code == CLD_EXITED ? found.si_status : 128 + found.si_status;
    return true;
}

void look_for_end(Helper *helper)
{
    if (!helper->ended && helper->output.get() < 0 && helper->errors.get() < 0 && is_over(helper))
        helper->ended = true;
}

}  // namespace

Line words_of(std::string_view line)
{
    Line words;
    for (;;) {
        std::size_t tab = line.find('\t');
        words.emplace_back(line.substr(0, tab));
        if (tab == std::string_view::npos)
            return words;
        line.remove_prefix(tab + 1);
    }
}

std::string line_of(const Line &words)
{
    std::string line;
    for (const std::string &word : words)
        line += (&word == words.data() ? "" : "\t") + plain_text(word);
    return line + "\n";
}

bool Helper::has(std::string_view kind) const
{
    return std::ranges::any_of(lines, [&](const Line &line) { return line[0] == kind; });
}

void Helper::tell(const std::string &text)
{
    // A helper reads all before it writes again; one that is gone, or does not read, is noticed by what it does not say.
    for (std::size_t place = 0; place < text.size();) {
        pollfd entry{input.get(), POLLOUT, 0};
        ssize_t size = write(input.get(), text.data() + place, text.size() - place);
        if (size < 0 && errno != EINTR && (errno != EAGAIN || poll(&entry, 1, 5000) <= 0))
            return;
        place += size < 0 ? 0 : static_cast<std::size_t>(size);
    }
}

std::unique_ptr<Helper> start_helper(const std::string &host, const std::vector<std::string> &command)
{
    auto helper = std::make_unique<Helper>();
    helper->host = host;
    int pipes[3][2];
    for (auto &ends : pipes)
        if (pipe2(ends, O_CLOEXEC) != 0) {
            helper->complained = std::strerror(errno);
            helper->ended = true;
            return helper;
        }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[0][0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[1][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[2][1], STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;  // a pipe that nobody reads ends it, though not us
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setpgroup(&attributes, 0);  // so that all of a launcher can be ended
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    std::vector<char *> words;
    for (const std::string &word : command)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    int error = posix_spawnp(&helper->process, words[0], &actions, &attributes, words.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    helper->input = File(pipes[0][1]);
    fcntl(pipes[0][1], F_SETFL, O_NONBLOCK);
    helper->output = File(pipes[1][0]);
    helper->errors = File(pipes[2][0]);
    for (int end : {pipes[0][0], pipes[1][1], pipes[2][1]})
        close(end);
    if (error != 0) {
        helper->complained = "cannot start " + command[0] + ": " + std::strerror(error);
        helper->ended = true;
    }
    return helper;
}

void listen_to(const std::vector<Helper *> &helpers, std::string_view kind, std::chrono::seconds limit)
{
    for (auto end = Clock::now() + limit; Clock::now() < end;) {
        std::vector<pollfd> entries;
        std::vector<Helper *> waited;
        for (Helper *helper : helpers)
            if (!helper->ended && !helper->has(kind)) {
                entries.push_back({helper->output.get(), POLLIN, 0});
                entries.push_back({helper->errors.get(), POLLIN, 0});
                waited.push_back(helper);
            }
        if (waited.empty())
            return;
        // A process that has closed both is about to end: looked at again soon.
        bool soon = std::ranges::any_of(waited, [](const Helper *each) { return each->output.get() < 0; });
        auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count() + 1;
        poll(entries.data(), entries.size(), static_cast<int>(soon ? std::min<long long>(left, 20) : left));
        for (std::size_t i = 0; i < waited.size(); ++i) {
            Helper *helper = waited[i];
            if (entries[2 * i].revents != 0 && !take(helper->output.get(), &helper->said))
                helper->output = File();
            if (entries[2 * i + 1].revents != 0 && !take(helper->errors.get(), &helper->complained))
                helper->errors = File();
            take_lines(helper);
            look_for_end(helper);
        }
    }
}

void dismiss(const std::vector<Helper *> &helpers)
{
    std::vector<Helper *> willing;  // whoever has never spoken does not listen, either
    for (Helper *helper : helpers) {
        helper->input = File();
        if (!helper->lines.empty())
            willing.push_back(helper);
    }
    listen_to(willing, "never", farewell);
    for (Helper *helper : helpers) {
        if (helper->process <= 0)
            continue;
        // All that a launcher has started, also when it has ended itself.
        kill(-helper->process, SIGKILL);
        while (waitpid(helper->process, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
}

}  // namespace pm::inspector

// composite-objects top -- COMMAND...: runs a command and shows, while it runs, what the objects of its ranks do.
#include <ifaddrs.h>
#include <netinet/in.h>
#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;

constexpr char usage[] =
    "Usage: composite-objects top [--interval SECONDS] -- COMMAND...\n"
    "\n"
    "Runs COMMAND, say mpiexec -n 4 ./program, and shows every second, for each rank that has a session: its objects, the messages\n"
    "that wait to be run, those run a second, those sent and received. On a terminal the table is rewritten in place, elsewhere a new one\n"
    "follows. The exit status is that of COMMAND. See man 1 composite-objects.\n";

struct Rank {
    std::string state;
    std::int64_t objects = 0, queued = 0, ran = 0, sent = 0, received = 0;
    double rate = 0;
    Clock::time_point told{};
};

[[noreturn]] void fail(const std::string &sentence)
{
    std::fprintf(stderr, "composite-objects: %s\n", sentence.c_str());
    std::exit(2);
}

// An address of this host that other hosts reach, if it has one.
std::string own_address()
{
    std::string found = "127.0.0.1";
    ifaddrs *all = nullptr;
    if (getifaddrs(&all) != 0)
        return found;
    for (const ifaddrs *each = all; each != nullptr; each = each->ifa_next) {
        if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET)
            continue;
        const auto *address = reinterpret_cast<const sockaddr_in *>(each->ifa_addr);
        char text[INET_ADDRSTRLEN];
        if (ntohl(address->sin_addr.s_addr) >> 24 != 127 && inet_ntop(AF_INET, &address->sin_addr, text, sizeof text) != nullptr) {
            found = text;
            break;
        }
    }
    freeifaddrs(all);
    return found;
}

void take(std::map<int, Rank> &ranks, const char *line, const std::string &token)
{
    char said[64], state[16];
    int rank = 0, size = 0;
    Rank now;
    if (std::sscanf(line, "%63s %d %d %15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, said, &rank, &size, state,
                    &now.objects, &now.queued, &now.ran, &now.sent, &now.received) != 9 ||
        token != said || rank < 0 || rank >= size)
        return;
    now.state = state;
    now.told = Clock::now();
    Rank &before = ranks[rank];
    const double seconds = std::chrono::duration<double>(now.told - before.told).count();
    const bool again = before.told != Clock::time_point{} && now.ran >= before.ran;
    now.rate = again && seconds > 0.05 ? static_cast<double>(now.ran - before.ran) / seconds : before.rate;
    before = now;
}

void show(const std::map<int, Rank> &ranks, bool rewrite)
{
    if (rewrite)
        std::fputs("\033[H\033[J", stderr);
    std::fprintf(stderr, "%6s %-8s %12s %10s %14s %14s %14s %14s\n", "rank", "state", "objects", "queued", "run/s", "run", "sent",
                 "received");
    for (const auto &[number, rank] : ranks)
        std::fprintf(stderr, "%6d %-8s %12" PRId64 " %10" PRId64 " %14.0f %14" PRId64 " %14" PRId64 " %14" PRId64 "\n", number,
                     rank.state.c_str(), rank.objects, rank.queued, rank.rate, rank.ran, rank.sent, rank.received);
    std::fflush(stderr);
}

}  // namespace

int main(int count, char **arguments)
{
    double interval = 1;
    int first = 1;
    if (count == 2 && (std::strcmp(arguments[1], "--help") == 0 || std::strcmp(arguments[1], "-h") == 0)) {
        std::fputs(usage, stdout);
        return 0;
    }
    if (count < 2 || std::strcmp(arguments[first++], "top") != 0)
        fail(std::string("the first argument is a command, and `top` is the only one.\n") + usage);
    if (first + 1 < count && std::strcmp(arguments[first], "--interval") == 0) {
        interval = std::atof(arguments[first + 1]);
        if (!(interval >= 0.1 && interval <= 3600))
            fail("--interval takes seconds, from 0.1 to 3600");
        first += 2;
    }
    if (first + 1 >= count || std::strcmp(arguments[first], "--") != 0)
        fail(std::string("behind `--` comes the command to run, as in composite-objects top -- mpiexec -n 4 ./program.\n") + usage);
    ++first;

    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    socklen_t length = sizeof address;
    if (socket < 0 || bind(socket, reinterpret_cast<sockaddr *>(&address), sizeof address) != 0 ||
        getsockname(socket, reinterpret_cast<sockaddr *>(&address), &length) != 0)
        fail(std::string("cannot open a UDP port for what the ranks tell: ") + std::strerror(errno));
    std::random_device random;
    const std::string token = std::to_string(random()) + std::to_string(random());
    setenv("COMPOSITE_OBJECTS_TOP", (own_address() + " " + std::to_string(ntohs(address.sin_port)) + " " + token).c_str(), 1);

    const pid_t child = fork();
    if (child < 0)
        fail(std::string("cannot start a process: ") + std::strerror(errno));
    if (child == 0) {
        execvp(arguments[first], arguments + first);
        fail(std::string("cannot run ") + arguments[first] + ": " + std::strerror(errno));
    }
    // An interrupt is for the command; we end with it.
    std::signal(SIGINT, SIG_IGN);

    const bool rewrite = isatty(STDERR_FILENO) != 0;
    std::map<int, Rank> ranks;
    auto next = Clock::now();
    int status = 0;
    for (bool ended = false; !ended;) {
        ended = waitpid(child, &status, WNOHANG) == child;
        pollfd waiting{socket, POLLIN, 0};
        while (poll(&waiting, 1, ended ? 0 : 100) > 0) {
            char line[512];
            const ssize_t got = recv(socket, line, sizeof line - 1, MSG_DONTWAIT);
            if (got <= 0)
                break;
            line[got] = 0;
            take(ranks, line, token);
            // What the ranks told at their end is read to the last line.
            if (!ended && Clock::now() >= next)
                break;
        }
        if (!ranks.empty() && (ended || Clock::now() >= next)) {
            show(ranks, rewrite);
            next = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval));
        }
    }
    if (ranks.empty())
        std::fputs("composite-objects: no rank told anything: the command made no session, or its hosts do not reach this one by UDP\n",
                   stderr);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}

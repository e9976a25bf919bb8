// Measures up to which length the collectives of a host go better on the board than by memory, and writes a table for
// MPIR_CVAR_CH4_COMPOSITE_COLL_TABLE. Jobs of this installation's own mpiexec do it, with one way forced, then the other.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/cpus.h"
#include "base/file.h"
#include "base/tuning.h"
#include "inspector/commands.h"

namespace pm::inspector {
namespace {

namespace fs = std::filesystem;

const std::string family = "MPIR_CVAR_CH4_COMPOSITE_";
// In the order of the table; measure_collectives.c knows the same.
const char *const operations[] = {"bcast", "reduce", "allreduce", "gather", "scatter", "allgather", "alltoall"};
constexpr int rounds = 2;

struct Request {
    int ranks = 0;
    std::string file;
    std::string trouble;  // empty: none
};

Request parse(Words words)
{
    Request request;
    request.ranks = std::clamp(available_cores(), 2, PM_TEAM_RANKS_LIMIT);
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::string_view option = words[i], value = i + 1 < words.size() ? words[i + 1] : "";
        if (option == "-n") {
            auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), request.ranks);
            if (error != std::errc{} || end != value.data() + value.size() || request.ranks < 2 || request.ranks > PM_TEAM_RANKS_LIMIT)
                request.trouble = "behind -n there must be a number of ranks from 2 to " + std::to_string(PM_TEAM_RANKS_LIMIT) + ", and \"" +
                                  std::string(value) + "\" is none";
        } else if (option == "-o") {
            request.file = value;
            if (value.empty())
                request.trouble = "behind -o there must be the name of a file";
        } else {
            request.trouble = "collectives knows no option \"" + std::string(option) + "\"; known are -n and -o";
        }
        if (!request.trouble.empty())
            return request;
        ++i;
    }
    return request;
}

std::string upper(std::string text)
{
    std::ranges::transform(text, text.begin(), [](char each) { return each >= 'a' && each <= 'z' ? static_cast<char>(each - 'a' + 'A') : each; });
    return text;
}

// What a program prints; nothing when it failed, which has been said.
std::string output_of(const std::vector<std::string> &command)
{
    std::vector<char *> words;
    for (const std::string &word : command)
        words.push_back(const_cast<char *>(word.c_str()));
    words.push_back(nullptr);
    int ends[2];
    if (pipe(ends) != 0)
        return "";
    File reading(ends[0]), writing(ends[1]);
    pid_t child = fork();
    if (child == 0) {
        dup2(writing.get(), STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execv(words[0], words.data());
        std::fprintf(stderr, "mpicomposite: cannot start \"%s\": %s\n", words[0], std::strerror(errno));
        _exit(127);
    }
    writing = File();
    std::string text;
    char piece[4096];
    for (ssize_t size; (size = read(reading.get(), piece, sizeof piece)) != 0;) {
        if (size < 0 && errno != EINTR)
            break;
        text.append(piece, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return child > 0 && status == 0 ? text : "";
}

// Microseconds, by operation and bytes.
using Times = std::map<std::pair<std::string, std::size_t>, double>;

// The shortest of each; false when the job failed. `*by_memory` when collectives went that way.
bool run(const Request &request, const std::string &way, Times *times, bool *by_memory)
{
    std::error_code error;
    fs::path bin = fs::read_symlink("/proc/self/exe", error).parent_path();
    for (const char *operation : operations)
        setenv((family + "COLL_" + upper(operation)).c_str(), way.c_str(), 1);
    unsetenv((family + "COLL_TABLE").c_str());
    setenv((family + "REPORT").c_str(), "1", 1);
    std::string text = output_of({bin / "mpiexec", "-hosts", "localhost", "-n", std::to_string(request.ranks),
                                  (bin.parent_path() / "libexec" / "mpich-composite" / "measure-collectives").string()});
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        std::string operation;
        std::size_t bytes = 0;
        double microseconds = 0;
        if (line.starts_with("composite: MPI_Bcast ") && line.find(" 0 by memory") == std::string::npos)
            *by_memory = true;
        if (!(words >> operation >> bytes >> microseconds) || operation.starts_with("composite"))
            continue;
        auto place = times->try_emplace({operation, bytes}, microseconds).first;
        place->second = std::min(place->second, microseconds);
    }
    return !text.empty() && !times->empty();
}

// Up to where the board is taken, so that all lengths together take the least; of what is shorter than all of them, it is taken.
std::string switch_point(const std::string &operation, const Times &board, const Times &memory)
{
    std::vector<std::pair<std::size_t, double>> gains;  // of memory, as logarithms
    for (const auto &[key, microseconds] : board)
        if (auto other = memory.find(key); key.first == operation && other != memory.end())
            gains.emplace_back(key.second, std::log(microseconds / other->second));
    double rest = 0, best = std::numeric_limits<double>::lowest();
    std::size_t cut = 0;
    for (std::size_t i = gains.size() + 1; i-- > 0;) {
        rest += i < gains.size() ? gains[i].second : 0;
        if (rest > best) {
            best = rest;
            cut = i;
        }
    }
    if (gains.empty() || cut == gains.size())
        return "all";
    return std::to_string(cut == 0 ? gains[0].first / 2 : gains[cut - 1].first);
}

std::string table_of(const Request &request, const Times &board, const Times &memory)
{
    std::string ranks = std::to_string(request.ranks), table = "# OPERATION RANKS BYTES: among up to RANKS ranks of a host, up to BYTES go on the "
                                                               "board, what is longer by memory.\n# Measured by mpicomposite collectives -n " +
                                                               ranks + "\n";
    for (const char *operation : operations) {
        table += std::string(operation) + " " + ranks + " " + switch_point(operation, board, memory) + "   # microseconds on the board, by memory:";
        for (const auto &[key, microseconds] : board)
            if (auto other = memory.find(key); key.first == operation && other != memory.end()) {
                char text[80];
                std::snprintf(text, sizeof text, " %zuK %.1f %.1f;", key.second / 1024, microseconds, other->second);
                table += text;
            }
        table += "\n";
    }
    return table;
}

}  // namespace

int collectives(Words words)
{
    Request request = parse(words);
    if (!request.trouble.empty())
        return refuse(request.trouble);
    Times board, memory;
    bool by_memory = false, ignored = false;
    for (int round = 0; round < rounds; ++round)
        if (!run(request, "board", &board, &ignored) || !run(request, "memory", &memory, &by_memory)) {
            std::fprintf(stderr, "mpicomposite: a job that measures failed, see above\n");
            return failure;
        }
    if (!by_memory) {
        std::fprintf(stderr, "mpicomposite: there is nothing to choose between: here ranks may not read each other's memory "
                             "(mpicomposite doctor says why), or do not share it\n");
        return failure;
    }
    std::string table = table_of(request, board, memory);
    FILE *file = request.file.empty() ? stdout : std::fopen(request.file.c_str(), "w");
    bool written = file != nullptr && std::fputs(table.c_str(), file) >= 0 && std::fflush(file) == 0;
    if (file != nullptr && file != stdout && std::fclose(file) != 0)
        written = false;
    if (!written) {
        std::fprintf(stderr, "mpicomposite: writing %s: %s\n", request.file.empty() ? "the answer" : request.file.c_str(), std::strerror(errno));
        return failure;
    }
    std::error_code error;
    fs::path path = request.file.empty() ? fs::path("FILE") : fs::absolute(request.file, error);
    std::fprintf(stderr, "to use it, with the file at the same place on all hosts: %sCOLL_TABLE=%s mpiexec ...\n", family.c_str(), path.c_str());
    return success;
}

}  // namespace pm::inspector

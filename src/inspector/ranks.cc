#include "inspector/ranks.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string_view>

#include "base/escape.h"
#include "base/ticks.h"
#include "profile/board.h"
#include "profile/shown.h"

namespace pm::inspector {
namespace {

using profile::Board;

template <class Visit>
void each_entry(const std::string &path, Visit visit)
{
    std::unique_ptr<DIR, int (*)(DIR *)> directory(opendir(path.c_str()), closedir);
    while (dirent *entry = directory != nullptr ? readdir(directory.get()) : nullptr)
        if (entry->d_name[0] >= '0' && entry->d_name[0] <= '9')
            visit(entry->d_name);
}

// 0: it is gone.
pid_t parent_of(pid_t process)
{
    std::ifstream file("/proc/" + std::to_string(process) + "/stat");
    std::string line;
    std::getline(file, line);
    // The name of the program is between parentheses, and may hold some.
    std::size_t behind = line.rfind(')');
    return behind == std::string::npos || line.size() < behind + 4 ? 0 : std::atoi(line.c_str() + behind + 4);
}

std::map<pid_t, pid_t> parents()
{
    std::map<pid_t, pid_t> all;
    each_entry("/proc", [&](const char *name) {
        pid_t process = std::atoi(name);
        all[process] = parent_of(process);
    });
    return all;
}

// A negative one when it shows none.
File open_board(pid_t process)
{
    std::string folder = "/proc/" + std::to_string(process) + "/fd", found;
    const std::string expected = "/memfd:" + std::string(profile::board_name);
    each_entry(folder, [&](const char *name) {
        char target[128];
        std::string path = folder + "/" + name;
        ssize_t size = found.empty() ? readlink(path.c_str(), target, sizeof target) : 0;
        if (size > 0 && std::string_view(target, static_cast<std::size_t>(size)).starts_with(expected))
            found = path;
    });
    return File(found.empty() ? -1 : open(found.c_str(), O_RDWR | O_CLOEXEC));
}

bool descends(const std::map<pid_t, pid_t> &parents, pid_t process, pid_t from)
{
    for (int generations = 0; process > 1 && generations < 64; ++generations) {
        if (process == from)
            return true;
        auto found = parents.find(process);
        process = found == parents.end() ? 0 : found->second;
    }
    return false;
}

std::string text_of(const char (&room)[profile::name_room])
{
    return plain_text(std::string_view(room, strnlen(room, sizeof room)));
}

}  // namespace

std::vector<Rank> find_ranks(pid_t root)
{
    std::map<pid_t, pid_t> all = parents();
    std::vector<Rank> ranks;
    // A rank's parent is the launcher's, which has started the others of this host, too.
    if (all.contains(root) && open_board(root).get() >= 0 && all[root] > 1)
        root = all[root];
    for (const auto &[process, parent] : all)
        if (descends(all, process, root))
            if (File board = open_board(process); board.get() >= 0)
                ranks.emplace_back(process, std::move(board));
    return ranks;
}

bool Rank::look(RankState *state) const
{
    auto copy = std::make_unique<Board>();
    auto value = [](const auto &of) { return of.load(std::memory_order_relaxed); };
    if (pread(board_.get(), static_cast<void *>(copy.get()), sizeof *copy, 0) != static_cast<ssize_t>(sizeof *copy) ||
        value(copy->magic) != profile::board_magic || value(copy->process) != process_)
        return false;
    // It records once it has seen that somebody looks.
    std::uint64_t watched = value(copy->watched) + 1;
    if (pwrite(board_.get(), &watched, sizeof watched, offsetof(Board, watched)) < 0)
        return false;
    *state = {};
    state->rank = value(copy->rank);
    state->ranks = value(copy->ranks);
    state->recording = value(copy->recording) != 0;
    state->now = ticks_now();
    std::uint64_t since = value(copy->since);
    state->in_mpi = value(copy->in_mpi) + (since != 0 ? ticks_between(since, state->now) : 0);
    std::uint32_t call = value(copy->call);
    if (call > 0 && call <= profile::functions_most)
        state->call = text_of(copy->names[call - 1]);
    std::int32_t other = value(copy->waits_for);
    std::string whose = other < 0 ? "any rank" : "rank " + std::to_string(other);
    if (std::uint32_t late = value(copy->late); late == 1)
        state->waits_for = "a message of " + whose;
    else if (late == 2)
        state->waits_for = "a receive of " + whose;
    for (const Board::Path &path : copy->paths)
        if (path.name[0] != 0)
            state->paths.push_back({text_of(path.name), value(path.messages), value(path.bytes)});
    return true;
}

}  // namespace pm::inspector

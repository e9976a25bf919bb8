#include "inspector/asking.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/file.h"
#include "netmod/core/question.h"

namespace pm::inspector {
namespace {

using Clock = std::chrono::steady_clock;

std::string proc(pid_t process, const std::string &what)
{
    return "/proc/" + std::to_string(process) + "/" + what;
}

struct Status {
    char state = 'X';
    pid_t parent = 0;
};

// Of a process, or of a thread of it ("task/N/stat").
std::optional<Status> status_of(const std::string &path)
{
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    std::size_t end = line.rfind(')');
    if (end == std::string::npos || end + 4 > line.size())
        return std::nullopt;
    return Status{line[end + 2], static_cast<pid_t>(std::atoi(line.c_str() + end + 4))};
}

std::vector<pid_t> numbers_in(const std::string &folder)
{
    std::vector<pid_t> numbers;
    DIR *entries = opendir(folder.c_str());
    if (entries == nullptr)
        return numbers;
    while (const dirent *entry = readdir(entries))
        if (int number = std::atoi(entry->d_name); number > 0 || std::strcmp(entry->d_name, "0") == 0)
            numbers.push_back(number);
    closedir(entries);
    return numbers;
}

std::multimap<pid_t, pid_t> all_children()
{
    std::multimap<pid_t, pid_t> children;
    for (pid_t process : numbers_in("/proc"))
        if (process > 0)
            if (auto status = status_of(proc(process, "stat")))
                children.emplace(status->parent, process);
    return children;
}

// The page of a process, mapped.
class Page {
  public:
    static std::optional<Page> open_of(pid_t process)
    {
        for (pid_t number : numbers_in(proc(process, "fd"))) {
            std::string path = proc(process, "fd/" + std::to_string(number));
            char target[100] = "";
            if (readlink(path.c_str(), target, sizeof target - 1) <= 0 || std::strncmp(target, "/memfd:" PM_QUESTION_NAME, sizeof "/memfd:" PM_QUESTION_NAME - 1) != 0)
                continue;
            File file(open(path.c_str(), O_RDWR | O_CLOEXEC));
            void *memory = file.get() < 0 ? MAP_FAILED : mmap(nullptr, PM_QUESTION_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
            if (memory == MAP_FAILED)
                continue;
            Page page;
            page.process = process;
            page.file_ = std::move(file);
            page.header_ = static_cast<pm_question_page *>(memory);
            if (std::atomic_ref(page.header_->magic).load(std::memory_order_acquire) == PM_QUESTION_MAGIC)  // [G2] pairs with [G1] in question.cc
                return page;
        }
        return std::nullopt;
    }

    void ask() { question_ = std::atomic_ref(header_->asked).fetch_add(1, std::memory_order_acq_rel) + 1; }

    bool is_answered() const { return static_cast<std::int32_t>(std::atomic_ref(header_->answered).load(std::memory_order_acquire) - question_) >= 0; }

    std::uint32_t phase() const { return std::atomic_ref(header_->phase).load(std::memory_order_acquire); }

    // Nothing while it is being written anew.
    std::optional<std::string> answer() const
    {
        std::atomic_ref version(header_->version);
        std::uint32_t before = version.load(std::memory_order_acquire);  // [G4] pairs with [G3] in question.cc
        std::string text(std::min<std::uint32_t>(std::atomic_ref(header_->length).load(std::memory_order_relaxed), 1 << 24), 0);
        ssize_t size = pread(file_.get(), text.data(), text.size(), PM_QUESTION_TEXT);
        std::atomic_thread_fence(std::memory_order_acquire);
        if (before % 2 != 0 || version.load(std::memory_order_relaxed) != before || size != static_cast<ssize_t>(text.size()))
            return std::nullopt;
        return text;
    }

    pid_t process = 0;

  private:
    File file_;
    pm_question_page *header_ = nullptr;  // this program ends soon
    std::uint32_t question_ = 0;
};

struct Asked {
    State state;
    pid_t started = 0;
    std::optional<Page> page;
    bool runs = false;  // a thread of it was seen running
    bool done = false;
};

// Whatever was started may be a script that runs the rank.
std::optional<Page> page_below(pid_t process, const std::multimap<pid_t, pid_t> &children, int depth = 0)
{
    if (auto page = Page::open_of(process))
        return page;
    auto [first, last] = children.equal_range(process);
    for (; first != last && depth < 8; ++first)
        if (auto page = page_below(first->second, children, depth + 1))
            return page;
    return std::nullopt;
}

bool is_running(pid_t process)
{
    for (pid_t thread : numbers_in(proc(process, "task")))
        if (auto status = status_of(proc(process, "task/" + std::to_string(thread) + "/stat")); status && status->state == 'R')
            return true;
    return false;
}

std::string where_it_sleeps(pid_t process)
{
    std::ifstream file(proc(process, "wchan"));
    std::string name;
    std::getline(file, name);
    return name.empty() || name == "0" ? "" : " (" + name + ")";
}

// What can be said without it.
void look_at(Asked *asked)
{
    pid_t process = asked->page ? asked->page->process : asked->started;
    State &state = asked->state;
    state.process = process;
    auto status = status_of(proc(process, "stat"));
    auto is = [&state](Doing doing, const std::string &detail) {
        state.doing = doing;
        state.detail = detail;
    };
    if (!status || status->state == 'Z' || status->state == 'X')
        is(Doing::ended, "has ended");
    else if (status->state == 'T' || status->state == 't')
        is(Doing::stopped, "is stopped by a signal");
    else if (!asked->page)
        is(Doing::starts, "has not called MPI_Init");
    else if (asked->page->phase() == PM_PHASE_OVER)
        is(Doing::over, "is past MPI_Finalize");
    else if (asked->page->phase() == PM_PHASE_FINALIZE) {
        // It left what it knew on the page.
        if (auto text = asked->page->answer())
            if (auto left = parse_state(*text)) {
                left->calls.clear();
                left->group = state.group;
                left->host = state.host;
                left->process = process;
                state = std::move(*left);
            }
        is(Doing::finalizes, "in MPI_Finalize");
    }
    else if (asked->page->phase() == PM_PHASE_INIT)
        is(Doing::starts, "in MPI_Init");
    else if (asked->runs)
        is(Doing::computes, "computes outside of MPI");
    else
        is(Doing::sleeps, "sleeps in a system call outside of MPI" + where_it_sleeps(process));
}

void take_answer(Asked *asked)
{
    auto text = asked->page->answer();
    auto state = text ? parse_state(*text) : std::nullopt;
    if (!state)
        return;
    asked->done = true;
    // It came to answer, and was in no call: a callback of ours, say.
    if (state->calls.empty())
        return;
    state->group = asked->state.group;
    state->host = asked->state.host;
    state->process = asked->page->process;
    asked->state = std::move(*state);
}

}  // namespace

pid_t parent_of(pid_t process)
{
    auto status = status_of(proc(process, "stat"));
    return status ? status->parent : 0;
}

std::vector<pid_t> children_of(pid_t process)
{
    std::vector<pid_t> found;
    for (auto [parent, child] : all_children())
        if (parent == process)
            found.push_back(child);
    return found;
}

bool has_question_page(pid_t process)
{
    return Page::open_of(process).has_value();
}

std::vector<State> ask_ranks(int group, const std::vector<Started> &ranks)
{
    using namespace std::chrono_literals;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    auto children = all_children();
    std::vector<Asked> all;
    for (const Started &each : ranks) {
        Asked asked;
        asked.state.group = group;
        asked.state.rank = each.rank;
        asked.state.host = host;
        asked.started = each.process;
        asked.page = page_below(each.process, children);
        look_at(&asked);
        asked.done = asked.state.doing == Doing::stopped || asked.state.doing == Doing::ended || !asked.page || asked.state.doing == Doing::over;
        if (!asked.done)
            asked.page->ask();
        all.push_back(std::move(asked));
    }
    auto undone = [&all] { return std::ranges::any_of(all, [](const Asked &asked) { return !asked.done; }); };
    for (auto end = Clock::now() + time_to_answer; undone() && Clock::now() < end; std::this_thread::sleep_for(10ms))
        for (Asked &asked : all)
            if (!asked.done) {
                asked.runs |= is_running(asked.page->process);
                if (asked.page->is_answered())
                    take_answer(&asked);
            }
    std::vector<State> states;
    for (Asked &asked : all) {
        if (asked.page && asked.state.calls.empty())
            look_at(&asked);
        states.push_back(std::move(asked.state));
    }
    return states;
}

}  // namespace pm::inspector

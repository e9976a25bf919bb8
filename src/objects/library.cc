#include "library.hh"

#include <dlfcn.h>

#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "runtime.hh"

namespace composite {

namespace {

std::mutex mutex;
thread_local Library *loading = nullptr;

std::map<std::string, std::unique_ptr<Library>> &libraries()
{
    static auto &instance = *new std::map<std::string, std::unique_ptr<Library>>;
    return instance;
}

// Messages whose code is in the library may still be in the queues: it is closed when every worker has run what it had twice.
struct Close : Item {
    Close(Runtime &runtime, Library &library) : runtime(runtime), library(library) {}
    void run(Worker &) override
    {
        if (++round < 2 * runtime.worker_count()) {
            runtime.worker(round % runtime.worker_count()).post(this);
            return;
        }
        std::unique_lock lock(mutex);
        if (std::exchange(library.again, false)) {
            lock.unlock();
            round = 0;
            runtime.worker(0).post(this);
            return;
        }
        library.closing = false;
        // Under the lock, so that nobody loads it meanwhile.
        if (library.leaving && library.objects == 0)
            dlclose(std::exchange(library.handle, nullptr));
        delete this;
    }
    void forget() override
    {
        {
            std::lock_guard lock(mutex);
            library.closing = false;
        }
        delete this;
    }
    Runtime &runtime;
    Library &library;
    std::size_t round = 0;
};

// Under the lock when called.
void close_if_left(Library &library)
{
    if (!library.leaving || library.objects > 0)
        return;
    if (library.closing) {
        library.again = true;
        return;
    }
    library.closing = true;
    Runtime &runtime = Runtime::current();
    runtime.service_worker().post(new Close(runtime, library));
}

void load_here(Worker &worker, int, Reader &from, Answer &answer)
{
    const std::string name = Codec<std::string>::read(from);
    std::unique_lock lock(mutex);
    auto &known = libraries()[name];
    if (known == nullptr) {
        known = std::make_unique<Library>();
        known->name = name;
    }
    Library *library = known.get();
    library->leaving = false;
    if (library->handle == nullptr) {
        lock.unlock();
        loading = library;
        void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        loading = nullptr;
        const char *problem = handle == nullptr ? dlerror() : nullptr;
        lock.lock();
        if (handle == nullptr) {
            library->leaving = true;
            throw Error("rank " + std::to_string(worker.runtime.rank()) + " cannot load " + name + ": " +
                        (problem != nullptr ? problem : "no reason given"));
        }
        library->handle = handle;
    }
    answer.done();
}

void unload_here(Worker &worker, int, Reader &from, Answer &answer)
{
    const std::string name = Codec<std::string>::read(from);
    std::lock_guard lock(mutex);
    const auto found = libraries().find(name);
    if (found == libraries().end() || !found->second->there())
        throw Error("rank " + std::to_string(worker.runtime.rank()) + " has not loaded " + name);
    found->second->leaving = true;
    close_if_left(*found->second);
    answer.done();
}

void loaded_here(Worker &, int, Reader &from, Answer &answer)
{
    const std::string name = Codec<std::string>::read(from);
    std::lock_guard lock(mutex);
    const auto found = libraries().find(name);
    answer.value(found != libraries().end() && found->second->there());
}

const std::uint32_t load_service = Runtime::add_service("load", load_here);
const std::uint32_t unload_service = Runtime::add_service("unload", unload_here);
const std::uint32_t loaded_service = Runtime::add_service("loaded", loaded_here);

void ask_ranks(std::uint32_t service, const std::string &name, std::vector<int> ranks)
{
    Runtime &runtime = Runtime::current();
    if (ranks.empty()) {
        ranks.resize(static_cast<std::size_t>(runtime.size()));
        std::iota(ranks.begin(), ranks.end(), 0);
    }
    Writer writer;
    Codec<std::string>::write(writer, name);
    std::vector<Future<void>> answers;
    for (const int rank : ranks) {
        auto state = std::make_shared<AwaitedValue<void>>();
        runtime.ask(rank, service, writer, state);
        answers.emplace_back(std::move(state));
    }
    std::string problems;
    for (auto &each : answers) {
        try {
            each.get();
        } catch (const Error &error) {
            problems += (problems.empty() ? "" : "; ") + std::string(error.what());
        }
    }
    if (!problems.empty())
        throw Error(problems);
}

}  // namespace

Library *Library::being_loaded() { return loading; }

void Library::made()
{
    std::lock_guard lock(mutex);
    if (leaving)
        throw Error("the library " + name + " is being unloaded: no new objects of its types are made");
    ++objects;
}

void Library::released()
{
    std::lock_guard lock(mutex);
    --objects;
    close_if_left(*this);
}

void load(const std::string &name, const std::vector<int> &ranks) { ask_ranks(load_service, name, ranks); }
void unload(const std::string &name, const std::vector<int> &ranks) { ask_ranks(unload_service, name, ranks); }

bool loaded(const std::string &name, int rank)
{
    auto state = std::make_shared<AwaitedValue<bool>>();
    Writer writer;
    Codec<std::string>::write(writer, name);
    Runtime::current().ask(rank, loaded_service, writer, state);
    return Future<bool>(state).get();
}

}  // namespace composite

#include "event.hh"

#include <map>
#include <set>
#include <vector>

#include "runtime.hh"

namespace composite {

// Those that this rank keeps. Only its service worker looks at them.
struct Events {
    struct State {
        bool set = false;
        std::vector<std::pair<int, std::uint64_t>> waiting;  // rank and number of the call
    };
    std::map<std::string, State> by_name;
};

namespace {

Events::State &state_of(Worker &worker, Reader &from)
{
    auto &events = worker.runtime.events;
    if (events == nullptr)
        events = std::make_shared<Events>();
    return events->by_name[Codec<std::string>::read(from)];
}

void wake(Runtime &runtime, int source, const std::vector<std::pair<int, std::uint64_t>> &waiting)
{
    for (const auto &[rank, call] : waiting)
        if (rank == runtime.rank())
            if (auto awaited = runtime.take_expected(call, source)) {
                // Of the number we know only what they say.
                if (auto event = dynamic_cast<AwaitedValue<void> *>(awaited.get()))
                    event->set({});
                else
                    awaited->fail("it was answered as an event, and is none");
            }
}

void woken_here(Worker &worker, int source, Reader &from, Answer &)
{
    wake(worker.runtime, source, Codec<std::vector<std::pair<int, std::uint64_t>>>::read(from));
}
const std::uint32_t woken_service = Runtime::add_service("event woken", woken_here);

void set_here(Worker &worker, int, Reader &from, Answer &answer)
{
    Events::State &state = state_of(worker, from);
    state.set = true;
    const auto waiting = std::exchange(state.waiting, {});
    std::set<int> ranks;
    for (const auto &[rank, call] : waiting)
        if (rank != worker.runtime.rank() && !worker.runtime.is_lost(rank))
            ranks.insert(rank);
    wake(worker.runtime, worker.runtime.rank(), waiting);
    if (!ranks.empty()) {
        Writer writer;
        Codec<std::vector<std::pair<int, std::uint64_t>>>::write(writer, waiting);
        Wire wire{Kind::service};
        wire.method = woken_service;
        try {
            worker.runtime.multicast({ranks.begin(), ranks.end()}, wire, writer);
        } catch (const Error &) {
            // Somebody is gone. Who was told already takes no notice of a second time.
            for (const int rank : ranks) {
                try {
                    worker.runtime.send(rank, wire, writer);
                } catch (const Error &) {
                }
            }
        }
    }
    answer.done();
}

void reset_here(Worker &worker, int, Reader &from, Answer &answer)
{
    state_of(worker, from).set = false;
    answer.done();
}

void wait_here(Worker &worker, int source, Reader &from, Answer &answer)
{
    Events::State &state = state_of(worker, from);
    if (state.set)
        answer.done();
    else
        state.waiting.emplace_back(source, answer.call);
}

void look_here(Worker &worker, int, Reader &from, Answer &answer) { answer.value(state_of(worker, from).set); }

const std::uint32_t set_service = Runtime::add_service("event set", set_here);
const std::uint32_t reset_service = Runtime::add_service("event reset", reset_here);
const std::uint32_t wait_service = Runtime::add_service("event wait", wait_here);
const std::uint32_t look_service = Runtime::add_service("event look", look_here);

template <class T>
Future<T> ask(std::uint32_t service, const std::string &name)
{
    auto state = std::make_shared<AwaitedValue<T>>();
    Runtime &runtime = Runtime::current();
    Writer writer;
    Codec<std::string>::write(writer, name);
    runtime.ask(static_cast<int>(hash32(name) % static_cast<std::uint32_t>(runtime.size())), service, writer, state);
    return Future<T>(std::move(state));
}

}  // namespace

void Event::set() const { ask<void>(set_service, name_).get(); }
void Event::reset() const { ask<void>(reset_service, name_).get(); }
Future<void> Event::waiting() const { return ask<void>(wait_service, name_); }
bool Event::is_set() const { return ask<bool>(look_service, name_).get(); }

}  // namespace composite

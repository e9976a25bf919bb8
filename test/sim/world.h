// A network, the processes on it, and the loop that lets things happen.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sim/network.h"
#include "sim/process.h"
#include "sim/traffic.h"

namespace pm::sim {

class World {
  public:
    World(std::uint64_t seed, unsigned processes) : random_(seed), network_(agenda_, test::mix(seed), processes)
    {
        network_.on_arrival([this](unsigned process, Packet packet) { processes_[process]->on_arrival(std::move(packet)); });
        network_.on_refusal([this](unsigned process, Packet packet) { processes_[process]->on_refused(std::move(packet)); });
    }

    Process &add(Habits habits)
    {
        auto number = static_cast<unsigned>(processes_.size());
        if (habits.addresses.empty())
            habits.addresses = {address_of(number)};
        processes_.push_back(std::make_unique<Process>(number, agenda_, network_, habits, random_.next(), trouble_));
        return *processes_.back();
    }

    Process &operator[](unsigned number) { return *processes_[number]; }
    unsigned size() const { return static_cast<unsigned>(processes_.size()); }
    Network &network() { return network_; }
    Agenda &agenda() { return agenda_; }
    test::Random &random() { return random_; }
    Trouble &trouble() { return trouble_; }
    Time now() const { return agenda_.now(); }

    // A stream from one to another, which the other expects.
    Outbox &stream(unsigned from, unsigned to, const Stream &what)
    {
        processes_[to]->inbox().expect(from, what);
        return processes_[from]->sends(*processes_[to], what);
    }

    void start()
    {
        for (auto &process : processes_)
            process->start();
    }

    // Until the condition holds; false when it did not within the limit, or when there was trouble.
    bool run_until(const std::function<bool()> &condition, Time limit, std::uint64_t event_limit = 20'000'000)
    {
        Time end = agenda_.now() + limit;
        for (std::uint64_t events = 0;; ++events) {
            if (trouble_.any())
                return false;
            if (condition())
                return true;
            if (agenda_.next() > end) {
                agenda_.wait_until(end);
                return condition();
            }
            if (events == event_limit)
                return trouble_("no end after " + std::to_string(event_limit) + " events");
            agenda_.step();
        }
    }
    void run_for(Time time)
    {
        run_until([] { return false; }, time);
    }

    bool all_done() const
    {
        return std::ranges::all_of(processes_, [](const auto &process) { return process->done(); });
    }
    bool all_quiet() const
    {
        return std::ranges::all_of(processes_, [](const auto &process) { return process->done() && process->quiet(); });
    }
    // Everything that was to be sent has arrived and is acknowledged.
    bool finish(Time limit)
    {
        auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit).count();
        return run_until([this] { return all_quiet(); }, limit) ||
               trouble_("not done after " + std::to_string(seconds) + " s:" + state());
    }
    std::string state() const
    {
        std::string text;
        for (const auto &process : processes_)
            text += process->state();
        return text;
    }

    // The process is gone, and with `host` its host.
    void kill(unsigned number, bool host)
    {
        processes_[number]->die();
        network_.remove(number, host);
    }

  private:
    test::Random random_;
    Agenda agenda_;
    Network network_;
    Trouble trouble_;
    std::vector<std::unique_ptr<Process>> processes_;
};

}  // namespace pm::sim

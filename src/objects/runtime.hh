// What a rank has: its workers and objects, the calls it waits for, and a network that carries messages to other ranks.
//
// Flow: a rank may have `window` bytes of calls on the way to another that have not been begun there. Who sends more waits, with its object
// held, until that rank has caught up. A call is counted as begun when its worker has taken it, even if it must then wait for its
// condition: so two ranks that fill each other's queues cannot wait for each other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "codec.hh"
#include "future.hh"
#include "object.hh"
#include "trap.hh"
#include "worker.hh"

namespace composite {

struct Events;
class Reporter;

class Runtime;

// How messages travel. Messages from one rank to another arrive in the order they were sent.
class Network {
  public:
    static constexpr std::size_t largest_header = 256;
    virtual ~Network() = default;
    // Messages are handed to this runtime, from the first call to the second.
    virtual void begin(Runtime &runtime) = 0;
    virtual void end() = 0;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    // Header and data may be used again when it returns. Throws Error when that rank is gone.
    virtual void send(int rank, std::span<const std::byte> header, std::span<const std::byte> data) = 0;
    virtual void multicast(const std::vector<int> &ranks, std::span<const std::byte> header, std::span<const std::byte> data)
    {
        for (const int each : ranks)
            send(each, header, data);
    }
    // Hands what has come to Runtime::arrived. One thread at a time.
    virtual void progress() = 0;
    // For the only thread: returns when something has come, or before.
    virtual void sleep() = 0;
    // False when that process is known to have ended.
    virtual bool alive(int) { return true; }
};

enum class Kind : std::uint8_t { call, part, destroy, service, value, failure, error, credit };

struct Wire {
    Kind kind;
    bool all_in_data = false;  // also the short part
    std::uint16_t uncounted = 0;  // is about counting messages, and so is none itself
    std::uint32_t inlined = 0;  // bytes of the short part
    std::uint64_t object = 0;
    std::uint64_t sender = 0;
    std::uint64_t call = 0;  // 0: nobody waits for an answer
    std::uint32_t method = 0;
    std::uint32_t signature = 0;
};
static_assert(sizeof(Wire) == 40);

// Where the result of a call goes to: to a future of this process, to a call of another rank, or, if it was sent as past, only errors and
// to the sender.
class Answer {
  public:
    Address sender;
    std::uint64_t call = 0;
    std::uint16_t uncounted = 0;
    std::shared_ptr<Awaited> local;

    void failed(const std::string &error);
    template <class T>
    void value(T &&value);
    void done();

  private:
    void send(const Writer &value);
};

// A message to an object.
struct Call : Item {
    std::uint64_t object = 0;
    Answer answer;

    void run(Worker &worker) override;
    // Its method, if the object has it; null when it needs none. Throws Error.
    virtual const Method *method_in(const Object &) { return nullptr; }
    // Runs the method. May throw.
    virtual void execute(Object &object) = 0;
    // Whether it may run, or fail, now.
    bool ready(Object &target);
    // Runs it and deletes it.
    void finish(Worker &worker, Object &target);
};

// A message from another rank, or one whose method is known by its name only.
struct alignas(16) Arrived final : Call {
    Wire wire;
    int source;
    std::size_t charge = 0;
    BlockPointer block;

    static Arrived *make(const Wire &wire, int source, std::span<const std::byte> inlined, BlockPointer block);
    void operator delete(Arrived *self, std::destroying_delete_t);
    Reader reader();
    void run(Worker &worker) override;
    const Method *method_in(const Object &object) override;
    void execute(Object &object) override;
};

struct Options {
    unsigned workers = 0;                // threads that run objects; 0: the thread of the program does, when it waits
    std::size_t stack = 256 * 1024;      // bytes for a method; untouched ones cost nothing
    std::size_t window = 4 * 1024 * 1024;  // bytes of messages on the way from one rank to another
};

class Runtime {
  public:
    using Service = void (*)(Worker &worker, int source, Reader &from, Answer &answer);

    // One at a time for a thread, which it makes a worker.
    Runtime(std::unique_ptr<Network> network, const Options &options);
    virtual ~Runtime();
    Runtime(const Runtime &) = delete;
    Runtime &operator=(const Runtime &) = delete;
    static Runtime &current() { return Worker::current().runtime; }

    int rank() const { return rank_; }
    int size() const { return size_; }
    // Collective: serves until all ranks have come here and no message is on the way or waits to be run. Methods that wait stay.
    // Throws Error when rank 0, which tells the others of the end, is gone.
    void finish();
    // Errors of messages whose sender does not want to know them; otherwise they are printed.
    void on_error(std::function<void(const std::string &)> handler);

    // Of this rank, by its number.
    Worker &worker_of(std::uint64_t number);
    Worker &next_worker();
    std::size_t worker_count() const { return workers_.size() > 1 ? workers_.size() - 1 : 1; }
    Worker &worker(std::size_t index) { return *workers_[workers_.size() > 1 ? 1 + index : 0]; }
    Worker &service_worker() { return *workers_[workers_.size() > 1 ? 1 : 0]; }

    // To any rank, also this one. Waits when too much is on the way, if it is a call.
    void send(int rank, Wire wire, const Writer &writer);
    void multicast(const std::vector<int> &ranks, Wire wire, const Writer &writer);
    // A future for what another rank answers to the message that has this number.
    std::uint64_t expect(std::shared_ptr<Awaited> awaited, int rank);
    std::shared_ptr<Awaited> take_expected(std::uint64_t call, int rank);
    // Asks a rank, also this one, for something that is no method.
    void ask(int rank, std::uint32_t service, const Writer &arguments, std::shared_ptr<Awaited> awaited, bool any_worker = false,
             bool uncounted = false);
    // Registers a service under the same number in every process. Called before main.
    static std::uint32_t add_service(const char *name, Service service);

    // By the network, one at a time.
    void arrived(int source, std::span<const std::byte> header, BlockPointer block);
    void lost(int rank);
    bool is_lost(int rank) const { return peers_[static_cast<std::size_t>(rank)].lost.load(std::memory_order_acquire); }
    // For the only thread: whether it has anything to run.
    bool nothing_to_run() const { return workers_.front()->empty(); }
    // By workers.
    bool poll();
    void sleep();
    bool single_threaded() const { return workers_.size() == 1; }
    void begun(int source, std::size_t charge);
    void too_many(Worker &worker);
    void report(Address sender, const std::string &error);
    void say(const std::string &error);

    struct Counts {
        std::int64_t objects, queued, ran, sent, received;
    };
    Counts counts() const;

    // Those that this rank keeps.
    std::shared_ptr<Events> events;

  private:
    std::unique_ptr<TrapStack> trap_stack_;
    struct Peer {
        std::atomic<std::int64_t> on_the_way{0}, begun{0};
        std::atomic<bool> lost{false};
        WaitList waiters;
    };
    struct Expected {
        std::shared_ptr<Awaited> awaited;
        int rank = -1;
        std::uint32_t generation = 1;
        std::uint32_t next_free = 0;
    };
    void carry(int rank, const Wire &wire, const Writer &writer, const std::vector<int> *many = nullptr);
    void look_for_dead();
    friend struct Finishing;

    std::unique_ptr<Network> network_;
    const int rank_, size_;
    const Options options_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;
    std::unique_ptr<Peer[]> peers_;
    std::atomic<unsigned> next_worker_{0};
    std::mutex polling_;
    std::uint64_t polls_ = 0;
    std::chrono::steady_clock::time_point looked_{};
    std::atomic<std::int64_t> received_{0};

    std::mutex expected_mutex_;
    std::vector<Expected> expected_;
    std::uint32_t free_expected_ = 0;

    std::mutex error_mutex_;
    std::function<void(const std::string &)> on_error_;

    // How often finish() was called, and how often it has ended.
    std::atomic<std::uint64_t> entered_{0}, finished_{0};
    WaitList finishing_;
    // Methods that wait for the window of another rank: they have begun and are in no queue.
    std::atomic<int> held_{0};
    std::unique_ptr<Reporter> reporter_;
};

template <class T>
void Answer::value(T &&value)
{
    using Value = std::decay_t<T>;
    if (local != nullptr) {
        // Asked for in this process by somebody who knows the type, or by name.
        if (auto *typed = dynamic_cast<AwaitedValue<Value> *>(local.get()))
            typed->set(std::forward<T>(value));
        else
            local->fail("the result has another type than was asked for");
    } else if (call != 0) {
        Writer writer;
        writer.value(signature<Value>);
        Codec<Value>::write(writer, value);
        send(writer);
    }
}

}  // namespace composite

#include "runtime.hh"

#include <cstdio>
#include <new>
#include <unordered_map>
#include <utility>

#include "top.hh"
#include "trap.hh"

namespace composite {

namespace {

// What a message costs its receiver beside its data.
constexpr std::size_t message_charge = 128;
// Items of one worker of this process, after which who posts more must wait.
constexpr std::int64_t most_queued = 65536;
// Rounds without anything before the clock is looked at, and time between two looks for dead ranks.
constexpr std::uint64_t liveness_rounds = 1024;
constexpr std::chrono::milliseconds liveness_pause{500};

struct Services {
    std::unordered_map<std::uint32_t, Runtime::Service> by_id;
};
Services &services()
{
    static Services &instance = *new Services;
    return instance;
}

// A method that waits for the window of another rank.
struct Held {
    explicit Held(std::atomic<int> &count) : count(count) { count.fetch_add(1, std::memory_order_relaxed); }
    // [J7] publishes that it was posted, to go on; pairs with [J8].
    ~Held() { count.fetch_sub(1, std::memory_order_release); }
    std::atomic<int> &count;
};

std::string gone(int rank) { return "rank " + std::to_string(rank) + " is gone: what it was asked for will not come"; }

}  // namespace

// ---- answers ----------------------------------------------------------------------------------------------------------

void Answer::send(const Writer &value)
{
    Wire wire{Kind::value};
    wire.call = call;
    wire.uncounted = uncounted;
    try {
        Runtime::current().send(sender.rank, wire, value);
    } catch (const Error &) {
        // Who asked is gone.
    }
}

void Answer::done()
{
    if (local != nullptr) {
        if (auto *typed = dynamic_cast<AwaitedValue<void> *>(local.get()))
            typed->set({});
        else
            local->fail("the method has no result, and one was asked for");
    } else if (call != 0) {
        Writer writer;
        writer.value(signature<void>);
        send(writer);
    }
}

void Answer::failed(const std::string &error)
{
    if (local != nullptr) {
        local->fail(error);
    } else if (call != 0) {
        Wire wire{Kind::failure};
        wire.call = call;
        Writer writer;
        Codec<std::string>::write(writer, error);
        try {
            Runtime::current().send(sender.rank, wire, writer);
        } catch (const Error &) {
        }
    } else {
        Runtime::current().report(sender, error);
    }
}

// ---- messages that came -----------------------------------------------------------------------------------------------

Arrived *Arrived::make(const Wire &wire, int source, std::span<const std::byte> inlined, BlockPointer block)
{
    auto *made = new (::operator new(sizeof(Arrived) + inlined.size())) Arrived;
    made->wire = wire;
    made->source = source;
    made->object = wire.object;
    made->answer.sender = {source, wire.sender};
    made->answer.call = wire.kind == Kind::part ? 0 : wire.call;  // which parameter it is
    made->answer.uncounted = wire.uncounted;
    if (!inlined.empty())
        std::memcpy(reinterpret_cast<std::byte *>(made + 1), inlined.data(), inlined.size());
    made->block = std::move(block);
    return made;
}

void Arrived::operator delete(Arrived *self, std::destroying_delete_t)
{
    self->~Arrived();
    ::operator delete(self);
}

static_assert(sizeof(Arrived) % 16 == 0, "arguments behind it are aligned");

Reader Arrived::reader()
{
    std::span<std::byte> data;
    if (block != nullptr)
        data = {block->data(), block->size};
    if (!wire.all_in_data)
        return {{reinterpret_cast<std::byte *>(this + 1), wire.inlined}, data, &block};
    const std::size_t bulk = std::min(Writer::rounded(wire.inlined), data.size());
    return {data.first(std::min<std::size_t>(wire.inlined, data.size())), data.subspan(bulk), &block};
}

const Method *Arrived::method_in(const Object &target)
{
    if (wire.kind != Kind::call)
        return nullptr;
    const Method *method = target.type->find(wire.method);
    if (method == nullptr)
        throw Error("the type " + target.type->name + " has no such method here: COMPOSITE_TYPE lists those that it has");
    if (method->signature != wire.signature)
        throw Error("the arguments of " + target.type->name + "::" + method->name + " do not decode: it takes other types");
    return method;
}

void Arrived::execute(Object &target)
{
    Reader from = reader();
    if (wire.kind == Kind::part) {
        const Method *method = target.type->find(wire.method);
        if (method == nullptr)
            throw Error("the type " + target.type->name + " has no such method here: COMPOSITE_TYPE lists those that it has");
        if (method->part == nullptr)
            throw Error("a parameter of " + target.type->name + "::" + method->name + " came by itself, and it takes all at once");
        method->part(target, *method, wire.call, wire.signature, from);
    } else {
        method_in(target)->invoke(target.instance(), from, answer);
    }
}

void Arrived::run(Worker &worker)
{
    if (charge > 0)
        worker.runtime.begun(source, std::exchange(charge, 0));
    if (wire.kind == Kind::destroy) {
        if (Object *target = worker.objects.find(object))
            destroy_object(worker, target);
        delete this;
    } else if (wire.kind == Kind::service) {
        try {
            const auto found = services().by_id.find(wire.method);
            if (found == services().by_id.end())
                throw Error("rank " + std::to_string(worker.runtime.rank()) +
                            " has another version of this library, without what was asked for");
            Runs runs(worker, this);
            Reader from = reader();
            found->second(worker, source, from, answer);
        } catch (const std::exception &error) {
            answer.failed(error.what());
        } catch (...) {
            answer.failed("what was asked for threw something that is no std::exception");
        }
        delete this;
    } else {
        Call::run(worker);
    }
}

void Runtime::arrived(int source, std::span<const std::byte> header, BlockPointer block)
{
    Wire wire;
    if (header.size() < sizeof wire || source < 0 || source >= size_)
        return;
    std::memcpy(&wire, header.data(), sizeof wire);
    std::span<const std::byte> inlined = header.subspan(sizeof wire);
    if (!wire.all_in_data && inlined.size() != wire.inlined)
        return;
    switch (wire.kind) {
    case Kind::credit:
        peers_[source].on_the_way.fetch_sub(static_cast<std::int64_t>(wire.call), std::memory_order_relaxed);
        peers_[source].waiters.wake_all();
        return;
    case Kind::value:
    case Kind::failure:
    case Kind::error: {
        if (wire.uncounted == 0)
            received_.fetch_add(1, std::memory_order_relaxed);
        std::unique_ptr<Arrived> message(
            Arrived::make(wire, source, wire.all_in_data ? std::span<const std::byte>() : inlined, std::move(block)));
        Reader from = message->reader();
        std::shared_ptr<Awaited> awaited;
        try {
            if (wire.kind == Kind::error) {
                report({rank_, wire.object}, Codec<std::string>::read(from));
                return;
            }
            awaited = take_expected(wire.call, source);
            if (awaited == nullptr)
                return;
            if (wire.kind == Kind::value)
                awaited->decode(from);
            else
                awaited->fail(Codec<std::string>::read(from));
        } catch (const std::exception &error) {
            if (awaited != nullptr)
                awaited->fail(error.what());
        }
        return;
    }
    case Kind::call:
    case Kind::part:
    case Kind::destroy:
    case Kind::service: {
        if (wire.uncounted == 0)
            received_.fetch_add(1, std::memory_order_relaxed);
        const std::size_t charge = source == rank_ || wire.kind > Kind::part ? 0 : message_charge + (block != nullptr ? block->size : 0);
        Arrived *made = Arrived::make(wire, source, wire.all_in_data ? std::span<const std::byte>() : inlined, std::move(block));
        made->charge = charge;
        Worker &to = wire.kind != Kind::service ? worker_of(wire.object) : wire.object == 0 ? service_worker() : next_worker();
        // Whichever thread makes progress hands messages on, MPI's own as well, so none may take the short way of a worker to itself.
        if (source == rank_)
            to.post(made);
        else
            to.post_in_order(made);
        return;
    }
    }
}

// ---- sending ----------------------------------------------------------------------------------------------------------

void Runtime::send(int rank, Wire wire, const Writer &writer)
{
    if (rank < 0 || rank >= size_)
        throw Error("there is no rank " + std::to_string(rank) + " in a session of " + std::to_string(size_) + " ranks");
    Worker &worker = Worker::current();
    wire.sender = worker.object != nullptr ? worker.object->number : 0;
    Peer &peer = peers_[rank];
    if (rank != rank_) {
        if (peer.lost.load(std::memory_order_acquire))
            throw Error(gone(rank));
        if (wire.kind <= Kind::part) {
            const auto window = static_cast<std::int64_t>(options_.window);
            const auto may_go_on = [&] {
                return peer.on_the_way.load(std::memory_order_relaxed) < window || peer.lost.load(std::memory_order_acquire);
            };
            if (!may_go_on()) {
                const Held held(held_);
                while (!may_go_on())
                    peer.waiters.wait_unless(may_go_on, true);
            }
            if (peer.lost.load(std::memory_order_acquire))
                throw Error(gone(rank));
            std::size_t charge = message_charge + writer.bulk_bytes();
            if (writer.inlined().size() > Network::largest_header - sizeof wire)
                charge += Writer::rounded(writer.inlined().size());
            peer.on_the_way.fetch_add(static_cast<std::int64_t>(charge), std::memory_order_relaxed);
        }
    }
    if (wire.kind != Kind::credit && wire.uncounted == 0)
        Worker::count(worker.sent);
    carry(rank, wire, writer);
    if (rank == rank_ && wire.kind <= Kind::part)
        too_many(worker_of(wire.object));
}

void Runtime::multicast(const std::vector<int> &ranks, Wire wire, const Writer &writer)
{
    Worker::count(Worker::current().sent, static_cast<std::int64_t>(ranks.size()));
    carry(-1, wire, writer, &ranks);
}

void Runtime::carry(int rank, const Wire &given, const Writer &writer, const std::vector<int> *many)
{
    Wire wire = given;
    const std::span<const std::byte> inlined = writer.inlined();
    std::byte header[Network::largest_header];
    std::size_t header_size = sizeof wire;
    wire.inlined = static_cast<std::uint32_t>(inlined.size());
    wire.all_in_data = inlined.size() > sizeof header - sizeof wire;
    BlockPointer block;
    std::span<const std::byte> data;
    const bool keep = rank == rank_;
    if (wire.all_in_data || writer.bulk().size() > 1 || (keep && !writer.bulk().empty())) {
        const std::size_t before = wire.all_in_data ? Writer::rounded(inlined.size()) : 0;
        block.reset(Block::take(before + writer.bulk_bytes()));
        if (wire.all_in_data)
            std::memcpy(block->data(), inlined.data(), inlined.size());
        writer.copy_bulk(block->data() + before);
        data = {block->data(), block->size};
    } else if (!writer.bulk().empty()) {
        data = writer.bulk().front();
    }
    std::memcpy(header, &wire, sizeof wire);
    if (!wire.all_in_data) {
        if (!inlined.empty())
            std::memcpy(header + sizeof wire, inlined.data(), inlined.size());
        header_size += inlined.size();
    }
    const std::span<const std::byte> all_header(header, header_size);
    if (many != nullptr) {
        network_->multicast(*many, all_header, data);
    } else if (keep) {
        arrived(rank_, all_header, std::move(block));
    } else {
        try {
            network_->send(rank, all_header, data);
        } catch (const Error &) {
            lost(rank);
            throw Error(gone(rank));
        }
    }
}

void Runtime::begun(int source, std::size_t charge)
{
    Peer &peer = peers_[source];
    const auto share = static_cast<std::int64_t>(options_.window / 4);
    const std::int64_t now =
        peer.begun.fetch_add(static_cast<std::int64_t>(charge), std::memory_order_relaxed) + static_cast<std::int64_t>(charge);
    if (now < share)
        return;
    const std::int64_t told = peer.begun.exchange(0, std::memory_order_relaxed);
    if (told == 0)
        return;
    Wire wire{Kind::credit};
    wire.call = static_cast<std::uint64_t>(told);
    try {
        send(source, wire, Writer());
    } catch (const Error &) {
    }
}

void Runtime::too_many(Worker &to)
{
    Worker &worker = Worker::current();
    while (to.queued() > most_queued)
        worker.yield(true);
}

// ---- calls that are waited for ----------------------------------------------------------------------------------------

std::uint64_t Runtime::expect(std::shared_ptr<Awaited> awaited, int rank)
{
    std::lock_guard lock(expected_mutex_);
    std::uint32_t slot = free_expected_;
    if (slot == expected_.size())
        expected_.push_back({nullptr, -1, 1, slot + 1});
    Expected &entry = expected_[slot];
    free_expected_ = entry.next_free;
    entry.awaited = std::move(awaited);
    entry.rank = rank;
    return std::uint64_t{entry.generation} << 32 | slot;
}

std::shared_ptr<Awaited> Runtime::take_expected(std::uint64_t call, int rank)
{
    std::lock_guard lock(expected_mutex_);
    const auto slot = static_cast<std::uint32_t>(call);
    if (slot >= expected_.size() || expected_[slot].generation != call >> 32 || expected_[slot].rank != rank)
        return nullptr;
    Expected &entry = expected_[slot];
    if (++entry.generation == 0)
        entry.generation = 1;
    entry.rank = -1;
    entry.next_free = free_expected_;
    free_expected_ = slot;
    return std::move(entry.awaited);
}

void Runtime::ask(int rank, std::uint32_t service, const Writer &arguments, std::shared_ptr<Awaited> awaited, bool any_worker,
                  bool uncounted)
{
    Wire wire{Kind::service};
    wire.object = any_worker ? 1 : 0;
    wire.uncounted = uncounted;
    wire.method = service;
    if (awaited != nullptr)
        wire.call = expect(awaited, rank);
    try {
        send(rank, wire, arguments);
    } catch (const Error &error) {
        if (awaited == nullptr)
            throw;
        if (take_expected(wire.call, rank) != nullptr)
            awaited->fail(error.what());
    }
}

std::uint32_t Runtime::add_service(const char *name, Service service)
{
    const std::uint32_t id = hash32(name);
    services().by_id[id] = service;
    return id;
}

void Runtime::lost(int rank)
{
    Peer &peer = peers_[rank];
    if (peer.lost.exchange(true, std::memory_order_acq_rel))
        return;
    std::vector<std::shared_ptr<Awaited>> failing;
    {
        std::lock_guard lock(expected_mutex_);
        for (std::size_t slot = 0; slot < expected_.size(); ++slot) {
            Expected &entry = expected_[slot];
            if (entry.rank != rank || entry.awaited == nullptr)
                continue;
            failing.push_back(std::move(entry.awaited));
            ++entry.generation;
            entry.rank = -1;
            entry.next_free = free_expected_;
            free_expected_ = static_cast<std::uint32_t>(slot);
        }
    }
    for (const auto &each : failing)
        each->fail(gone(rank));
    peer.waiters.wake_all();
    finishing_.wake_all();
}

// ---- errors of messages that nobody waits for -------------------------------------------------------------------------

void Runtime::report(Address sender, const std::string &error)
{
    if (sender.rank != rank_) {
        Wire wire{Kind::error};
        wire.object = sender.number;
        Writer writer;
        Codec<std::string>::write(writer, error);
        try {
            send(sender.rank, wire, writer);
        } catch (const Error &) {
        }
        return;
    }
    struct Failed : Item {
        Failed(std::uint64_t number, const std::string &error) : number(number), error(error) {}
        void run(Worker &worker) override
        {
            Object *object = number == 0 ? nullptr : worker.objects.find(number);
            if (object == nullptr || object->type->failed == nullptr) {
                worker.runtime.say(error);
            } else if (object->held) {
                worker.post(this);
                return;
            } else {
                run_as_method(worker, *object, [&] {
                    try {
                        object->type->failed(object->instance(), Error(error));
                    } catch (const std::exception &another) {
                        worker.runtime.say(error + "; handling this: " + another.what());
                    } catch (...) {
                        worker.runtime.say(error + "; handling this threw something that is no std::exception");
                    }
                });
            }
            delete this;
        }
        std::uint64_t number;
        std::string error;
    };
    worker_of(sender.number).post(new Failed(sender.number, error));
}

void Runtime::say(const std::string &error)
{
    std::unique_lock lock(error_mutex_);
    const auto handler = on_error_;
    lock.unlock();
    if (handler)
        handler(error);
    else
        std::fprintf(stderr, "composite objects, rank %d: a message failed: %s\n", rank_, error.c_str());
}

void Runtime::on_error(std::function<void(const std::string &)> handler)
{
    std::lock_guard lock(error_mutex_);
    on_error_ = std::move(handler);
}

// ---- beginning, going on, end -----------------------------------------------------------------------------------------

Runtime::Runtime(std::unique_ptr<Network> network, const Options &options)
    : network_(std::move(network)), rank_(network_->rank()), size_(network_->size()), options_(options),
      peers_(std::make_unique<Peer[]>(static_cast<std::size_t>(size_)))
{
    if (Worker::current_or_null() != nullptr)
        throw Error("this thread has a session already: a session ends before the next one begins");
    if (options.workers > 250)
        throw Error("a session has at most 250 worker threads");
    for (unsigned i = 0; i <= options.workers; ++i)
        workers_.push_back(std::make_unique<Worker>(*this, i, options.stack));
    Worker::become(workers_.front().get());
    network_->begin(*this);
    enter_traps();
    trap_stack_ = std::make_unique<TrapStack>();
    for (unsigned i = 1; i <= options.workers; ++i)
        threads_.emplace_back([worker = workers_[i].get()] { worker->serve(); });
    reporter_ = Reporter::start(*this);
}

Runtime::~Runtime()
{
    reporter_.reset();
    for (std::size_t i = 1; i < workers_.size(); ++i)
        workers_[i]->stop();
    for (std::thread &each : threads_)
        each.join();
    network_->end();
    // What still waits for something is forgotten with its stack; objects without such methods are destroyed.
    for (auto &worker : workers_) {
        Worker::become(worker.get());
        worker->objects.each([&](Object *object) {
            if (object->active == 0)
                release_object(object, true);
        });
    }
    for (bool some = true; some;) {
        some = false;
        for (auto &worker : workers_) {
            Worker::become(worker.get());
            worker->forget_waiting();
            some |= worker->forget_items();
        }
    }
    trap_stack_.reset();
    leave_traps();
    Worker::become(nullptr);
}

Worker &Runtime::worker_of(std::uint64_t number)
{
    const unsigned index = ObjectTable::worker_of(number);
    return *workers_[index < workers_.size() ? index : 0];
}

Worker &Runtime::next_worker()
{
    if (workers_.size() == 1)
        return *workers_.front();
    return *workers_[1 + next_worker_.fetch_add(1, std::memory_order_relaxed) % (workers_.size() - 1)];
}

bool Runtime::poll()
{
    std::unique_lock lock(polling_, std::try_to_lock);
    if (!lock.owns_lock())
        return false;
    const std::int64_t before = received_.load(std::memory_order_relaxed);
    network_->progress();
    if (received_.load(std::memory_order_relaxed) != before)
        return true;
    if (++polls_ % liveness_rounds == 0)
        look_for_dead();
    return false;
}

void Runtime::sleep()
{
    network_->sleep();
    look_for_dead();
}

// Looks for those whom somebody waits for, now and then: they owe us an answer, must catch up, or are to end finish(). A message that says nothing cannot be sent to who is gone, where the network notices.
void Runtime::look_for_dead()
{
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < liveness_pause)
        return;
    looked_ = now;
    std::vector<bool> owing(static_cast<std::size_t>(size_));
    {
        std::lock_guard lock(expected_mutex_);
        for (const Expected &each : expected_)
            if (each.rank >= 0)
                owing[static_cast<std::size_t>(each.rank)] = true;
    }
    for (int rank = 0; rank < size_; ++rank)
        if (peers_[rank].on_the_way.load(std::memory_order_relaxed) >= static_cast<std::int64_t>(options_.window))
            owing[static_cast<std::size_t>(rank)] = true;
    if (entered_.load(std::memory_order_relaxed) > finished_.load(std::memory_order_relaxed))
        owing[0] = true;
    const Wire wire{Kind::credit};
    for (int rank = 0; rank < size_; ++rank) {
        if (!owing[static_cast<std::size_t>(rank)] || rank == rank_ || peers_[rank].lost.load(std::memory_order_acquire))
            continue;
        if (!network_->alive(rank)) {
            lost(rank);
            continue;
        }
        try {
            carry(rank, wire, Writer());
        } catch (const Error &) {
            // It is known as lost now.
        }
    }
}

Runtime::Counts Runtime::counts() const
{
    Counts sum{0, 0, 0, 0, received_.load(std::memory_order_relaxed)};
    for (const auto &each : workers_) {
        sum.objects += each->alive.load(std::memory_order_relaxed);
        sum.queued += each->queued();
        sum.ran += each->ran.load(std::memory_order_relaxed);
        sum.sent += each->sent.load(std::memory_order_relaxed);
    }
    return sum;
}

}  // namespace composite

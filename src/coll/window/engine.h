// Windows whose writes tell the target of them. See window.h for what it promises. Under the caller's lock, but for store() and
// load(); knows no MPI, no device and no clock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coll/window/counts.h"
#include "coll/window/direct.h"
#include "coll/window/epochs.h"
#include "coll/window/window.h"
#include "netmod/core/memory.h"
#include "pm/message.h"

namespace pm::coll {

// What a rank's part of a window has been told; in memory that the ranks of its host see, where there is some.
struct alignas(64) WindowBoard {
    std::atomic<std::uint32_t> discard;
    // What processors count, and what devices do: these know nothing of each other.
    using Counts = BasicCounts<std::atomic>;
    alignas(64) Counts by_processors;
    Counts by_devices;
    EpochBoard epochs;

    std::uint32_t notified(std::size_t which) const
    {
        return Counts::read(by_processors.notifications[which]) + Counts::read(by_devices.notifications[which]);
    }
    std::uint32_t counted(std::size_t which) const
    {
        return Counts::read(by_processors.counters[which]) + Counts::read(by_devices.counters[which]);
    }
};

struct WindowMessage {
    enum class Kind : std::uint8_t {
        put,     // the data goes to `offset`
        get,     // `size` bytes from `offset` are wanted: my number `place`
        reply,   // they are the data
        copy,    // `size` bytes from `offset` go to `target`, at `target_offset`
        sync,    // tell me when all you had from me has happened: my number `place`
        synced,  // it has; `forwarded` as in the question
        accept,  // under the key `value` there are `size` bytes of room at `target_offset` of mine; my number `place`
        keyed,   // the data is for the accept with number `place`
    };
    std::uint64_t window = 0;
    Kind kind = Kind::put;
    std::uint8_t after = PM_AFTER_NOTHING;
    std::uint8_t may_be_discarded = 0;
    std::uint8_t forwarded = 0;  // of a sync: what you forwarded for me counts, too
    std::int32_t from = 0;
    std::int32_t value = 0;
    std::int32_t target = 0;
    std::uint64_t offset = 0;
    std::uint64_t flag = 0;
    std::uint64_t size = 0;
    std::uint64_t place = 0;
    std::uint64_t target_offset = 0;
};

class Errands;

class WindowTransport {
  public:
    virtual ~WindowTransport() = default;
    // As pm_send().
    virtual int send(pm_peer *peer, const WindowMessage &message, const void *data, std::size_t size, void *cookie) = 0;
    virtual void ring(pm_peer *peer) = 0;   // it polls soon, asleep or not
    virtual void nudge(pm_peer *peer) = 0;  // it looks again if it sleeps
    virtual WindowBoard *make_board() = 0;  // nullptr when there is no shared memory
    virtual void free_board(WindowBoard *board) = 0;
    virtual WindowBoard *view(pm_peer *peer, std::uint64_t address) = 0;
    virtual void dropped(const pm_peer *peer) = 0;  // it sent what makes no sense
    // Nothing can go on from now on. Without a text it is what send() failed with.
    virtual void failed(const std::string &text) = 0;
    virtual std::uint64_t mailboxes() = 0;  // where others leave errands for us; 0: nowhere
};

class WindowEngine {
  public:
    explicit WindowEngine(WindowTransport &transport) : transport_(transport) {}

    pm_window *open(const pm_window_setup &setup, void *card);
    void meet(pm_window *window, int rank, const void *card);
    void close(pm_window *window);

    bool store(pm_window *window, int target, std::uint64_t offset, const void *data, std::size_t size, const pm_after &after);
    bool load(pm_window *window, int target, std::uint64_t offset, void *data, std::size_t size, int notification);
    int put(pm_window *window, int target, std::uint64_t offset, const void *data, std::size_t size, const pm_after &after);
    int get(pm_window *window, int target, std::uint64_t offset, void *data, std::size_t size, int notification);
    int copy(pm_window *window, int source, std::uint64_t source_offset, int target, std::uint64_t target_offset, std::size_t size,
             const pm_after &after);
    int sync(pm_window *window, volatile int *flag);
    void forget(pm_window *window, const volatile int *flag);

    bool arm(pm_window *window, int counter, int arrivals, volatile int *flag);
    bool is_armed(const pm_window *window, int counter) const;
    void poll();
    std::size_t armed() const { return armed_.size(); }
    pm_window *find(std::uint64_t id);  // nullptr: there is none

    int offer(pm_window *window, int target, int key, const void *data, std::size_t size, volatile int *flag);
    int accept(pm_window *window, int source, int key, std::uint64_t offset, std::size_t room, volatile int *flag);

    // Nothing in a message is believed: what is not in order is dropped as a whole.
    void *arrived(const Envelope &envelope, const void *piece, std::size_t piece_size, std::size_t total);
    void more(void *cookie, const void *piece, std::size_t piece_size);
    void *place(void *cookie);
    void placed(void *cookie);
    void taken(void *cookie);

  private:
    struct Incoming;
    struct Sending;
    struct Sync;
    struct Armed {
        pm_window *window;
        int counter;
        std::uint32_t arrivals;
        volatile int *flag;
    };
    friend struct ::pm_window;

    int send(pm_window *window, int target, WindowMessage message, const void *data, std::size_t size, std::unique_ptr<Sending> sending);
    static bool is_in_order(const pm_window *window, const WindowMessage &message, const pm_peer *source, std::size_t size);
    static bool is_other_in_order(const pm_window *window, const WindowMessage &message, std::size_t size);
    void finish(pm_window *window, const WindowMessage &message, volatile int *accepted);
    void on_get(pm_window *window, const WindowMessage &message);
    void on_sync(pm_window *window, const WindowMessage &message);
    void settle(pm_window *window);
    void answer(pm_window *window, int rank, std::uint64_t number, bool forwarded);
    int match(pm_window *window, int target, int key);

    WindowTransport &transport_;
    std::unordered_map<std::uint64_t, std::unique_ptr<pm_window>> windows_;
    std::vector<Armed> armed_;
};

}  // namespace pm::coll

struct pm_window {
    struct Unregister {
        void operator()(pm_memory *memory) const;
    };
    struct CloseRemote {
        void operator()(pm_remote *remote) const;
    };
    using Memory = std::unique_ptr<pm_memory, Unregister>;
    using Remote = std::unique_ptr<pm_remote, CloseRemote>;

    // What we know of a rank's part, and how far our messages to it have come: issued >= asked >= known. `arrived` is known
    // without what the target has forwarded for us.
    struct Target {
        pm_peer *peer = nullptr;  // nullptr: ourselves
        bool direct = false;      // we see its memory and its board
        std::byte *memory = nullptr;
        pm::coll::WindowBoard *board = nullptr;
        std::uint64_t name_address = 0;  // of its board's name, there
        std::uint64_t base = 0, bytes = 0, unit = 1;
        std::uint64_t issued = 0, asked = 0, known = 0, arrived = 0;
        std::uint64_t forwarded = 0;  // the last one that was somebody else's
        // Its memory and its counts, where a device reaches them by itself (one_sided.h).
        Remote part, counts;
        std::uint64_t counts_base = 0;
        // Who may do what we ask of it (errands.h).
        std::uint64_t mailboxes = 0;
        std::shared_ptr<pm::coll::Errands> errands;
        enum class Since { nothing, moved, asked } since = Since::nothing;  // everything had happened the last time
        bool failed = false;  // something of that, which is not told yet
    };
    struct Offer {
        const void *data;
        std::size_t size;
        volatile int *flag;
    };
    // What we have asked a rank for, and where its answer goes.
    struct Get {
        int from;
        std::byte *place;
        std::size_t size;
    };
    struct Accept {
        int from;
        std::uint64_t offset;
        std::size_t room;
        volatile int *flag;
    };

    pm_window_setup setup{};
    pm::coll::WindowBoard *board = nullptr;
    std::unique_ptr<pm::coll::WindowBoard> own_board;  // where there is no shared memory
    std::vector<Target> targets;
    Memory part, counts;        // what devices may write of ours
    bool one_sided = false;     // some rank's part may be reached so; the same at all ranks
    bool devices_used = false;  // since everything had happened
    std::array<std::uint32_t, PM_NOTIFICATIONS> taken{};
    std::array<std::uint32_t, PM_COUNTERS> counted{};
    bool near = true;          // all targets are direct
    pm_direct direct{};        // direct.h
    std::vector<pm_direct_part> direct_parts;
    std::vector<unsigned char> direct_bytes;
    std::vector<std::uint32_t> direct_counts;
    bool one_thread = false;   // calls us, as its rank has said
    std::uint32_t fences = 0;  // that we have come to
    std::vector<int> unknown;  // those with known < issued
    std::vector<pm::coll::WindowEngine::Sync> syncs;
    std::map<std::pair<int, int>, std::deque<Offer>> offers;                          // by target and key
    std::map<std::pair<int, int>, std::deque<pm::coll::WindowMessage>> accepts;       // by who accepts, and key
    // Ours, by numbers that are never used again.
    std::unordered_map<std::uint64_t, Get> gets;
    std::unordered_map<std::uint64_t, Accept> accepted;
    std::uint64_t last_number = 0;
    std::vector<pm::coll::WindowEngine::Incoming *> incoming;  // messages of which not all is here

    pm_window();
    ~pm_window();
    bool take(int notification);
    bool take_count(int counter, std::uint32_t arrivals);
};

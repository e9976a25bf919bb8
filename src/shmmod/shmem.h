// PM(SHMEM): messages between processes of one host. See README.md beside this file.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/cpus.h"
#include "base/handed_over.h"
#include "base/process.h"
#include "base/status.h"
#include "base/time.h"
#include "pm/device.h"
#include "shmmod/doorbell.h"
#include "shmmod/arena.h"
#include "shmmod/heap.h"
#include "shmmod/host_file.h"
#include "shmmod/pull.h"
#include "shmmod/ring.h"
#include "shmmod/segment.h"

namespace pm::shmem {

struct Settings {
    Backing backing = Backing::automatic;
    int ranks_on_host = 1;
    std::shared_ptr<HostFile> host = nullptr;  // that the processes of the job share here; none: one of its own
    std::uint32_t region = 0;                  // in it
    bool may_be_pulled = true;                 // other processes of this user may read our memory (see pull.h), and are told so
};

// What another process needs to find this one.
struct Card {
    std::uint64_t host;
    std::uint64_t token;  // of the file
    std::uint64_t region;  // where in the file
    std::int32_t process;
    std::int32_t file;
    CoreGrant grant;
};
static_assert(sizeof(Card) <= max_card_size);

class Shmem {
  public:
    // The sending side of one pair. Attached by the first message.
    struct Peer {
        Card card{};
        std::shared_ptr<HostFile> host;
        Mapping header;
        Mapping slot;
        std::size_t bulk_offset = 0;  // in the file
        HandedOver<std::atomic<std::uint32_t> *> doorbell;  // its ready word, from the first look at it or its first message on
        std::atomic<std::uint32_t> *ready = nullptr;  // the same, once there is a slot
        std::uint32_t bit = ready_bit(0);             // whose slot that is does not matter to one that is only to look around
        Producer<std::atomic> producer;
        PublishedView heap, arena;
        Error error;  // why the peer is not usable any more

        // Not in our job, with which it would end.
        bool foreign = false;
        ProcessName process;
        bool left = false;           // it has said that it sends us nothing more
        Time ended_since = never;    // it has not, and its process has been seen to have ended
        bool not_woken = false;      // by us, and it knows
        bool not_joint = false;      // it could not write to our memory
        std::uint64_t identity() const { return card.token + card.region; }
    };

    ~Shmem();
    static Result<std::unique_ptr<Shmem>> create(const Settings &settings, const Sink &sink);

    const char *name() const { return "shmem"; }
    Capabilities capabilities() const { return {largest_header, true, true}; }
    std::size_t write_card(void *card) const;
    Result<Peer *> connect(const void *card, std::size_t size);
    // Its owner is in the same file as this process: each can be connected to by the other, whatever happens.
    bool is_beside(const void *card, std::size_t size) const;
    void introduce(const void *card, std::size_t size, pm_peer *source);
    // Gives everything back: the descriptor of another job with its last peer, mappings, and the slot at the peer, which still gets
    // what was sent before. One of another job is told, so that our end is none of its business any more.
    void disconnect(Peer *peer);
    // Before the last disconnects: this process ends in order.
    void leave();

    Status try_send(Peer *peer, const Message &message, SendProgress *progress)
    {
        if (peer->ready == nullptr) [[unlikely]] {
            if (Status status = attach(peer); status != Status::ok)
                return status;
        }
        if (message.header_size + message.payload.size <= small_capacity && !progress->started) [[likely]] {
            if (!peer->producer.push_small(message)) [[unlikely]]
                return full(peer);
            progress->started = true;
            ring(peer);
            return Status::ok;
        }
        return send_parts(peer, message, progress);
    }

    // All of a message of at most whole_limit bytes, or nothing: false.
    static constexpr std::size_t whole_limit = whole_piece;
    bool try_send_whole(Peer *peer, const Message &message)
    {
        if (peer->ready == nullptr) [[unlikely]]
            return false;
        std::size_t accepted;
        if (message.header_size + message.payload.size <= small_capacity) [[likely]] {
            if (!peer->producer.push_small(message)) [[unlikely]]
                return false;
        } else if (!peer->producer.push_first(message, &accepted)) {
            return false;
        }
        ring(peer);
        return true;
    }

    // The same with a header of short_header bytes. The first one, too: whoever has to keep it until the peer is attached pays more. No other
    // thread is sending.
    bool try_send_short(Peer *peer, std::uint8_t tag, const void *header, const void *data, std::size_t size)
    {
        if (peer->ready == nullptr && attach(peer) != Status::ok) [[unlikely]]
            return false;
        if (short_header + size > small_capacity) [[unlikely]]
            return try_send_whole(peer, {tag, header, short_header, {data, size, nullptr, nullptr}});
        if (!peer->producer.push_short(tag, header, data, size)) [[unlikely]]
            return false;
        ring(peer);
        return true;
    }

    // Number of cells delivered. A ring that has just spoken is answered before the ready word is looked at: the sender's
    // change of that word is still on its way, and waiting for the line would delay the answer.
    unsigned poll()
    {
        if (recent_ != nullptr && recent_->consumer.ready() && ++recent_turns_ % recent_turns_in_a_row != 0)
            return drain(recent_);
        std::uint32_t bits = take_ready(&header_->ready);
        if (attending_)
            bits |= ready_bit(recent_->slot);
        return bits == 0 ? 0 : drain_ready(bits);
    }

    // Whether a sender that is heard again and again is spared the ready word: only where one thread polls and sleeps. Whether senders wait for us rather
    // than to take more memory: only where each rank has a core of its own.
    void attend_senders(bool allowed, bool have_cores)
    {
        have_cores_ = have_cores;
        for (Peer *peer : own_)
            peer->producer.be_patient(have_cores);
        may_attend_ = allowed && is_fenced_;
        if (!may_attend_)
            leave_recent();
    }

    // poll() would deliver nothing. The bit of the ring that has just spoken says nothing that the ring does not: it is left alone, so that
    // its sender and we do not take the line of the ready word from each other with every message. A poll() now and then clears it.
    bool is_quiet() const
    {
        return !(recent_ != nullptr && recent_->consumer.ready()) &&
               (header_->ready.load(std::memory_order_relaxed) & ~(sleeping | recent_bit_)) == 0;
    }

    bool arm()
    {
        leave_recent();
        return arm_doorbell(&header_->ready);
    }
    void sleep(std::chrono::nanoseconds limit) { sleep_on_doorbell(&header_->ready, limit); }
    void disarm() { disarm_doorbell(&header_->ready); }
    // For an owner that sleeps on other things as well: from now on a sender that finds us armed makes this descriptor readable
    // instead; negative when that cannot be. Empty it after a sleep.
    int open_descriptor();
    void empty_descriptor();
    int descriptor() const { return wake_reader_.get(); }
    // Brief where there is no descriptor, or a sender cannot wake us up that way.
    std::chrono::nanoseconds sleep_limit() const
    {
        bool woken = descriptor() >= 0 && header_->not_woken.load(std::memory_order_relaxed) == 0;
        return woken ? std::chrono::nanoseconds::max() : std::chrono::microseconds(500);
    }

    // While it is quiet: whether the processes of peers are still there. The launcher need not end our job when one of it dies, and never when one of
    // another does.
    void look_after_peers(Time now);
    // Of one that is not, until it is disconnected; or why a sender cannot be heard, until it can.
    const Error *failure() const { return failure_ ? &failure_ : unmapped_ ? &unmapped_ : nullptr; }

    // True when the peer told us that it can read our memory.
    bool peer_can_pull(const Peer *peer) const { return peer->ready != nullptr && peer->producer.pull_works(); }
    // What the first message does otherwise: pull() does it, too, and no other thread may be sending then.
    Status prepare(Peer *peer) { return peer->ready != nullptr ? Status::ok : attach(peer); }
    // Copies from the peer's memory; false when it cannot be read.
    bool pull(Peer *peer, std::uint64_t address, const iovec *pieces, std::size_t count);
    // The same together with the peer, as far as it looks meanwhile (joint.h): it has to be told the number, and helps; then we pull. 0: better alone. One
    // at a time, of a peer that is prepared.
    std::uint32_t open_joint(Peer *peer, std::size_t size);
    bool pull_joint(Peer *peer, std::uint32_t number, std::uint64_t address, void *place, std::size_t size);
    void help_joint(Peer *peer, std::uint32_t number, const void *data, std::uint64_t place, std::size_t size);
    // By the kernel, of a peer that is prepared. No lock needed.
    bool read_memory(const Peer *peer, std::uint64_t address, void *data, std::size_t size) const
    {
        iovec piece{data, size};
        return shmem::pull(peer->card.process, address, &piece, 1);
    }
    bool write_memory(const Peer *peer, std::uint64_t address, const void *data, std::size_t size) const
    {
        return shmem::push(peer->card.process, address, data, size);
    }

    bool read_pieces(const Peer *peer, const iovec *here, const iovec *there, std::size_t count) const
    {
        return shmem::pull_many(peer->card.process, here, there, count);
    }
    bool write_pieces(const Peer *peer, const iovec *here, const iovec *there, std::size_t count) const
    {
        return shmem::push_many(peer->card.process, here, there, count);
    }

    // What peers read without a system call when they pull it. See heap.h.
    void *allocate_shared(std::size_t size) { return heap_.allocate(size); }
    void free_shared(void *block) { heap_.free(block); }
    // Of any size, for the program: see arena.h.
    void *allocate_mapped(std::size_t size, std::size_t at_once) { return arena_.allocate(size, at_once); }
    bool free_mapped(void *block) { return arena_.free(block); }
    // Where a part of the peer's shared memory is here; nullptr when it cannot be seen.
    void *view(Peer *peer, std::uint64_t address, std::size_t size);

    // The peer looks around, asleep or not. Takes no slot there, so one that has none left, or no memory for its ring, is woken as well.
    void ring_at(Peer *peer)
    {
        if (peer->doorbell.alone() != nullptr || find_doorbell(peer) == Status::ok)
            ring_doorbell(peer->doorbell.alone(), peer->bit, [this, peer] { wake(peer); });
    }
    // Of one whose doorbell we have not found yet it is not known. Any thread asks, while another one may be finding it.
    static bool may_sleep(const Peer *peer)
    {
        const std::atomic<std::uint32_t> *doorbell = peer->doorbell.get();
        return doorbell == nullptr || (doorbell->load(std::memory_order_relaxed) & sleeping);
    }

    static bool has_ended(const Peer *peer) { return process_has_ended(peer->process); }
    static CoreGrant grant_of(const Peer *peer) { return peer->card.grant; }

    // Memory of this process's segment that is in use: bytes given to senders that claimed a slot.
    std::size_t memory_in_use() const;
    // Who may be sending to us now.
    std::size_t senders() const;

  private:
    static constexpr std::uint32_t recent_turns_in_a_row = 16;  // then the others have a turn
    static constexpr unsigned cells_before_attending = 64, cells_before_leaving = 256;

    // The receiving side of one pair.
    struct Incoming {
        std::uint32_t slot = 0;
        Mapping mapping;
        Consumer<std::atomic> consumer;
        pm_peer *source = nullptr;
        int tag = 0;
        void *cookie = nullptr;  // of the message whose parts are arriving
        std::size_t left = 0;    // of its payload
        bool foreign = false;
        ProcessName process;     // of a foreign one
        bool died = false;       // before it closed the ring
        std::uint64_t identity() const { return consumer.control().producer_probe_value; }
    };

    Shmem() = default;
    void ring(Peer *peer)
    {
        if (peer->producer.is_attended())
            return;
        ring_always(peer);
    }
    void ring_always(Peer *peer)
    {
        ring_doorbell(peer->ready, peer->bit, [this, peer] { wake(peer); });
    }
    void note_woken(Peer *peer, bool can);
    void wake(Peer *peer);
    Result<std::shared_ptr<HostFile>> host_of(const Card &card);
    Status find_doorbell(Peer *peer);
    static SegmentHeader *header_of(const Peer *peer) { return reinterpret_cast<SegmentHeader *>(peer->header.data()); }
    static Status map_header(Peer *peer);
    Status attach(Peer *peer);
    void attach_early(Peer *peer);
    Result<std::uint32_t> find_slot(Peer *peer);
    Status open_ring(Peer *peer);
    void keep_rings();
    static Status full(Peer *peer);
    static std::byte *find_published(Peer *peer, std::uint64_t address, std::size_t size);
    Status send_parts(Peer *peer, const Message &message, SendProgress *progress);
    unsigned drain(Incoming *incoming);
    void has_heard(Incoming *incoming, unsigned count);
    void leave_recent();
    unsigned drain_ready(std::uint32_t bits);
    Incoming *incoming_of(std::uint32_t slot);
    void give_back(std::uint32_t slot);
    void has_left(std::uint64_t sender);
    void close_rings_of_the_dead();
    bool is_foreign(std::uint64_t identity) const;
    bool has_died(Peer *peer, Time now);

    Settings settings_;
    Sink sink_;
    Card card_{};
    Heap heap_;
    Arena arena_;
    std::shared_ptr<HostFile> host_;
    std::map<std::uint64_t, std::weak_ptr<HostFile>> other_hosts_;  // of other jobs, by their tokens
    File wake_reader_, wake_writer_;
    // Pipes of those who were woken up last: few, however many there are.
    struct WakeFile {
        std::int32_t process = 0, number = -1;
        File file;
    };
    std::array<WakeFile, 8> wake_files_;
    Mapping header_mapping_;
    SegmentHeader *header_ = nullptr;
    std::vector<std::unique_ptr<Incoming>> incoming_;
    bool has_plenty_ = false;  // of shared memory, for all that ranks of this host may want
    std::vector<Mapping> kept_;  // slots that nobody has opened yet
    std::unordered_map<std::uint64_t, pm_peer *> sources_;  // by the tokens of their regions
    Incoming *recent_ = nullptr;  // whom we heard last: looked at first
    std::uint32_t recent_bit_ = 0;  // of the ready word, where it is nobody else's
    std::uint32_t recent_turns_ = 0;
    bool is_fenced_ = false, may_attend_ = false, have_cores_ = false;
    bool attending_ = false;  // recent_ does not ring
    unsigned in_a_row_ = 0;   // cells of recent_, or of others while it is attended to
    std::vector<Peer *> foreign_;  // peers of other jobs
    std::vector<Peer *> own_;      // and of ours, in the order in which they are looked after
    // Senders that left before we were connected to them, the last of many.
    std::deque<std::uint64_t> departed_;
    std::uint32_t joint_number_ = 0;  // of the last one
    bool leaving_ = false;
    Time looked_{};
    Error failure_, unmapped_;
};

static_assert(Device<Shmem> && SharesMemory<Shmem> && OpensDescriptor<Shmem> && LimitsSleep<Shmem>);

// Which host this is, as far as shared memory reaches: boot, process namespace and host name.
std::uint64_t host_identity();

}  // namespace pm::shmem

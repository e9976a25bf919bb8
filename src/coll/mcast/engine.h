// Multicast to sets of ranks: what a process does as master, as relay and as receiver. See README.md of src/coll, and mcast.h
// for what it promises. Under the caller's lock; knows no MPI, no device and no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/time.h"
#include "base/tuning.h"
#include "coll/mcast/bytes.h"
#include "coll/mcast/mcast.h"
#include "coll/mcast/schedule.h"
#include "coll/mcast/wire.h"
#include "pm/message.h"

namespace pm::coll {

struct Outbox;

// How messages leave: the composite device, or a test's. As the functions of core.h and shared.h.
class Transport {
  public:
    virtual ~Transport() = default;
    virtual std::size_t largest_header() = 0;
    virtual int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) = 0;
    virtual bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) = 0;
    virtual bool on_host(const pm_peer *peer) = 0;
    virtual bool has_ended(const pm_peer *peer) = 0;  // false when that is not known
    virtual void *allocate_shared(std::size_t size) = 0;
    virtual void free_shared(void *block) = 0;
    virtual Outbox *make_outbox() = 0;  // zeroed, or as it was freed; nullptr when there is no memory
    virtual void free_outbox(Outbox *outbox) = 0;
    virtual void nudge(pm_peer *peer) = 0;  // of our host: if it sleeps, it wakes and looks at what was posted
    virtual void watches(bool any) = 0;     // whether poll() is to be called
    // Where [address, address + size) of the peer's memory is here; nullptr when it cannot be seen.
    virtual void *view(pm_peer *peer, std::uint64_t address, std::size_t size) = 0;
    // Of a group that is not open: whether it may yet be, because this process is making it.
    virtual bool may_open(std::uint32_t group) = 0;
    virtual void dropped(const pm_peer *peer) = 0;  // it sent what makes no sense; nullptr: who is not known any more
    // Nothing can go on from now on. Without a text it is what send() failed with.
    virtual void failed(const std::string &text) = 0;
};

struct Settings {
    bool choose = true;
    Algorithm algorithm = Algorithm::binomial;  // when not
    Thresholds thresholds;
    std::size_t shared_limit = PM_MCAST_SHARED_LIMIT;
    std::size_t piece = PM_MCAST_PIECE;  // between hosts
    std::size_t block = PM_MCAST_BLOCK;  // inside one
    std::uint32_t fanout = PM_MCAST_FANOUT;
    std::size_t direct_limit = PM_MCAST_DIRECT_LIMIT;        // when it may choose
    std::uint32_t direct_members = PM_MCAST_DIRECT_MEMBERS;
    void (*sent)(void *cookie, const char *error) = nullptr;
    void (*received)(void *cookie, int source, int tag, std::size_t size) = nullptr;  // does not close a group
};

class Engine {
  public:
    // `origin` is another number in every process of the job.
    Engine(const Settings &settings, Transport &transport, std::uint64_t origin);
    ~Engine();
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    pm_group *open_group(const pm_group_setup &setup);
    void close_group(pm_group *group);

    int send(pm_group *group, const void *data, std::size_t size, const std::uint64_t *members, int tag, bool delivered, void *cookie);
    void receive(pm_group *group, void *buffer, std::size_t room, int source, int tag, std::uint64_t *members, void *cookie);
    bool probe(const pm_group *group, int source, int tag, int *found_source, int *found_tag, std::size_t *size) const;

    // Nothing in a message or a post is believed: what is not in order is dropped as a whole.
    void *arrived(const Envelope &envelope, const void *piece, std::size_t piece_size, std::size_t total);
    void more(void *cookie, const void *piece, std::size_t piece_size);
    void *place(void *cookie);
    void placed(void *cookie);
    void taken(void *cookie);

    // Takes what others have posted. Whether there was something.
    bool poll();
    bool has_news() const;

    // Looks after members that have not acknowledged for long: whoever has ended is found by its host, or by being sent to. Drops what
    // waits in vain.
    void attend(Time now);

    // Somebody's acknowledgement depends on this process.
    bool owes() const { return !duties_.empty(); }
    // Bytes of multicasts that send() took without a cookie and the device has not accepted.
    std::size_t backlog() const { return backlog_; }
    // Multicasts that are not all here, have not left, or are not acknowledged.
    std::size_t unfinished() const;
    // Blocks of shared memory that somebody may still be reading.
    std::size_t lent();

    static constexpr std::size_t most_early_acks = 1 << 16;  // multicasts that were acknowledged before they came

  private:
    struct Receive;
    struct Arrival;
    struct Stream;
    struct Duty;
    struct Outgoing;
    struct Incoming;
    struct Sending;
    struct Parked;
    struct Piece;
    struct Watched;
    struct First;
    struct Course;
    friend struct ::pm_group;

    // False: it is not in order, and nothing happened.
    bool on_message(const WireHeader &header, const List &list, const Piece &piece);
    bool on_ack(const WireHeader &header);
    static bool is_in_order(const pm_group *group, const WireHeader &header, const List &list);
    static bool is_missing(const pm_group *group, const WireHeader &header, const List &list);
    bool park(const WireHeader &header, const List &list, const Piece &piece);
    void drop_parked();
    void *begin(const Envelope &envelope, const WireHeader &header, const void *list, const void *piece, std::size_t piece_size,
                std::size_t total);
    bool view_shared(pm_group *group, const WireHeader &header, Piece *piece);
    bool pass_on_simply(pm_group *group, const WireHeader &header, const List &list, const Piece &piece);
    bool deliver_at_once(pm_group *group, const WireHeader &header, const List &list, const std::byte *data);
    static std::uint32_t order_of(const pm_group *group, const WireHeader &header, const List &list);
    std::shared_ptr<Arrival> arrival_of(pm_group *group, const WireHeader &header, const List &list, bool passed_on);
    void find_role(pm_group *group, const WireHeader &header, Arrival *arrival);
    void give_turns(pm_group *group, Stream *stream);
    void match(pm_group *group, const std::shared_ptr<Arrival> &arrival);
    void pass_on(pm_group *group, const Arrival &arrival, const WireHeader &header, const List &list, const Piece &piece,
                 bool posting);
    bool transmit_afar(pm_peer *peer, const WireHeader &header, const List &list, const Piece &piece, Outgoing *outgoing);
    static bool is_by_itself(const pm_group *group, const WireHeader &header);
    void keep(pm_group *group, const std::shared_ptr<Arrival> &arrival, const WireHeader &header, const List &list,
              const Piece &piece);
    void send_blocks(pm_group *group, Arrival *arrival, const WireHeader &header, const List &list);
    std::byte *destination_of(Arrival *arrival);
    void finish_if_complete(pm_group *group, Arrival *arrival);
    void deliver(Arrival *arrival);
    static std::unique_ptr<Receive> take_receive(pm_group *group, int master, int tag);
    void end_receive(const Receive &receive, std::span<const std::uint64_t> words, int master, int tag, std::uint64_t size);
    void acknowledge(std::uint64_t origin, std::uint32_t serial);
    void deliver_to_self(pm_group *group, const void *data, std::size_t size, const std::uint64_t *members, int tag);

    Outbox *outbox_of(pm_group *group);
    void offer(pm_group *group, WireHeader *header);
    bool all_watch(pm_group *group, std::span<const std::uint64_t> words);
    static bool list_fits_in_slot(const List &list);
    static bool fits_in_slot(const WireHeader &header, const List &list);
    bool post(pm_group *group, WireHeader header, const List &list, const std::byte *data, std::uint32_t readers);
    void watch(pm_group *group, const WireHeader &header);
    static bool is_post(const Watched &watched, const WireHeader &header);
    template <class Take>
    bool read_posts(Watched *watched, Take take);
    static std::uint64_t other_readers(pm_group *group, const WireHeader &header, const List &list, std::size_t i);
    static bool is_first_reader(pm_group *group, const WireHeader &header, const List &list);
    void wake_others(pm_group *group, const WireHeader &header, const List &list);
    void stop_posting(pm_group *group);

    bool shares_host(pm_group *group);
    BlockHead *lend(std::size_t size, std::uint32_t readers);
    void reclaim();
    bool is_direct(std::size_t size, const First &first) const;
    std::size_t piece_of(std::uint64_t size) const;
    bool send_pieces(pm_group *group, WireHeader header, const List &list, const std::byte *bytes, const Course &course);
    bool tell_each(pm_group *group, const WireHeader &header, const List &list, const Piece &piece, Outgoing *outgoing, bool near);
    bool transmit(pm_peer *peer, WireHeader header, const List &list, const Piece &piece, Outgoing *outgoing);
    void relay(pm_peer *peer, const WireHeader &header, const List &list, const Piece &piece);
    void settle(Outgoing *outgoing);

    Settings settings_;
    Transport &transport_;
    std::unordered_map<std::uint32_t, std::unique_ptr<pm_group>> groups_;
    std::unordered_map<std::uint32_t, std::deque<Parked>> parked_;  // of groups that are not open here yet
    std::unordered_map<std::uint32_t, std::unique_ptr<Outgoing>> outgoing_;
    std::uint64_t origin_;
    std::uint32_t next_serial_ = 0;
    // Acknowledgements that a multicast still needs from us. Apart from its group, which may be closed before they are all here.
    std::map<std::pair<std::uint64_t, std::uint32_t>, Duty> duties_;
    std::size_t early_acks_ = 0;  // of them that have no parent yet
    std::vector<BlockHead *> lent_;
    std::vector<std::unique_ptr<Watched>> watched_;
    std::size_t backlog_ = 0;
};

}  // namespace pm::coll

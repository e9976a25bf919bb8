// Active messages: user functions that are called where a message arrives. See am.h for what it promises. Under the caller's lock; knows
// no MPI, no device and no clock.
//
// A message that is all here, whose turn it is and whose handler is registered goes straight from the device to the user's function. Any
// other is kept:
//
//   coming    not all of it is here. Those of the same rank and group that come meanwhile wait behind it, in a stream.
//   early     its handler is not registered. It waits there, by itself.
//   parked    its group is not open. It comes when that is opened.
//   to self   handled by poll(), so that nothing is handled inside a send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "coll/am/am.h"
#include "coll/payload.h"
#include "pm/message.h"

namespace pm::coll {

// Followed by the user's header, in whole words of 8 bytes, so that the payload may be aligned, too.
struct AmHeader {
    std::uint32_t group = 0;
    std::int32_t source = 0;
    std::uint32_t handler = 0;
    std::uint32_t header_size = 0;  // of the user's

    static std::size_t length_with(std::size_t header_size) { return sizeof(AmHeader) + (header_size + 7) / 8 * 8; }
    bool is_whole(std::size_t length) const
    {
        return header_size <= PM_AM_LARGEST_HEADER && length == length_with(header_size) && handler <= INT32_MAX;
    }
};
static_assert(sizeof(AmHeader) == 16);

// As it leaves.
struct AmOutgoing {
    explicit AmOutgoing(const pm_am_post &post) : length(AmHeader::length_with(post.header_size))
    {
        const AmHeader header{post.group, post.rank, static_cast<std::uint32_t>(post.handler),
                              static_cast<std::uint32_t>(post.header_size)};
        std::memcpy(bytes, &header, sizeof header);
        if (post.header_size == 0)
            return;
        std::memset(bytes + length - 8, 0, 8);
        std::memcpy(bytes + sizeof header, post.header, post.header_size);
    }
    std::size_t length;
    alignas(8) std::byte bytes[sizeof(AmHeader) + PM_AM_LARGEST_HEADER];
};

// How messages leave: the composite device, or a test's. As the functions of core.h.
class AmTransport {
  public:
    virtual ~AmTransport() = default;
    virtual int send(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size, void *cookie) = 0;
    virtual bool send_now(pm_peer *peer, const void *header, std::size_t header_size, const void *data, std::size_t size) = 0;
    virtual void dropped(const pm_peer *peer) = 0;  // it sent what makes no sense; nullptr: who is not known any more
    // Nothing can go on from now on.
    virtual void failed(const std::string &text) = 0;
};

class AmEngine {
  public:
    AmEngine(AmTransport &transport, const pm_am_setup &setup);
    ~AmEngine();
    AmEngine(const AmEngine &) = delete;
    AmEngine &operator=(const AmEngine &) = delete;

    void open(const pm_group_setup &setup);
    void close(std::uint32_t id);

    static int number_of(const std::string &name);
    // Why it cannot be registered; empty when it is.
    std::string add(std::uint32_t id, const std::string &name, const pm_am_user &user, int *number);
    int remove(std::uint32_t id, int number);
    bool is_placing(std::uint32_t id, int number) const;

    int send(const pm_am_post &post, int to, const pm_am_end &end);
    int mcast(const pm_am_post &post, const std::uint64_t *members, const pm_am_end &end);
    void forget(const volatile int *flag);

    // Nothing in a message is believed: what is not in order is dropped.
    void *arrived(const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total);
    void more(void *cookie, const void *piece, std::size_t piece_size);
    void *place(void *cookie);
    void placed(void *cookie);
    void taken(void *cookie);

    // Handles what this process has sent to itself. Whether there was something.
    bool poll();
    bool pending() const { return !to_self_.empty() || !let_go_.empty(); }
    void attend() { drop_parked(); }

    // Messages that are kept, whatever for.
    std::size_t kept() const { return kept_; }

  private:
    struct Group;
    struct Handler;
    struct Kept;
    struct Sending;
    using Queue = std::deque<std::unique_ptr<Kept>>;

    Group *find(std::uint32_t id);
    void *keep(Group *group, const Envelope &envelope, const AmHeader &header, const void *piece, std::size_t piece_size, std::size_t total);
    std::unique_ptr<Kept> make_kept(const AmHeader &header, const void *user_header, std::size_t total);
    void handle(const Handler &handler, pm_am_arrival arrival, void *data);
    void hand_over(Group *group, std::unique_ptr<Kept> message);
    void advance(Group *group, int source);
    void drop(std::unique_ptr<Kept> message);
    void drop_all(Queue queue);
    void drop_parked();
    void begin_coming(Group *group);
    void end_coming(Group *group);
    int send_to(Group *group, const pm_am_post &post, const AmOutgoing &outgoing, int to, const pm_am_end &end, Sending **sending);
    int issue(Sending *sending, bool sent);
    void settle(Sending *sending);

    AmTransport &transport_;
    pm_am_setup setup_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Group>> groups_;
    Group *recent_ = nullptr;                          // of them
    std::unordered_map<std::uint32_t, Queue> parked_;  // by group
    Queue to_self_;
    Queue abandoned_;              // not all of them is here, and nobody wants them any more
    std::vector<void *> let_go_;   // contexts of groups; told when nothing is being looked at: one may be closed then
    std::unordered_set<Sending *> sendings_;
    std::vector<std::uint64_t> aligned_;  // a payload that the device has at an odd address, while it is handled
    std::size_t kept_ = 0;
};

}  // namespace pm::coll

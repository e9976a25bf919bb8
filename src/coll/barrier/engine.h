// Fuzzy barriers: started now, looked at later, any number of them at once. See barrier.h for what it promises. Under the caller's
// lock; knows no MPI, no device and no clock.
//
// Barriers of a communicator are counted, and complete in the order of their numbers, so that a number says everything: "all up to
// this one". Inside a host the ranks count up in a board in shared memory, one cache line: the last one to arrive says so there. Two ranks have a
// line each instead, and see by themselves that both have arrived.
// Between hosts the first rank of each host, its leader, speaks for it. Three hosts or a few more have a hub, the leader of the first one, which
// hears of all others and tells them when all have come. Two, or more of them, disseminate: in round r a leader tells the one 2^r places
// further on, or in pairs back, how far it and all it has heard of have come. What a host says first needs nobody else's word:
// whoever comes last there sends it, and wakes the leader only if that has something to add. Messages say "up to", so that those
// of several barriers become one when they are late.
//
//   started >= announced >= completed       of every rank
//   led >= heard[0..] >= finished           of a leader: its host has arrived; others have; all have
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tuning.h"
#include "coll/barrier/barrier.h"
#include "coll/barrier/board.h"

namespace pm::coll {

struct BarrierMessage {
    enum class Kind : std::uint8_t {
        board,    // leader to the ranks of its host: the board is at `number`; 0: there is none, tell me by messages
        arrived,  // rank to its leader, without a board: up to `number`
        round,    // host to leader: up to `number`. `round` is the round; to the hub the host's place, and from the hub 0
        done,     // leader to the ranks of its host, without a board: up to `number`
    };
    std::uint32_t group = 0;
    Kind kind = Kind::board;
    std::uint8_t round = 0;
    std::int32_t from = 0;
    std::uint64_t number = 0;
    std::uint64_t base = 0;  // of a board: what it counts from
};

class BarrierTransport {
  public:
    virtual ~BarrierTransport() = default;
    virtual bool send(pm_peer *peer, const BarrierMessage &message) = 0;
    virtual bool on_host(const pm_peer *peer) = 0;
    virtual bool has_ended(const pm_peer *peer) = 0;  // false when that is not known
    virtual void ring(pm_peer *peer) = 0;             // it looks at the board soon, asleep or not
    virtual void nudge(pm_peer *peer) = 0;            // it looks again if it sleeps; before that has_news() is its last look
    virtual BarrierBoard *make_board() = 0;           // nobody is counted there; nullptr when there is no memory
    virtual void free_board(BarrierBoard *board) = 0;
    virtual BarrierBoard *view(pm_peer *peer, std::uint64_t address) = 0;
    virtual void dropped(const pm_peer *peer) = 0;  // it sent what makes no sense
    // Nothing can go on from now on. Without a text it is what send() failed with.
    virtual void failed(const std::string &text) = 0;
};

class BarrierEngine {
  public:
    using Ended = void (*)(void *cookie);
    BarrierEngine(BarrierTransport &transport, Ended ended) : transport_(transport), ended_(ended) {}
    ~BarrierEngine();
    BarrierEngine(const BarrierEngine &) = delete;
    BarrierEngine &operator=(const BarrierEngine &) = delete;

    void open(const pm_group_setup &setup);
    void close(std::uint32_t id);

    void start(std::uint32_t id, volatile int *flag, void *cookie);
    bool is_in_flight(std::uint32_t id, const volatile int *flag) const;
    // Nothing in it is believed: what is not in order is dropped.
    void on_message(pm_peer *source, const BarrierMessage &message);
    // Completes what can be completed. Whether something has happened: a barrier has ended, or somebody on our host has come.
    bool poll();
    void attend();
    // Whether poll() would complete one, by what stands on the boards.
    bool has_news() const;

    std::size_t in_flight() const { return in_flight_; }

  private:
    static constexpr std::size_t most_rounds = 32;
    static_assert(PM_STAR_HOSTS <= most_rounds);
    struct Started {
        volatile int *flag;
        void *cookie;
    };
    // Of a group that is not open yet.
    struct Early {
        pm_peer *source;
        BarrierMessage message;
    };
    struct Group {
        pm_group_setup setup{};
        bool is_open = false;
        std::vector<Early> early;    // the last of each sender, kind and round
        bool placed = false;         // the next five are known
        std::vector<int> mates;      // others of our host
        std::vector<int> leaders;    // by host
        std::size_t place = 0;       // of our leader among them
        unsigned rounds = 0;
        int leader = 0;

        BarrierBoard *board = nullptr;
        bool board_known = false;
        bool active = false;          // in active_
        std::uint64_t board_at = 0;   // in the leader's memory
        std::uint64_t base = 0;       // of the board's numbers
        std::uint64_t started = 0, announced = 0, completed = 0;
        std::deque<Started> waiting;  // completed + 1, ...
        std::uint64_t done = 0;       // as far as we were told, without a board
        std::uint16_t seen = 0;       // on the board, of the first one we wait for

        std::uint64_t led = 0, finished = 0;
        std::array<std::uint64_t, most_rounds> heard{}, told{};  // by round; of the hub by place
        std::unordered_map<int, std::uint64_t> mates_arrived;  // without a board

        bool leads() const { return setup.rank == leader; }
        bool is_led_by(int rank) const;  // before we have found our place, too
        // On a board: two ranks, and nobody elsewhere, say where they are without counting.
        bool are_two() const { return setup.size == 2 && !spans_hosts(); }
        // How far all are, as we see it.
        std::uint64_t all_here() const
        {
            if (board == nullptr)
                return done;
            const std::uint64_t number = are_two() ? board->both() : board->published();
            return number > base ? number - base : 0;
        }
        bool spans_hosts() const { return leaders.size() > 1; }
        // Of few hosts the first one's leader is the hub: 2(n - 1) messages instead of n log2(n), and one to wake each of the others. Two tell each
        // other at once.
        bool is_star() const { return leaders.size() > 2 && leaders.size() <= PM_STAR_HOSTS; }
        bool is_hub() const { return is_star() && place == 0; }
        // How far the hosts are whose word the leader needs before it can say more than that its own is here.
        std::uint64_t least_heard() const
        {
            return is_hub() ? *std::min_element(heard.begin() + 1, heard.begin() + static_cast<std::ptrdiff_t>(leaders.size())) : heard[0];
        }
        // Whom the leader tells in a round. In pairs, where that is possible: then each also hears from the one it tells, and a
        // device need not send acknowledgements by themselves.
        int partner(unsigned round) const
        {
            const std::size_t step = std::size_t{1} << round;
            const std::size_t count = leaders.size();
            return leaders[std::has_single_bit(count) ? place ^ step : (place + step) % count];
        }
        pm_peer *peer(int rank) const { return setup.peer(setup.context, rank); }
    };

    Group &group_of(std::uint32_t id);
    Group &made_group_of(std::uint32_t id);
    static void keep_early(Group *group, pm_peer *source, const BarrierMessage &message);
    static bool is_in_order(const Group &group, const pm_peer *source, const BarrierMessage &message);
    bool take(Group *group, pm_peer *source, const BarrierMessage &message);
    void place(Group *group);
    void announce(Group *group);
    void announce_of_two(Group *group);
    void nudge_mates(Group *group);
    static void note_heard(Group *group);
    void tell_of_host(Group *group, std::uint64_t number);
    void lead(Group *group);
    std::uint64_t lead_star(Group *group);
    std::uint64_t lead_rounds(Group *group);
    void publish(Group *group, std::uint64_t number);
    bool complete(Group *group);
    bool advance(Group *group);
    void end();
    void send(Group *group, int rank, BarrierMessage::Kind kind, std::uint64_t number, unsigned round = 0);

    BarrierTransport &transport_;
    Ended ended_;
    std::unordered_map<std::uint32_t, std::unique_ptr<Group>> groups_;
    std::uint32_t last_id_ = 0;
    Group *last_ = nullptr;  // of that id: most ask for the same again
    std::vector<Group *> active_;  // with barriers in flight
    std::size_t in_flight_ = 0;
    std::vector<void *> ended_cookies_;  // told when nothing is being looked at: a group may be closed then
};

}  // namespace pm::coll

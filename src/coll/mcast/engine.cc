#include "coll/mcast/engine.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "coll/mcast/bitmap.h"

namespace pm::coll {
namespace {

// For so long a master waits for acknowledgements without looking.
constexpr std::chrono::seconds patience{2};
constexpr std::size_t header_room = 1024;  // no larger header is made, whatever a device takes

void *as_cookie(void *pointer)
{
    return reinterpret_cast<void *>(reinterpret_cast<std::uintptr_t>(pointer) | 1);
}

template <class T>
T *from_cookie(void *cookie)
{
    return reinterpret_cast<T *>(reinterpret_cast<std::uintptr_t>(cookie) & ~std::uintptr_t{1});
}

bool is_wanted(int source, int tag, int wanted_source, int wanted_tag)
{
    return (wanted_source == PM_ANY || wanted_source == source) && (wanted_tag == PM_ANY || wanted_tag == tag);
}

}  // namespace

// The bytes of one message on their way through this process.
struct Engine::Piece {
    const std::byte *data = nullptr;
    Bytes stable = {};      // keeps them; empty when they are gone after the call
    bool of_user = false;   // or the user does, until the multicast has left
    bool in_place = false;  // they are where the receiver wants them
    bool known = false;     // the arrival was made when it began to come
};

struct Engine::Posted {
    std::byte *buffer;
    std::size_t room;
    int source, tag;
    std::uint64_t *members;
    void *cookie;
};

// A multicast that this process is a member of, from its first message until it is received and passed on.
struct Engine::Arrival {
    int master = 0, tag = 0;
    std::uint32_t order = 0;
    std::uint64_t origin = 0;
    std::uint32_t serial = 0;
    std::uint64_t size = 0;
    std::vector<std::uint64_t> words;

    std::vector<int> ranks;  // by position
    std::uint32_t position = 0;
    std::uint32_t host_begin = 0, host_end = 0;  // positions on our host
    Role role;
    std::size_t blocks_sent = 0;                                  // of role.sends
    std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges;  // that are here, when blocks are to be sent: joined, in order

    bool wants_ack = false;
    std::unique_ptr<Posted> posted;
    Bytes store;  // where it is gathered when it has no better place
    std::uint64_t received = 0;
    bool complete = false, in_turn = false;

    bool is_leader() const { return position == host_begin; }
    bool on_our_host(std::uint32_t other) const { return other >= host_begin && other < host_end; }
    // Others of this host that will read what we share.
    std::uint32_t readers() const { return is_leader() ? host_end - host_begin - 1 : 0; }
    bool is_leaf() const { return role.children.empty() && role.sends.empty(); }

    std::byte *destination()
    {
        if (!store && posted && posted->room >= size && role.sends.empty())
            return posted->buffer;
        if (!store)
            store = Bytes::make(size);
        return store.data();
    }
    void note_range(std::uint64_t begin, std::uint64_t end)
    {
        auto place = std::ranges::lower_bound(ranges, std::pair{begin, end});
        place = ranges.insert(place, {begin, end});
        if (place != ranges.begin() && std::prev(place)->second == begin) {
            --place;
            place->second = end;
            ranges.erase(std::next(place));
        }
        if (auto next = std::next(place); next != ranges.end() && next->first == place->second) {
            place->second = next->second;
            ranges.erase(next);
        }
    }
    bool has(std::uint64_t begin, std::uint64_t end) const
    {
        return begin == end ||
               std::ranges::any_of(ranges, [&](const auto &range) { return range.first <= begin && end <= range.second; });
    }
};

// What one master sends us, numbered by it.
struct Engine::Stream {
    std::uint32_t next = 0;  // whose turn it is to be received
    std::unordered_map<std::uint32_t, std::shared_ptr<Arrival>> arrivals;
};

// A delivered multicast: this member and those below it tell the parent when all of them have it.
struct Engine::Duty {
    pm_peer *parent = nullptr;  // known once the multicast has come; acknowledgements may come before
    std::int64_t missing = 0;
};

struct Engine::Outgoing {
    void *cookie;
    std::uint32_t serial;
    pm_peer *first;            // whom it is sent to
    std::uint32_t queued = 0;  // messages that the device has not accepted yet
    bool wants_ack = false;
    bool issued = false;
    std::string error = {};
    std::vector<std::pair<int, pm_peer *>> members = {};  // of one that wants to be acknowledged
    Time look_at = {};                                    // when to look after them
};

struct Engine::Sending {
    Bytes bytes;
    std::uint32_t serial;
    bool of_outgoing;
    std::size_t copied = 0;  // of a multicast of ours that nobody waits for
};

struct Engine::Incoming {
    WireHeader header;
    std::vector<std::uint64_t> list;
    Bytes bytes;
    std::byte *place;
    std::size_t filled = 0, total = 0;
    bool known = false;
    std::shared_ptr<Arrival> arrival;  // when it goes to its destination directly
};

struct Engine::Parked {
    WireHeader header;
    std::vector<std::uint64_t> list;
    Bytes bytes;
};

}  // namespace pm::coll

struct pm_group {
    pm_group_setup setup;
    std::vector<std::uint32_t> next_orders;   // of what we send to each rank, for whole words
    std::vector<std::uint64_t> on_our_host;  // the set of these ranks, once it is needed
    std::optional<bool> shares_host;         // all of them are reached over shared memory
    std::unordered_map<int, pm::coll::Engine::Stream> streams;
    std::list<std::unique_ptr<pm::coll::Engine::Posted>> posted;
    std::list<std::shared_ptr<pm::coll::Engine::Arrival>> unexpected;  // in the order they may be received

    pm_peer *peer(int rank) const { return setup.peer(setup.context, rank); }
};

namespace pm::coll {
namespace {

// Ranks that take part in the distribution, and how they stand.
struct Members {
    std::vector<int> ranks;  // by index, then by position
    Layout layout;
};

Members members_of(const pm_group *group, std::span<const std::uint64_t> words, int master, bool by_host)
{
    Members members;
    bitmap::for_each(words, [&](int rank) {
        if (rank != master)
            members.ranks.push_back(rank);
    });
    std::vector<int> hosts;
    if (by_host)
        for (int rank : members.ranks)
            hosts.push_back(group->setup.host(group->setup.context, rank));
    members.layout = make_layout(static_cast<std::uint32_t>(members.ranks.size()), hosts,
                                 by_host ? group->setup.host(group->setup.context, master) : 0);
    std::vector<int> by_position(members.ranks.size());
    for (std::size_t position = 0; position < by_position.size(); ++position)
        by_position[position] = members.ranks[members.layout.order[position]];
    members.ranks = std::move(by_position);
    return members;
}

// The first one a master sends to, and how many are on the host of both: what make_layout() comes to, without the rest of it, so
// that a master's time does not depend on the number of members. -1 when nobody is a member but the master.
struct First {
    int rank = -1;
    std::uint32_t neighbours = 1;
    bool near = false;   // on the master's host
    bool alone = false;  // and so are all others
};

// The ranks on our host but our own, as a set.
const std::vector<std::uint64_t> &on_our_host(pm_group *group)
{
    int self = group->setup.rank;
    if (group->on_our_host.empty()) {
        group->on_our_host.resize((static_cast<std::size_t>(group->setup.size) + 63) / 64);
        for (int rank = 0; rank < group->setup.size; ++rank)
            if (group->setup.host != nullptr && rank != self &&
                group->setup.host(group->setup.context, rank) == group->setup.host(group->setup.context, self))
                group->on_our_host[static_cast<std::size_t>(rank) / 64] |= std::uint64_t{1} << rank % 64;
    }
    return group->on_our_host;
}

std::uint64_t bit_in_word(int rank, std::size_t word)
{
    return static_cast<std::size_t>(rank) / 64 == word ? std::uint64_t{1} << rank % 64 : 0;
}

First first_of(pm_group *group, std::span<const std::uint64_t> words)
{
    int self = group->setup.rank;
    const std::vector<std::uint64_t> &host = on_our_host(group);
    First first, near;
    near.neighbours = 0;
    near.near = near.alone = true;
    for (std::size_t i = 0; i < words.size(); ++i) {
        std::uint64_t word = words[i] & ~bit_in_word(self, i);
        std::uint64_t here = word & host[i];
        near.neighbours += static_cast<std::uint32_t>(std::popcount(here));
        near.alone = near.alone && here == word;
        if (here != 0 && near.rank < 0)
            near.rank = static_cast<int>(i) * 64 + std::countr_zero(here);
        if (word != 0 && first.rank < 0)
            first.rank = static_cast<int>(i) * 64 + std::countr_zero(word);
    }
    return near.rank >= 0 ? near : first;
}

// Of a member: which of the orders is its own.
std::size_t index_of(std::span<const std::uint64_t> words, int rank, int master)
{
    return bitmap::count_below(words, rank) - (master < rank && bitmap::test(words, master) ? 1 : 0);
}

}  // namespace

Engine::Engine(const Settings &settings, Transport &transport, std::uint64_t origin)
    : settings_(settings), transport_(transport), origin_(origin)
{
}

Engine::~Engine() = default;

// --- groups -------------------------------------------------------------------------------------------------------------

pm_group *Engine::open_group(const pm_group_setup &setup)
{
    auto made = std::make_unique<pm_group>();
    made->setup = setup;
    pm_group *group = made.get();
    groups_[setup.id] = std::move(made);
    if (auto found = parked_.find(setup.id); found != parked_.end()) {
        std::deque<Parked> messages = std::move(found->second);
        parked_.erase(found);
        for (Parked &message : messages) {
            Piece piece{message.bytes.data(), message.bytes};
            on_message(message.header, list_at(message.header, message.list.data()), piece);
        }
    }
    return group;
}

void Engine::close_group(pm_group *group)
{
    groups_.erase(group->setup.id);
}

// --- sending ------------------------------------------------------------------------------------------------------------

bool Engine::shares_host(pm_group *group)
{
    if (!group->shares_host) {
        group->shares_host = true;
        bitmap::for_each(on_our_host(group), [&](int rank) {
            if (!transport_.on_host(group->peer(rank)))
                group->shares_host = false;
        });
    }
    return *group->shares_host;
}

BlockHead *Engine::lend(std::size_t size, std::uint32_t readers)
{
    reclaim();
    void *block = transport_.allocate_shared(size + sizeof(BlockHead));
    if (block == nullptr)
        return nullptr;
    auto head = new (block) BlockHead;
    head->readers.store(readers, std::memory_order_relaxed);
    lent_.push_back(head);
    return head;
}

void Engine::reclaim()
{
    std::erase_if(lent_, [this](BlockHead *head) {
        // [M2] everybody has read it; pairs with [M1] in ~Bytes.
        if (head->readers.load(std::memory_order_acquire) != 0)
            return false;
        transport_.free_shared(head);
        return true;
    });
}

std::size_t Engine::unfinished() const
{
    std::size_t count = outgoing_.size() + duties_.size();
    for (const auto &[id, group] : groups_)
        for (const auto &[master, stream] : group->streams)
            count += stream.arrivals.size();
    return count;
}

std::size_t Engine::lent()
{
    reclaim();
    return lent_.size();
}

// Sends one message. What the bytes are in must stay if the device does not take them at once: they are held, or copied.
bool Engine::transmit(pm_peer *peer, WireHeader header, const List &list, const Piece &piece, Outgoing *outgoing)
{
    alignas(8) std::byte buffer[header_room];
    std::size_t size = header.flags & WireHeader::shared ? 0 : header.length;
    const std::byte *data = piece.data;
    Bytes held = piece.stable;
    bool of_user = piece.of_user;

    std::size_t header_size = sizeof header;
    header.words = static_cast<std::uint32_t>(list.words.size());
    header.orders = static_cast<std::uint32_t>(list.orders.size());
    std::size_t listed = list_size(header);
    bool apart = sizeof header + listed > std::min(sizeof buffer, transport_.largest_header());
    auto write_list = [&](std::byte *place) {
        if (listed == 0)
            return;
        std::memcpy(place, list.words.data(), list.words.size_bytes());
        std::memcpy(place + list.words.size_bytes(), list.orders.data(), list.orders.size_bytes());
    };
    header.flags = static_cast<std::uint8_t>(apart ? header.flags | WireHeader::in_payload : header.flags & ~WireHeader::in_payload);
    std::memcpy(buffer, &header, sizeof header);
    if (apart) {
        held = Bytes::make(listed + size);
        write_list(held.data());
        if (size != 0)
            std::memcpy(held.data() + listed, data, size);
        data = held.data();
        size += listed;
        of_user = false;
    } else {
        write_list(buffer + sizeof header);
        header_size += listed;
    }

    if (size == 0)
        return transport_.send(peer, buffer, header_size, nullptr, 0, nullptr) != PM_FAILED;
    if (size <= PM_SEND_NOW_LIMIT && transport_.send_now(peer, buffer, header_size, data, size))
        return true;
    if (!held && !of_user) {
        held = Bytes::copy(data, size);
        data = held.data();
    }
    bool ours = header.origin == origin_ && header.kind == WireHeader::Kind::piece;
    auto sending = new Sending{std::move(held), outgoing != nullptr ? outgoing->serial : 0, outgoing != nullptr,
                               ours && outgoing == nullptr ? size : 0};
    int status = transport_.send(peer, buffer, header_size, data, size, as_cookie(sending));
    if (status != PM_QUEUED) {
        delete sending;
    } else {
        backlog_ += sending->copied;
        if (outgoing != nullptr)
            outgoing->queued++;
    }
    return status != PM_FAILED;
}

// For others, who would wait for ever if it were lost: then everything fails from now on.
void Engine::relay(pm_peer *peer, const WireHeader &header, const List &list, const Piece &piece)
{
    if (!transmit(peer, header, list, piece, nullptr))
        transport_.failed({});
}

void Engine::taken(void *cookie)
{
    std::unique_ptr<Sending> sending(from_cookie<Sending>(cookie));
    backlog_ -= sending->copied;
    if (!sending->of_outgoing)
        return;
    auto found = outgoing_.find(sending->serial);
    if (found == outgoing_.end())
        return;
    found->second->queued--;
    settle(found->second.get());
}

void Engine::settle(Outgoing *outgoing)
{
    if (!outgoing->issued || outgoing->queued > 0 || outgoing->wants_ack)
        return;
    std::unique_ptr<Outgoing> done = std::move(outgoing_[outgoing->serial]);
    outgoing_.erase(done->serial);
    settings_.sent(done->cookie, done->error.empty() ? nullptr : done->error.c_str());
}

namespace {

// Small sets: the orders of all ranks are copied as they are, which takes the same time however many members there are.
constexpr std::size_t words_by_rank = 2;
// Of fewer members the orders are picked out: the message is shorter.
constexpr std::size_t members_by_rank = 24;

// The orders to send, and the next ones for the members.
std::span<const std::uint32_t> count_orders(pm_group *group, std::span<const std::uint64_t> words, bool by_rank,
                                            std::vector<std::uint32_t> *orders)
{
    group->next_orders.resize((static_cast<std::size_t>(group->setup.size) + 63) / 64 * 64);
    if (by_rank) {
        orders->assign(group->next_orders.begin(), group->next_orders.begin() + static_cast<std::ptrdiff_t>(words.size() * 64));
        for (std::size_t i = 0; i < words.size(); ++i)
            for (std::size_t bit = 0; bit < 64; ++bit)
                group->next_orders[i * 64 + bit] += static_cast<std::uint32_t>(words[i] >> bit & 1);
    } else {
        bitmap::for_each(words, [&](int rank) {
            if (rank != group->setup.rank)
                orders->push_back(group->next_orders[static_cast<std::size_t>(rank)]++);
        });
    }
    return *orders;
}

}  // namespace

int Engine::send(pm_group *group, const void *data, std::size_t size, const std::uint64_t *set, int tag, bool delivered, void *cookie)
{
    std::span<const std::uint64_t> words(set, (static_cast<std::size_t>(group->setup.size) + 63) / 64);
    words = words.first(static_cast<std::size_t>(bitmap::highest(words) + 64) / 64);
    int self = group->setup.rank;
    bool by_host = group->setup.host != nullptr;
    if (bitmap::test(words, self))
        deliver_to_self(group, data, size, set, tag);
    First first = first_of(group, words);
    if (first.rank < 0)
        return PM_OK;
    bool by_rank = words.size() <= words_by_rank && bitmap::count(words) > members_by_rank;
    std::vector<std::uint32_t> chosen;
    std::span<const std::uint32_t> orders = count_orders(group, words, by_rank, &chosen);

    Outgoing *outgoing = nullptr;
    std::uint32_t serial = next_serial_++;
    if (cookie != nullptr) {
        outgoing_[serial] = std::make_unique<Outgoing>(Outgoing{cookie, serial, group->peer(first.rank)});
        outgoing = outgoing_[serial].get();
        outgoing->wants_ack = delivered;
        if (delivered)
            bitmap::for_each(words, [&](int rank) {
                if (rank != self)
                    outgoing->members.emplace_back(rank, group->peer(rank));
            });
    }
    WireHeader header;
    header.group = group->setup.id;
    header.algorithm = settings_.algorithm;
    bool one_host = by_host && first.alone;
    if (settings_.choose && size > settings_.thresholds.tree_limit && !one_host)
        header.algorithm = choose(members_of(group, words, self, by_host).layout.hosts(), size, settings_.thresholds);
    header.flags = static_cast<std::uint8_t>((delivered ? WireHeader::delivered : 0) | (by_host ? WireHeader::by_host : 0) |
                                             (by_rank ? WireHeader::by_rank : 0));
    header.master = self;
    header.tag = tag;
    header.origin = origin_;
    header.serial = serial;
    header.fanout = settings_.fanout;
    header.size = size;
    header.owner = self;

    pm_peer *peer = group->peer(first.rank);
    // Whoever is said to read it must: without hosts that is the first member alone.
    bool share = size >= settings_.shared_limit && size != 0 && transport_.on_host(peer) &&
                 (!by_host || (first.near && shares_host(group)));
    std::size_t most = one_host ? settings_.block : settings_.piece;
    auto bytes = static_cast<const std::byte *>(data);
    bool sent = true;
    for (std::size_t offset = 0; sent && (offset < size || offset == 0); offset += header.length) {
        header.offset = offset;
        header.length = static_cast<std::uint32_t>(std::min(size - offset, most));
        header.flags = static_cast<std::uint8_t>(header.flags & ~WireHeader::shared);
        if (BlockHead *block = share ? lend(header.length, first.neighbours) : nullptr) {
            std::memcpy(bytes_of(block), bytes + offset, header.length);
            header.flags |= WireHeader::shared;
            header.address = reinterpret_cast<std::uint64_t>(block);
        }
        sent = transmit(peer, header, {words, orders}, {bytes + offset, {}, outgoing != nullptr}, outgoing);
        if (size == 0)
            break;
    }
    if (outgoing == nullptr)
        return sent ? PM_OK : PM_FAILED;
    outgoing->issued = true;
    if (sent && (outgoing->queued > 0 || outgoing->wants_ack))
        return PM_QUEUED;
    outgoing_.erase(serial);
    return sent ? PM_OK : PM_FAILED;
}

void Engine::deliver_to_self(pm_group *group, const void *data, std::size_t size, const std::uint64_t *members, int tag)
{
    auto arrival = std::make_shared<Arrival>();
    arrival->master = group->setup.rank;
    arrival->tag = tag;
    arrival->size = size;
    arrival->words.assign(members, members + (group->setup.size + 63) / 64);
    arrival->in_turn = true;
    match(group, arrival);
    if (size != 0)
        std::memcpy(arrival->destination(), data, size);
    arrival->received = size;
    arrival->complete = true;
    if (arrival->posted)
        deliver(arrival);
}

// --- messages arrive ----------------------------------------------------------------------------------------------------

void *Engine::arrived(const void *bytes, const void *piece, std::size_t piece_size, std::size_t total)
{
    WireHeader header;
    std::memcpy(&header, bytes, sizeof header);
    bool apart = header.flags & WireHeader::in_payload;
    const void *list_place = apart ? piece : static_cast<const std::byte *>(bytes) + sizeof header;
    if (piece_size == total) {
        auto data = static_cast<const std::byte *>(piece) + (apart ? list_size(header) : 0);
        if (reinterpret_cast<std::uintptr_t>(list_place) % alignof(std::uint64_t) == 0) {
            on_message(header, list_at(header, list_place), {data});
        } else {
            std::vector<std::uint64_t> list(list_size(header) / 8);
            std::memcpy(list.data(), list_place, list_size(header));
            on_message(header, list_at(header, list.data()), {data});
        }
        return nullptr;
    }

    auto incoming = std::make_unique<Incoming>();
    incoming->header = header;
    incoming->total = total;
    if (!apart) {
        incoming->list.resize(list_size(header) / 8);
        std::memcpy(incoming->list.data(), list_place, list_size(header));
        if (auto found = groups_.find(header.group); found != groups_.end()) {
            auto arrival = arrival_of(found->second.get(), header, list_at(header, incoming->list.data()), false);
            incoming->known = true;
            if (arrival->is_leaf()) {
                incoming->place = arrival->destination() + header.offset;
                incoming->arrival = std::move(arrival);
            } else if (std::uint32_t readers = arrival->readers(); readers != 0 && shares_host(found->second.get())) {
                if (BlockHead *block = lend(total, readers + 1))
                    incoming->bytes = Bytes::in_block(block);
            }
        }
    }
    if (!incoming->arrival) {
        if (!incoming->bytes)
            incoming->bytes = Bytes::make(total);
        incoming->place = incoming->bytes.data();
    }
    void *cookie = as_cookie(incoming.release());
    more(cookie, piece, piece_size);
    return cookie;
}

void *Engine::place(void *cookie)
{
    return from_cookie<Incoming>(cookie)->place;
}

void Engine::more(void *cookie, const void *piece, std::size_t piece_size)
{
    auto incoming = from_cookie<Incoming>(cookie);
    if (piece_size != 0)
        std::memcpy(incoming->place + incoming->filled, piece, piece_size);
    incoming->filled += piece_size;
    if (incoming->filled == incoming->total)
        placed(cookie);
}

void Engine::placed(void *cookie)
{
    std::unique_ptr<Incoming> incoming(from_cookie<Incoming>(cookie));
    const WireHeader &header = incoming->header;
    const std::byte *data = incoming->place;
    const void *list_place = incoming->list.data();
    if (header.flags & WireHeader::in_payload) {
        list_place = data;
        data += list_size(header);
    }
    on_message(header, list_at(header, list_place), {data, incoming->bytes, false, incoming->arrival != nullptr, incoming->known});
}

void Engine::on_message(const WireHeader &header, const List &list, const Piece &piece)
{
    if (header.kind != WireHeader::Kind::piece) {
        if (header.kind == WireHeader::Kind::ack)
            on_ack(header);
        return;
    }
    auto found = groups_.find(header.group);
    if (found == groups_.end()) {
        // A rank that is ahead of us has the communicator that we are still making.
        Parked parked{header, std::vector<std::uint64_t>(list_size(header) / 8), {}};
        std::memcpy(parked.list.data(), list.words.data(), list_size(header));
        if (!(header.flags & WireHeader::shared))
            parked.bytes = Bytes::copy(piece.data, header.length);
        parked.header.flags = static_cast<std::uint8_t>(parked.header.flags & ~WireHeader::in_payload);
        parked_[header.group].push_back(std::move(parked));
        return;
    }
    pm_group *group = found->second.get();
    Piece seen = piece;
    if (header.flags & WireHeader::shared && !view_shared(group, header, &seen))
        return;
    bool passed_on = !seen.known && pass_on_simply(group, header, list, seen);
    if (passed_on && deliver_at_once(group, header, list, seen.data))
        return;
    keep(group, arrival_of(group, header, list, passed_on), header, list, seen);
}

// The piece is in a peer's memory: from now on in ours, too.
bool Engine::view_shared(pm_group *group, const WireHeader &header, Piece *piece)
{
    void *seen = transport_.view(group->peer(header.owner), header.address, header.length + sizeof(BlockHead));
    if (seen == nullptr) {
        transport_.failed("shmem: shared memory of rank " + std::to_string(header.owner) + ", with a multicast of rank " +
                          std::to_string(header.master) + ", cannot be read");
        return false;
    }
    piece->stable = Bytes::in_block(static_cast<BlockHead *>(seen));
    piece->data = piece->stable.data();
    return true;
}

// A whole multicast in one message, for members of this host only, few enough for the first of them to tell all others: no
// schedule is needed to pass it on. Most short ones are like this. False when it is another one.
bool Engine::pass_on_simply(pm_group *group, const WireHeader &header, const List &list, const Piece &piece)
{
    constexpr std::uint8_t wanted = WireHeader::by_host | WireHeader::delivered;
    bool bare = header.flags & WireHeader::shared || header.length < settings_.shared_limit;
    if (header.length != header.size || (header.flags & wanted) != WireHeader::by_host || !bare)
        return false;
    int self = group->setup.rank;
    const std::vector<std::uint64_t> &host = on_our_host(group);
    bool alone = true, is_first = true;
    std::size_t others = 0;
    for (std::size_t i = 0; i < list.words.size(); ++i) {
        std::uint64_t word = list.words[i] & ~bit_in_word(self, i) & ~bit_in_word(header.master, i);
        alone = alone && (word & ~host[i]) == 0;
        others += static_cast<std::size_t>(std::popcount(word));
        std::uint64_t below = bit_in_word(self, i) != 0                        ? bit_in_word(self, i) - 1
                              : i < static_cast<std::size_t>(self) / 64 ? ~std::uint64_t{0}
                                                                               : 0;
        is_first = is_first && (word & below) == 0;
    }
    if (!alone || others > header.fanout)
        return false;
    if (is_first)
        bitmap::for_each(list.words, [&](int rank) {
            if (rank != self && rank != header.master)
                relay(group->peer(rank), header, list, piece);
        });
    return true;
}

// Of a multicast that is here as a whole: true when it was somebody's turn to receive it and he has it.
bool Engine::deliver_at_once(pm_group *group, const WireHeader &header, const List &list, const std::byte *data)
{
    Stream &stream = group->streams[header.master];
    if (stream.next != order_of(group, header, list))
        return false;
    std::unique_ptr<Posted> posted = take_posted(group, header.master, header.tag);
    if (!posted)
        return false;
    stream.next++;
    if (std::size_t size = std::min<std::size_t>(posted->room, header.size); size != 0)
        std::memcpy(posted->buffer, data, size);
    end_receive(*posted, list.words, header.master, header.tag, header.size);
    give_turns(group, &stream);
    return true;
}

std::uint32_t Engine::order_of(const pm_group *group, const WireHeader &header, const List &list)
{
    int self = group->setup.rank;
    return list.orders[header.flags & WireHeader::by_rank ? static_cast<std::size_t>(self)
                                                          : index_of(list.words, self, header.master)];
}

// The arrival this message belongs to: its first one makes it. `passed_on`: there is nothing to do for others.
std::shared_ptr<Engine::Arrival> Engine::arrival_of(pm_group *group, const WireHeader &header, const List &list, bool passed_on)
{
    int self = group->setup.rank;
    std::uint32_t order = order_of(group, header, list);
    Stream &stream = group->streams[header.master];
    std::shared_ptr<Arrival> &place = stream.arrivals[order];
    if (place)
        return place;
    auto arrival = std::make_shared<Arrival>();
    place = arrival;
    arrival->master = header.master;
    arrival->tag = header.tag;
    arrival->order = order;
    arrival->origin = header.origin;
    arrival->serial = header.serial;
    arrival->size = header.size;
    arrival->words.assign(list.words.begin(), list.words.end());
    if (passed_on) {
        give_turns(group, &stream);
        return arrival;
    }
    Members members = members_of(group, list.words, header.master, header.flags & WireHeader::by_host);
    const Layout &layout = members.layout;
    arrival->position =
        static_cast<std::uint32_t>(std::ranges::find(members.ranks, self) - members.ranks.begin());
    std::uint32_t host = layout.host_at(arrival->position);
    arrival->host_begin = layout.first[host];
    arrival->host_end = layout.first[host + 1];
    arrival->role = role_of(layout, {header.algorithm, header.size, header.fanout}, arrival->position);
    if (header.flags & WireHeader::delivered) {
        arrival->wants_ack = true;
        Duty &duty = duties_[{header.origin, header.serial}];
        duty.missing += 1 + ack_children_count(arrival->position, layout.members());
        duty.parent = group->peer(arrival->position == 0 ? header.master : members.ranks[ack_parent(arrival->position)]);
    }
    arrival->ranks = std::move(members.ranks);
    give_turns(group, &stream);
    return arrival;
}

// What was sent first is received first, whichever arrives first.
void Engine::give_turns(pm_group *group, Stream *stream)
{
    for (auto found = stream->arrivals.find(stream->next); found != stream->arrivals.end() && !found->second->in_turn;
         found = stream->arrivals.find(stream->next)) {
        stream->next++;
        std::shared_ptr<Arrival> arrival = found->second;
        arrival->in_turn = true;
        match(group, arrival);
        // It may have overtaken others and be complete already.
        forget_if_done(group, *arrival);
        if (arrival->complete && arrival->posted)
            deliver(arrival);
    }
}

// One piece is here: it goes on to others first, then to its own place.
void Engine::keep(pm_group *group, const std::shared_ptr<Arrival> &arrival, const WireHeader &header, const List &list,
                  const Piece &arrived)
{
    Piece piece = arrived;
    if (!piece.stable && header.length >= settings_.shared_limit && arrival->readers() > 1 && shares_host(group)) {
        if (BlockHead *block = lend(header.length, arrival->readers() + 1)) {
            std::memcpy(bytes_of(block), piece.data, header.length);
            piece.stable = Bytes::in_block(block);
            piece.data = piece.stable.data();
        }
    }
    pass_on(group, *arrival, header, list, piece);
    if (!piece.in_place)
        take(arrival, header, piece.data);
    arrival->received += header.length;
    if (!arrival->role.sends.empty()) {
        arrival->note_range(header.offset, header.offset + header.length);
        send_blocks(group, arrival.get(), header, list);
    }
    if (arrival->received == arrival->size)
        complete(group, arrival);
}

void Engine::pass_on(pm_group *group, const Arrival &arrival, const WireHeader &header, const List &list, const Piece &piece)
{
    bool ours = !(header.flags & WireHeader::shared) && piece.stable.block() != nullptr;
    for (std::uint32_t child : arrival.role.children) {
        pm_peer *peer = group->peer(arrival.ranks[child]);
        WireHeader next = header;
        if (arrival.on_our_host(child) && transport_.on_host(peer)) {
            if (ours) {
                next.flags |= WireHeader::shared;
                next.owner = group->setup.rank;
                next.address = reinterpret_cast<std::uint64_t>(piece.stable.block());
            }
        } else {
            next.flags = static_cast<std::uint8_t>(next.flags & ~WireHeader::shared);
        }
        relay(peer, next, list, piece);
    }
}

void Engine::send_blocks(pm_group *group, Arrival *arrival, const WireHeader &header, const List &list)
{
    for (; arrival->blocks_sent < arrival->role.sends.size(); ++arrival->blocks_sent) {
        const Send &send = arrival->role.sends[arrival->blocks_sent];
        if (!arrival->has(send.offset, send.offset + send.size))
            return;
        WireHeader next = header;
        next.flags = static_cast<std::uint8_t>(next.flags & ~WireHeader::shared);
        // A length has 32 bits, so a larger block goes in several.
        for (std::uint64_t done = 0; done < send.size; done += next.length) {
            next.offset = send.offset + done;
            next.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(send.size - done, 1u << 30));
            relay(group->peer(arrival->ranks[send.to]), next, list, {arrival->store.data() + next.offset, arrival->store});
        }
    }
}

void Engine::take(const std::shared_ptr<Arrival> &arrival, const WireHeader &header, const std::byte *data)
{
    if (header.length != 0)
        std::memcpy(arrival->destination() + header.offset, data, header.length);
}

void Engine::complete(pm_group *group, const std::shared_ptr<Arrival> &arrival)
{
    arrival->complete = true;
    if (arrival->wants_ack)
        acknowledge(arrival->origin, arrival->serial);
    forget_if_done(group, *arrival);
    if (arrival->posted)
        deliver(arrival);
}

void Engine::forget_if_done(pm_group *group, const Arrival &arrival)
{
    if (arrival.complete && arrival.in_turn)
        group->streams[arrival.master].arrivals.erase(arrival.order);
}

// --- acknowledgements ---------------------------------------------------------------------------------------------------

// This member, or all from one of its children on, have everything.
void Engine::acknowledge(std::uint64_t origin, std::uint32_t serial)
{
    auto found = duties_.try_emplace({origin, serial}).first;
    Duty &duty = found->second;
    duty.missing--;
    if (duty.missing != 0 || duty.parent == nullptr)
        return;
    WireHeader ack;
    ack.kind = WireHeader::Kind::ack;
    ack.origin = origin;
    ack.serial = serial;
    relay(duty.parent, ack, {}, {});
    duties_.erase(found);
}

void Engine::on_ack(const WireHeader &header)
{
    if (header.origin != origin_) {
        acknowledge(header.origin, header.serial);
        return;
    }
    if (auto found = outgoing_.find(header.serial); found != outgoing_.end()) {
        found->second->wants_ack = false;
        settle(found->second.get());
    }
}

void Engine::attend(Time now)
{
    std::vector<Outgoing *> lost;
    for (auto &[serial, outgoing] : outgoing_) {
        if (!outgoing->wants_ack)
            continue;
        if (outgoing->look_at == Time{})
            outgoing->look_at = now + patience;
        if (now < outgoing->look_at)
            continue;
        outgoing->look_at = now + patience;
        for (auto [rank, peer] : outgoing->members) {
            if (transport_.has_ended(peer)) {
                outgoing->error = "rank " + std::to_string(rank) + ", a member of the multicast, has ended";
                outgoing->wants_ack = false;
                // What is queued for it is never read. What is queued for another will be, and must stay until then.
                if (peer == outgoing->first)
                    outgoing->queued = 0;
                lost.push_back(outgoing.get());
                break;
            }
            WireHeader call;
            call.kind = WireHeader::Kind::call;
            if (!transport_.on_host(peer))
                relay(peer, call, {}, {});
        }
    }
    for (Outgoing *outgoing : lost)
        settle(outgoing);
}

// --- receiving ----------------------------------------------------------------------------------------------------------

// The first receive that wants it; nullptr when none does.
std::unique_ptr<Engine::Posted> Engine::take_posted(pm_group *group, int master, int tag)
{
    auto found = std::ranges::find_if(group->posted, [&](const auto &posted) {
        return is_wanted(master, tag, posted->source, posted->tag);
    });
    if (found == group->posted.end())
        return nullptr;
    std::unique_ptr<Posted> posted = std::move(*found);
    group->posted.erase(found);
    return posted;
}

void Engine::match(pm_group *group, const std::shared_ptr<Arrival> &arrival)
{
    arrival->posted = take_posted(group, arrival->master, arrival->tag);
    if (!arrival->posted)
        group->unexpected.push_back(arrival);
}

void Engine::receive(pm_group *group, void *buffer, std::size_t room, int source, int tag, std::uint64_t *members, void *cookie)
{
    auto posted = std::make_unique<Posted>(Posted{static_cast<std::byte *>(buffer), room, source, tag, members, cookie});
    if (members != nullptr)
        std::fill_n(members, (group->setup.size + 63) / 64, 0);
    auto found = std::ranges::find_if(group->unexpected, [&](const auto &arrival) {
        return is_wanted(arrival->master, arrival->tag, source, tag);
    });
    if (found == group->unexpected.end()) {
        group->posted.push_back(std::move(posted));
        return;
    }
    std::shared_ptr<Arrival> arrival = *found;
    group->unexpected.erase(found);
    arrival->posted = std::move(posted);
    if (arrival->complete)
        deliver(arrival);  // otherwise what is here is in its store, and the rest goes there, too
}

void Engine::deliver(const std::shared_ptr<Arrival> &arrival)
{
    std::unique_ptr<Posted> posted = std::move(arrival->posted);
    std::size_t size = std::min<std::size_t>(posted->room, arrival->size);
    if (arrival->store && size != 0)
        std::memcpy(posted->buffer, arrival->store.data(), size);
    end_receive(*posted, arrival->words, arrival->master, arrival->tag, arrival->size);
}

// Its bytes are in their place.
void Engine::end_receive(const Posted &posted, std::span<const std::uint64_t> words, int master, int tag, std::uint64_t size)
{
    if (posted.members != nullptr)
        std::ranges::copy(words, posted.members);
    settings_.received(posted.cookie, master, tag, size);
}

bool Engine::probe(const pm_group *group, int source, int tag, int *found_source, int *found_tag, std::size_t *size) const
{
    for (const auto &arrival : group->unexpected) {
        if (!is_wanted(arrival->master, arrival->tag, source, tag))
            continue;
        *found_source = arrival->master;
        *found_tag = arrival->tag;
        *size = arrival->size;
        return true;
    }
    return false;
}

}  // namespace pm::coll

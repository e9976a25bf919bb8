#include "coll/am/engine.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/hash.h"

namespace pm::coll {
namespace {

bool is_aligned(const void *place)
{
    return reinterpret_cast<std::uintptr_t>(place) % 8 == 0;
}

}  // namespace

struct AmEngine::Handler {
    std::string name;
    pm_am_user user{};
    bool registered = false;
    std::size_t placing = 0;  // payloads that are on their way to where it said
    Queue early;              // of one that is not registered
};

struct AmEngine::Group {
    pm_group_setup setup{};
    std::unordered_map<std::uint32_t, Handler> handlers;  // by number; none is ever erased
    std::pair<std::uint32_t, Handler *> recent{0, nullptr};
    std::unordered_map<int, Queue> streams;  // by source; of those whose first message is not all here
    std::size_t coming = 0;                  // messages that are not all here

    // nullptr: nothing has been heard of it.
    Handler *find(std::uint32_t number)
    {
        if (recent.second != nullptr && recent.first == number) [[likely]]
            return recent.second;
        auto found = handlers.find(number);
        if (found == handlers.end())
            return nullptr;
        recent = {number, &found->second};
        return &found->second;
    }
    bool is_of(int source, const pm_peer *peer) const
    {
        return source >= 0 && source < setup.size && source != setup.rank && setup.peer(setup.context, source) == peer;
    }
};

// A message that could not be handled when it came. Its place is the store, or what the user said.
struct AmEngine::Kept : Payload {
    AmHeader header;
    alignas(8) std::byte user_header[PM_AM_LARGEST_HEADER];
    std::unique_ptr<std::byte[]> store;
    Group *group = nullptr;  // nullptr: not open, or not any more
    pm_peer *source = nullptr;
    Handler *placed_by = nullptr;  // who said where it goes

    bool is_complete() const { return filled == total; }
};

// What waits in the device for the same data.
struct AmEngine::Sending {
    pm_am_end end;
    std::unique_ptr<std::byte[]> copy = nullptr;
    std::size_t queued = 0;
    bool issued = false;
};

AmEngine::AmEngine(AmTransport &transport, const pm_am_setup &setup) : transport_(transport), setup_(setup) {}

AmEngine::~AmEngine()
{
    for (Sending *sending : sendings_)
        delete sending;
}

AmEngine::Group *AmEngine::find(std::uint32_t id)
{
    if (recent_ != nullptr && recent_->setup.id == id) [[likely]]
        return recent_;
    auto found = groups_.find(id);
    return found == groups_.end() ? nullptr : recent_ = found->second.get();
}

// ---- Groups and handlers ----

void AmEngine::open(const pm_group_setup &setup)
{
    std::unique_ptr<Group> &place = groups_[setup.id];
    place = std::make_unique<Group>();
    Group *group = place.get();
    group->setup = setup;
    recent_ = nullptr;
    auto found = parked_.find(setup.id);
    if (found == parked_.end())
        return;
    Queue messages = std::move(found->second);
    parked_.erase(found);
    for (std::unique_ptr<Kept> &message : messages) {
        const int source = message->header.source;
        if (!group->is_of(source, message->source)) {
            drop(std::move(message));
            continue;
        }
        message->group = group;
        if (!message->is_complete())
            begin_coming(group);
        group->streams[source].push_back(std::move(message));
        advance(group, source);
    }
}

void AmEngine::close(std::uint32_t id)
{
    auto found = groups_.find(id);
    if (found == groups_.end())
        return;
    std::unique_ptr<Group> group = std::move(found->second);
    groups_.erase(found);
    recent_ = nullptr;
    for (auto &[source, stream] : group->streams)
        drop_all(std::move(stream));
    for (auto &[number, handler] : group->handlers)
        drop_all(std::move(handler.early));
    Queue others;
    for (std::unique_ptr<Kept> &message : to_self_)
        if (message->group == group.get())
            drop(std::move(message));
        else
            others.push_back(std::move(message));
    to_self_ = std::move(others);
    std::erase(let_go_, group->setup.context);
    drop_parked();
}

void AmEngine::drop(std::unique_ptr<Kept> message)
{
    transport_.dropped(message->group != nullptr ? message->source : nullptr);
    message->group = nullptr;
    message->placed_by = nullptr;
    if (message->store == nullptr)
        message->place = nullptr;  // the user's again
    if (!message->is_complete())
        abandoned_.push_back(std::move(message));
    else
        --kept_;
}

void AmEngine::drop_all(Queue queue)
{
    for (std::unique_ptr<Kept> &message : queue)
        drop(std::move(message));
}

void AmEngine::drop_parked()
{
    for (auto each = parked_.begin(); each != parked_.end();) {
        if (setup_.may_open(each->first) != 0) {
            ++each;
            continue;
        }
        drop_all(std::move(each->second));
        each = parked_.erase(each);
    }
}

// The group is held as long as something is coming: its end has to find the group, and the user's memory must be there.
void AmEngine::begin_coming(Group *group)
{
    if (group->coming++ == 0)
        setup_.hold(group->setup.context);
}

void AmEngine::end_coming(Group *group)
{
    if (--group->coming == 0)
        let_go_.push_back(group->setup.context);
}

int AmEngine::number_of(const std::string &name)
{
    const std::uint64_t hash = hash_bytes(name.data(), name.size());
    return static_cast<int>((hash ^ hash >> 32) & INT32_MAX);
}

std::string AmEngine::add(std::uint32_t id, const std::string &name, const pm_am_user &user, int *number)
{
    Group *group = find(id);
    if (group == nullptr)
        return "its communicator has no active messages";
    *number = number_of(name);
    Handler &handler = group->handlers[static_cast<std::uint32_t>(*number)];
    if (handler.registered || handler.placing > 0) {
        if (handler.name != name)
            return "\"" + name + "\" has the same number as \"" + handler.name + "\", which is registered on this communicator: choose another name";
        return "\"" + name + "\" is registered on this communicator already";
    }
    handler.name = name;
    handler.user = user;
    handler.registered = true;
    Queue early = std::exchange(handler.early, {});
    for (std::unique_ptr<Kept> &message : early)
        hand_over(group, std::move(message));
    return {};
}

int AmEngine::remove(std::uint32_t id, int number)
{
    Group *group = find(id);
    Handler *handler = group != nullptr && number >= 0 ? group->find(static_cast<std::uint32_t>(number)) : nullptr;
    if (handler == nullptr || !handler->registered)
        return PM_FAILED;
    handler->registered = false;
    return handler->placing > 0 ? PM_QUEUED : PM_OK;
}

bool AmEngine::is_placing(std::uint32_t id, int number) const
{
    auto group = groups_.find(id);
    if (group == groups_.end())
        return false;
    auto handler = group->second->handlers.find(static_cast<std::uint32_t>(number));
    return handler != group->second->handlers.end() && handler->second.placing > 0;
}

// ---- Arriving ----

void *AmEngine::arrived(const Envelope &envelope, void *piece, std::size_t piece_size, std::size_t total)
{
    AmHeader header;
    std::memcpy(&header, envelope.header, sizeof header);
    if (!header.is_whole(envelope.header_size)) [[unlikely]] {
        transport_.dropped(envelope.source);
        return nullptr;
    }
    Group *group = find(header.group);
    if (group == nullptr ? setup_.may_open(header.group) == 0 : !group->is_of(header.source, envelope.source)) [[unlikely]] {
        transport_.dropped(envelope.source);
        return nullptr;
    }
    if (group != nullptr && piece_size == total && (group->streams.empty() || !group->streams.contains(header.source))) [[likely]] {
        const Handler *handler = group->find(header.handler);
        if (handler != nullptr && handler->registered) [[likely]] {
            auto user_header = static_cast<const std::byte *>(envelope.header) + sizeof header;
            alignas(8) std::byte copy[PM_AM_LARGEST_HEADER];
            if (!is_aligned(user_header)) [[unlikely]] {
                std::memcpy(copy, user_header, header.header_size);
                user_header = copy;
            }
            handle(*handler,
                   {group->setup.context, header.source, static_cast<int>(header.handler), user_header, header.header_size, nullptr, total},
                   piece);
            return nullptr;
        }
    }
    return keep(group, envelope, header, piece, piece_size, total);
}

// All of its data is here.
void AmEngine::handle(const Handler &handler, pm_am_arrival arrival, void *data)
{
    if (arrival.size != 0) {
        if (handler.user.place != nullptr) {
            arrival.data = setup_.place(&arrival, &handler.user);
            if (arrival.data == nullptr)
                return;
            std::memcpy(arrival.data, data, arrival.size);
        } else if (is_aligned(data)) [[likely]] {
            arrival.data = data;
        } else {
            aligned_.resize(std::max(aligned_.size(), (arrival.size + 7) / 8));
            std::memcpy(aligned_.data(), data, arrival.size);
            arrival.data = aligned_.data();
        }
    }
    setup_.arrived(&arrival, &handler.user);
}

std::unique_ptr<AmEngine::Kept> AmEngine::make_kept(const AmHeader &header, const void *user_header, std::size_t total)
{
    auto message = std::make_unique<Kept>();
    message->header = header;
    message->total = total;
    if (header.header_size != 0)
        std::memcpy(message->user_header, user_header, header.header_size);
    ++kept_;
    return message;
}

// Not yet handled: it is not all here, or something is to come first.
void *AmEngine::keep(Group *group, const Envelope &envelope, const AmHeader &header, const void *piece, std::size_t piece_size,
                     std::size_t total)
{
    std::unique_ptr<Kept> message = make_kept(header, static_cast<const std::byte *>(envelope.header) + sizeof header, total);
    message->group = group;
    message->source = envelope.source;
    Handler *handler = group != nullptr && total != 0 ? group->find(header.handler) : nullptr;
    if (handler != nullptr && handler->registered && handler->user.place != nullptr) {
        const pm_am_arrival arrival{group->setup.context, header.source, static_cast<int>(header.handler), message->user_header,
                                    header.header_size, nullptr, total};
        message->place = static_cast<std::byte *>(setup_.place(&arrival, &handler->user));
        if (message->place == nullptr) {
            --kept_;
            return nullptr;
        }
        message->placed_by = handler;
        ++handler->placing;
    } else if (total != 0) {
        message->store.reset(new (std::nothrow) std::byte[total]);
        message->place = message->store.get();
        if (message->place == nullptr) {
            --kept_;
            transport_.failed("there is no memory for an active message of " + std::to_string(total) + " bytes from rank " +
                              std::to_string(header.source));
            return nullptr;
        }
    }
    Kept *cookie = message.get();
    const bool is_coming = !message->add(piece, piece_size);
    if (group == nullptr) {
        parked_[header.group].push_back(std::move(message));
    } else {
        group->streams[header.source].push_back(std::move(message));
        if (is_coming)
            begin_coming(group);
        advance(group, header.source);
    }
    return is_coming ? cookie : nullptr;
}

// Handles what has come whole at the front of a stream.
void AmEngine::advance(Group *group, int source)
{
    auto stream = group->streams.find(source);
    while (!stream->second.empty() && stream->second.front()->is_complete()) {
        std::unique_ptr<Kept> message = std::move(stream->second.front());
        stream->second.pop_front();
        hand_over(group, std::move(message));
    }
    if (stream->second.empty())
        group->streams.erase(stream);
}

// It is all here, and its turn.
void AmEngine::hand_over(Group *group, std::unique_ptr<Kept> message)
{
    const AmHeader &header = message->header;
    pm_am_arrival arrival{group->setup.context, header.source, static_cast<int>(header.handler), message->user_header,
                          header.header_size, nullptr, message->total};
    if (Handler *handler = message->placed_by) {
        arrival.data = message->place;
        --kept_;
        setup_.arrived(&arrival, &handler->user);
        --handler->placing;
        return;
    }
    Handler &handler = group->handlers[header.handler];
    if (!handler.registered) {
        handler.early.push_back(std::move(message));
        return;
    }
    --kept_;
    handle(handler, arrival, message->place);
}

void *AmEngine::place(void *cookie)
{
    return static_cast<Kept *>(cookie)->place;
}

void AmEngine::more(void *cookie, const void *piece, std::size_t piece_size)
{
    if (static_cast<Kept *>(cookie)->add(piece, piece_size))
        placed(cookie);
}

void AmEngine::placed(void *cookie)
{
    auto message = static_cast<Kept *>(cookie);
    message->filled = message->total;
    if (Group *group = message->group) {
        advance(group, message->header.source);
        end_coming(group);
    } else if (std::erase_if(abandoned_, [message](const auto &each) { return each.get() == message; }) != 0) {
        --kept_;
    }
}

bool AmEngine::poll()
{
    Queue messages = std::exchange(to_self_, {});
    for (std::unique_ptr<Kept> &message : messages) {
        Group *group = message->group;
        hand_over(group, std::move(message));
    }
    for (void *context : std::exchange(let_go_, {}))
        setup_.let_go(context);
    return !messages.empty();
}

// ---- Sending ----

int AmEngine::send(const pm_am_post &post, int to, const pm_am_end &end)
{
    Group *group = find(post.group);
    Sending *sending = nullptr;
    const bool sent = group != nullptr && send_to(group, post, AmOutgoing(post), to, end, &sending) != PM_FAILED;
    return issue(sending, sent);
}

int AmEngine::mcast(const pm_am_post &post, const std::uint64_t *members, const pm_am_end &end)
{
    Group *group = find(post.group);
    Sending *sending = nullptr;
    const AmOutgoing outgoing(post);
    bool sent = group != nullptr;
    for (int to = 0; sent && to < group->setup.size; ++to)
        if (members[to / 64] >> to % 64 & 1)
            sent = send_to(group, post, outgoing, to, end, &sending) != PM_FAILED;
    return issue(sending, sent);
}

int AmEngine::send_to(Group *group, const pm_am_post &post, const AmOutgoing &outgoing, int to, const pm_am_end &end, Sending **sending)
{
    auto copy_of_data = [&post] {
        auto copy = std::make_unique_for_overwrite<std::byte[]>(post.size);
        std::memcpy(copy.get(), post.data, post.size);
        return copy;
    };
    if (to == group->setup.rank) {
        AmHeader header;
        std::memcpy(&header, outgoing.bytes, sizeof header);
        std::unique_ptr<Kept> message = make_kept(header, post.header, post.size);
        message->group = group;
        message->filled = post.size;
        if (post.size != 0) {
            message->store = copy_of_data();
            message->place = message->store.get();
        }
        to_self_.push_back(std::move(message));
        return PM_OK;
    }
    pm_peer *peer = group->setup.peer(group->setup.context, to);
    if (post.size <= PM_SEND_NOW_LIMIT && transport_.send_now(peer, outgoing.bytes, outgoing.length, post.data, post.size))
        return PM_OK;
    if (*sending == nullptr)
        sendings_.insert(*sending = new Sending{end});
    const bool copies = end.flag == nullptr && end.cookie == nullptr;
    const void *data = post.data;
    if (copies && post.size != 0) {
        if ((*sending)->copy == nullptr)
            (*sending)->copy = copy_of_data();
        data = (*sending)->copy.get();
    }
    int status = transport_.send(peer, outgoing.bytes, outgoing.length, data, post.size, *sending);
    (*sending)->queued += status == PM_QUEUED;
    return status;
}

// All that there was to send has been, or one could not.
int AmEngine::issue(Sending *sending, bool sent)
{
    const int failed = sent ? PM_OK : PM_FAILED;
    if (sending == nullptr)
        return failed;
    const bool waits = sent && sending->queued > 0 && (sending->end.flag != nullptr || sending->end.cookie != nullptr);
    if (!waits)
        sending->end = {};
    sending->issued = true;
    settle(sending);
    return waits ? PM_QUEUED : failed;
}

void AmEngine::settle(Sending *sending)
{
    if (!sending->issued || sending->queued > 0)
        return;
    const pm_am_end end = sending->end;
    sendings_.erase(sending);
    delete sending;
    // [A1] for a thread that looks at its flag without a call.
    if (end.flag != nullptr)
        __atomic_store_n(end.flag, 1, __ATOMIC_RELEASE);
    if (end.cookie != nullptr)
        setup_.ended(end.cookie);
}

void AmEngine::taken(void *cookie)
{
    auto sending = static_cast<Sending *>(cookie);
    --sending->queued;
    settle(sending);
}

void AmEngine::forget(const volatile int *flag)
{
    for (Sending *sending : sendings_)
        if (sending->end.flag == flag)
            sending->end = {};
}

}  // namespace pm::coll

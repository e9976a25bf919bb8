#include "netmod/udp/udp.h"

#include <poll.h>
#include <sched.h>
#include <sys/random.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace pm::udp {
namespace {

const std::string prefix = "MPIR_CVAR_CH4_COMPOSITE_UDP_";
constexpr Time good_bye_limit = std::chrono::milliseconds(100);
constexpr unsigned caretaker_limit = 16 * 1024;  // datagrams in one turn, more than a socket holds: whoever sends more does not keep the owner out

Error unknown(const std::string &setting, const std::string &value, const std::string &known)
{
    return {Status::invalid, "udp: unknown value \"" + value + "\" of " + prefix + setting + "; known are " + known};
}

// A thread that shares its files with others makes every system call on them slower, and the owner makes many: the caretaker has
// a table of its own, with nothing in it but the socket. Files that the program closes later must not stay open here.
void keep_only(int descriptor)
{
    constexpr unsigned last = ~0u;
    if (close_range(last, last, 0) != 0 || unshare(CLONE_FILES) != 0)
        return;
    if (descriptor > 0)
        close_range(0, static_cast<unsigned>(descriptor) - 1, 0);
    close_range(static_cast<unsigned>(descriptor) + 1, last, 0);
}

}  // namespace

Result<std::unique_ptr<Udp>> Udp::create(const Settings &settings, const Sink &sink)
{
    ProtocolSettings protocol;
    if (settings.guard == "mac")
        protocol.guard = GuardKind::mac;
    else if (settings.guard == "seal")
        protocol.guard = GuardKind::seal;
    else if (settings.guard != "token")
        return unknown("GUARD", settings.guard, "token, mac, seal");
    if (protocol.guard == GuardKind::seal && !can_seal())
        return Error{Status::invalid, "udp: " + prefix + "GUARD is \"seal\", and this library was built without libsodium, which enciphers; "
                                          "choose \"mac\", or build it where libsodium is"};
    if (settings.recovery == "go_back_n")
        protocol.recovery = Recovery::go_back_n;
    else if (settings.recovery != "selective")
        return unknown("RECOVERY", settings.recovery, "selective, go_back_n");
    if (settings.segmentation != "auto" && settings.segmentation != "off")
        return unknown("SEGMENTATION", settings.segmentation, "auto, off");
    protocol.contact_patience = settings.contact_patience;
    protocol.gives_up = settings.silence_limit > std::chrono::milliseconds::zero();
    if (protocol.gives_up)
        protocol.silence_limit = settings.silence_limit;

    Result<PortRange> ports = parse_ports(settings.ports);
    if (!ports.ok())
        return ports.error();
    Result<std::vector<Interface>> interfaces = find_interfaces();
    if (!interfaces.ok())
        return interfaces.error();
    Result<std::vector<Address>> addresses = choose_addresses(interfaces.value(), settings.interfaces);
    if (!addresses.ok())
        return addresses.error();
    bool v6 = !std::ranges::all_of(addresses.value(), &Address::is_v4);
    Result<std::unique_ptr<Socket>> socket = Socket::create(
        {ports.value(), v6, settings.segmentation == "auto", addresses.value(), numbers_of(interfaces.value(), addresses.value())});
    if (!socket.ok())
        return socket.error();

    std::unique_ptr<Udp> device(new Udp);
    device->silence_limit_ = protocol.silence_limit;
    device->socket_ = std::move(socket.value());
    for (Address &address : addresses.value())
        address.port = device->socket_->port();
    Key secret;
    if (getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size()))
        return system_error("getrandom", errno);
    protocol.receive_buffer = device->socket_->receive_buffer();
    device->park_limit_ = protocol.receive_buffer;
    device->addresses_ = addresses.value();
    device->endpoint_ = std::make_unique<Endpoint>(protocol, secret, std::move(addresses.value()), sink);
    device->note_deadline();
    return device;
}

Udp::~Udp()
{
    if (caretaker_.joinable()) {
        {
            std::lock_guard lock(mutex_);
            leaving_ = true;
        }
        leave_.notify_all();
        caretaker_.join();
    }
    if (endpoint_ == nullptr)
        return;
    // Good-byes that are lost are said again, for a moment: one who is not there would miss us.
    endpoint_->close();
    Time end = now() + good_bye_limit;
    while (transmit(now()), !endpoint_->closed() && now() < end) {
        sleep(end - now());
        receive(false);
        endpoint_->on_timer(now());
    }
}

std::size_t Udp::write_card(void *card) const
{
    return endpoint_->card().write(static_cast<std::byte *>(card));
}

Result<Udp::Peer *> Udp::connect(const void *card, std::size_t size)
{
    std::optional<Card> other = Card::read({static_cast<const std::byte *>(card), size});
    if (!other)
        return Error{Status::invalid, "udp: " + std::to_string(size) + " bytes that are not the card of a process"};
    if (std::ranges::none_of(other->addresses, [&](const Address &address) { return socket_->reaches(address); }))
        return Error{Status::unreachable, "udp: a peer offers only IPv6 addresses, such as " + other->addresses.front().ip_text() +
                                              ", and this process only IPv4 ones; name an IPv6 subnet in " + prefix + "INTERFACES"};
    if (other->guard == GuardKind::seal && !can_seal())
        return Error{Status::unreachable, "udp: a peer wants its packets sealed (" + prefix +
                                              "GUARD), and this library was built without libsodium, which does that"};
    if (endpoint_->card().guard == GuardKind::seal && !other->seals)
        return Error{Status::unreachable, "udp: this process wants its packets sealed (" + prefix + "GUARD), and the peer at " +
                                              other->addresses.front().text() +
                                              " was built without libsodium, which does that; build it with it, or choose \"mac\""};
    InsideGate inside(gate_);
    Peer *peer = endpoint_->connect(*other);
    if (peer == nullptr)
        return Error{Status::no_memory, "udp: too many peers"};
    start_caretaker();
    return peer;
}

void Udp::prefer(Peer *peer, const Ip &address)
{
    InsideGate inside(gate_);
    endpoint_->prefer(peer, address);
}

void Udp::disconnect(Peer *peer)
{
    InsideGate inside(gate_);
    endpoint_->disconnect(peer);
    transmit(now());
}

void Udp::let_go(Peer *peer)
{
    InsideGate inside(gate_);
    endpoint_->let_go(peer);
}

void Udp::renew(Peer *peer)
{
    InsideGate inside(gate_);
    endpoint_->renew(peer);
}

void Udp::introduce(const void *card, std::size_t size, pm_peer *source)
{
    std::optional<Card> other = Card::read({static_cast<const std::byte *>(card), size});
    InsideGate inside(gate_);
    if (other)
        endpoint_->introduce(*other, source);
}

Status Udp::try_send(Peer *peer, const Message &message, SendProgress *progress)
{
    InsideGate inside(gate_);
    Time time = now();
    if (!progress->started && send_lent(peer, message, time))
        return Status::ok;
    Status status = endpoint_->send(peer, message, progress, time);
    transmit(time);
    return status;
}

bool Udp::send_lent(Peer *peer, const Message &message, Time time)
{
    if (!endpoint_->lend(peer, message, time))
        return false;
    transmit(time);
    endpoint_->keep_lent(peer);
    return true;
}

bool Udp::try_send_whole(Peer *peer, const Message &message)
{
    InsideGate inside(gate_);
    if (!socket_->stalled() && !transmitting_ && endpoint_->send_at_once(peer, message, &transmission_, now())) [[likely]] {
        socket_->send(transmission_);
        note_deadline();
        return true;
    }
    return send_lent(peer, message, now());
}

// What fits the peer's window arrives in a round trip less without a grant. Half of the window, as packets cost more than they carry.
std::size_t Udp::ungranted_limit(Peer *peer)
{
    InsideGate inside(gate_);
    if (peer->state != PairState::open || peer->outgoing == nullptr)
        return 0;
    return peer->outgoing->peer_window() / 2;
}

// Everything there is to send, unless the socket is full.
void Udp::transmit(Time time)
{
    if (transmitting_ || !socket_->flush())
        return;
    transmitting_ = true;
    while (endpoint_->poll_transmit(&transmission_, time)) {
        if (transmission_.asks_host) [[unlikely]]
            ask_host(transmission_.to.ip, time);
        if (!socket_->send(transmission_))
            break;
    }
    transmitting_ = false;
    note_deadline();
}

// By TCP as well: a kernel refuses packets of UDP about once a second to one host, where many processes may ask, and connections always.
void Udp::ask_host(const Ip &address, Time time)
{
    std::vector<HostAsk> &asks = host_asks_[caring_];
    if (std::ranges::find(asks, address, &HostAsk::address) != asks.end())
        return;
    asks.push_back({address, Probe(Time::zero())});
    asks.back().probe.ask(address, time);  // the answer is looked at before time means anything
}

void Udp::on_timer(Time time)
{
    std::erase_if(host_asks_[caring_], [&](HostAsk &each) {
        Probe::Answer answer = each.probe.ask(each.address, time);
        if (answer == Probe::Answer::reached)
            endpoint_->on_host_answered({each.address, 0}, time);
        return answer != Probe::Answer::none_yet;
    });
    endpoint_->on_timer(time);
}

void Udp::note_deadline()
{
    Time deadline = endpoint_->next_deadline();
    if (endpoint_->wants_to_transmit() || socket_->stalled())
        deadline = std::min(deadline, now() + std::chrono::milliseconds(1));
    if (!parked_.empty())
        deadline = Time::zero();
    deadline_.store(deadline.count(), std::memory_order_relaxed);
}

unsigned Udp::receive(bool park)
{
    Time time = never;
    auto on_datagram = [&](const Header &header, std::size_t size, std::span<std::byte> body, const Address &from) {
        if (time == never)
            time = now();
        if (!is_packet(header, size))
            return endpoint_->on_malformed();
        if (!park || (header.kind() != Kind::data && header.kind() != Kind::part))
            return endpoint_->on_datagram(header, body, from, time);
        if (parked_bytes_ + cost_of(body.size()) > park_limit_)
            return;  // it will be sent again
        std::uint32_t incarnation = endpoint_->believes({header, body});
        if (incarnation == 0)
            return;
        parked_bytes_ += cost_of(body.size());
        parked_.push_back({header, {body.begin(), body.end()}, incarnation, from});
    };
    auto on_trouble = [&](const Socket::Trouble &trouble) {
        if (trouble.width > 0)
            endpoint_->on_too_wide(trouble.to, trouble.width, trouble.quoted ? &*trouble.quoted : nullptr, now());
        else if (trouble.quoted)
            endpoint_->on_refused(trouble.to, *trouble.quoted, now());
    };
    unsigned count = socket_->receive(park ? Endpoint::Expected{} : endpoint_->expected(), on_datagram, on_trouble);
    receive_time_ = time;
    return count;
}

unsigned Udp::poll()
{
    if (polling_)
        return 0;
    InsideGate inside(gate_);
    polling_ = true;
    polls_.fetch_add(1, std::memory_order_relaxed);
    unsigned count = 0;
    while (!parked_.empty()) [[unlikely]] {
        Parked first = std::move(parked_.front());
        parked_.pop_front();
        parked_bytes_ -= cost_of(first.body.size());
        endpoint_->on_believed({first.header, first.body}, first.incarnation, first.from, now());
        ++count;
    }
    count += receive(false);
    // The clock is worth a tenth of a poll: while nothing comes it is looked at now and then.
    bool slept = may_have_slept_.load(std::memory_order_relaxed);
    if (count > 0 || slept || ++idle_polls_ % 16 == 0) {
        if (slept)
            may_have_slept_.store(false, std::memory_order_relaxed);
        Time time = receive_time_ == never ? now() : receive_time_;
        if (time >= endpoint_->next_deadline())
            on_timer(time);
        if (endpoint_->wants_to_transmit() || socket_->stalled())
            transmit(time);
        else if (count > 0)
            note_deadline();
    }
    if (endpoint_->failure() && !failure_) [[unlikely]]
        failure_ = endpoint_->failure();
    polling_ = false;
    return count;
}

bool Udp::idle()
{
    InsideGate inside(gate_);
    return endpoint_->outstanding() == 0 && !socket_->stalled();
}

Counters Udp::counters()
{
    InsideGate inside(gate_);
    return endpoint_->counters();
}

Time Udp::round_trip()
{
    InsideGate inside(gate_);
    return endpoint_->round_trip();
}

// ---- waiting ----

std::chrono::nanoseconds Udp::sleep_limit() const
{
    Time deadline(deadline_.load(std::memory_order_relaxed));
    return deadline == never ? std::chrono::hours(1) : std::max(deadline - now(), Time::zero());
}

bool Udp::arm()
{
    may_have_slept_.store(true, std::memory_order_relaxed);
    return sleep_limit() > Time::zero() && !socket_->readable();
}

void Udp::sleep(std::chrono::nanoseconds limit)
{
    limit = std::min(limit, sleep_limit());
    pollfd entry{descriptor(), POLLIN, 0};
    timespec time = to_timespec(limit);
    ppoll(&entry, 1, &time, nullptr);
}

// ---- the caretaker ----

void Udp::start_caretaker()
{
    if (caretaker_.joinable())
        return;
    // Signals are for the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    caretaker_ = std::thread([this] { care(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// Others ask after a quarter of the silence limit, and want an answer within the rest of it.
void Udp::care()
{
    keep_only(descriptor());
    auto period = silence_limit_ / 8;
    std::uint32_t seen = 0;
    std::unique_lock lock(mutex_);
    while (!leaving_) {
        leave_.wait_for(lock, period, [this] { return leaving_; });
        std::uint32_t polls = polls_.load(std::memory_order_relaxed);
        if (leaving_ || polls != std::exchange(seen, polls))
            continue;
        InsideGate inside(gate_);
        caring_ = true;
        for (unsigned count = 0; count < caretaker_limit;) {
            unsigned received = receive(true);
            if (received == 0)
                break;
            count += received;
        }
        on_timer(now());
        transmit(now());
        caring_ = false;
    }
    // Their descriptors are of this thread's table: whoever has those numbers in the owner's keeps its own.
    host_asks_[1].clear();
}

}  // namespace pm::udp

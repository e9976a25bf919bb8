#include "netmod/ucx/ucx.h"

#include <poll.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

#include "base/hash.h"
#include "base/time.h"
#include "netmod/ucx/operation.h"
#include "netmod/ucx/resources.h"
#include "netmod/ucx/words.h"

namespace pm::ucx {
namespace {

enum : unsigned { message_id, greeting_id };

// In front of UCX's address; as short as can be, as it goes into names of ports.
struct [[gnu::packed]] CardHead {
    std::uint32_t check = 0;  // of all that follows: UCX trusts an address it is given
    std::uint64_t process = 0;
};
static_assert(sizeof(CardHead) == 12);

std::uint32_t check_of(std::uint64_t process, std::span<const std::byte> address)
{
    return static_cast<std::uint32_t>(hash_bytes(address.data(), address.size(), hash_bytes(&process, sizeof process)) >> 16);
}

// How much of what was accepted may wait in UCX for one peer.
constexpr std::size_t buffered_limit = 1 << 20;
// The end waits no longer than this for peers that do not answer.
constexpr std::chrono::seconds farewell_limit{2};

Error error_of(const std::string &what, ucs_status_t status)
{
    return {status == UCS_ERR_UNREACHABLE ? Status::unreachable : Status::failed,
            "ucx: " + what + " failed: " + ucs_status_string(status) + last_words()};
}

// Frees a request that has.
bool has_ended(void *request)
{
    if (ucp_request_check_status(request) == UCS_INPROGRESS)
        return false;
    ucp_request_free(request);
    return true;
}

}  // namespace

struct Ucx::Greeting {
    enum Kind : std::uint64_t { hello, welcome, stranger, bye, nothing };
    Kind kind = hello;
    std::uint64_t from = 0, to = 0;  // processes
    std::uint64_t peer = 0;          // the place of the greeted peer in the greeter's list, which the answer repeats
    std::uint64_t number = 0;        // in a welcome: what the greeter's messages should have as their sender
};

// A payload on its way to its place.
struct Ucx::Incoming {
    Ucx *device;
    int tag;
    void *cookie;
    std::size_t size;
    std::unique_ptr<std::byte[]> buffer;  // when it has no place
};

// A payload that waits at its sender.
class Ucx::Waiting final : public Offer {
  public:
    Waiting(Ucx *device, int tag, void *rendezvous, std::size_t size) : device_(device), tag_(tag), rendezvous_(rendezvous), size_(size) {}

    void take(void *place, void *cookie) override
    {
        std::unique_ptr<Waiting> gone(this);
        InsideGate inside(device_->gate_);
        device_->receive(tag_, cookie, place, rendezvous_, size_);
    }

  private:
    Ucx *device_;
    int tag_;
    void *rendezvous_;
    std::size_t size_;
};

Result<std::unique_ptr<Ucx>> Ucx::create(const Settings &settings, const Sink &sink)
{
    listen_to_ucx();
    // A peer that does not answer must not hold up the others. These settings of a transport are read from the environment only.
    setenv("UCX_TCP_CONN_NB", "y", 0);
    // Whoever waits asks by ask(), and a setting says how long; UCX would end a connection after 16 s without an answer, of the side alone
    // that made it.
    setenv("UCX_TCP_KEEPIDLE", "inf", 0);
    std::unique_ptr<Ucx> device(new Ucx);
    device->sink_ = sink;
    if (Error error = device->open(settings))
        return error;
    return device;
}

Error Ucx::open(const Settings &settings)
{
    ucp_config_t *config = nullptr;
    ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
    if (status != UCS_OK)
        return error_of("reading UCX's settings", status);
    auto set = [&](const char *name, const char *variable, const char *value) {
        if (std::getenv(variable) == nullptr)
            (void)ucp_config_modify(config, name, value);
    };
    set("TLS", "UCX_TLS", "^sm");  // within a host there is SHMEM
    // Messages of a pair stay in order only on one lane.
    set("MAX_EAGER_LANES", "UCX_MAX_EAGER_LANES", "1");
    if (!settings.devices.empty())
        (void)ucp_config_modify(config, "NET_DEVICES", settings.devices.c_str());

    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64 | UCP_FEATURE_WAKEUP;
    status = ucp_init(&params, config, &context_);
    ucp_config_release(config);
    if (status != UCS_OK)
        return error_of("opening UCX (UCX_TLS and UCX_NET_DEVICES say what it may use)", status);

    writes_by_itself_ = std::ranges::any_of(resources_of(context_), ucx::writes_by_itself);

    ucp_worker_params_t worker{};
    worker.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    worker.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    status = ucp_worker_create(context_, &worker, &worker_);
    if (status != UCS_OK)
        return error_of("making a worker", status);
    status = ucp_worker_get_efd(worker_, &descriptor_);
    if (status != UCS_OK)
        return error_of("getting a descriptor to sleep on (a transport of UCX_TLS has none)", status);

    using Handler = std::pair<unsigned, ucp_am_recv_callback_t>;
    for (auto [id, call] : {Handler{message_id, on_message}, Handler{greeting_id, on_greeting}}) {
        ucp_am_handler_param_t handler{};
        handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
        handler.id = id;
        handler.cb = call;
        handler.arg = this;
        status = ucp_worker_set_am_recv_handler(worker_, &handler);
        if (status != UCS_OK)
            return error_of("registering a handler", status);
    }

    ucp_worker_attr_t attributes{};
    attributes.field_mask = UCP_WORKER_ATTR_FIELD_ADDRESS | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
    status = ucp_worker_query(worker_, &attributes);
    if (status != UCS_OK)
        return error_of("asking for the address of the worker", status);
    auto bytes = reinterpret_cast<const std::byte *>(attributes.address);
    address_.assign(bytes, bytes + attributes.address_length);
    ucp_worker_release_address(worker_, attributes.address);
    if (attributes.max_am_header < sizeof(Prefix) + largest_header)
        return {Status::unreachable, "ucx: the transports in UCX_TLS carry headers of " + std::to_string(attributes.max_am_header) +
                                         " bytes only; choose others"};
    if (sizeof(CardHead) + address_.size() > max_card_size)
        return {Status::failed, "ucx: an address of " + std::to_string(address_.size()) +
                                    " bytes is too long to be passed on; leave out some of the devices (UCX_NET_DEVICES)"};
    if (getrandom(&process_, sizeof process_, 0) != sizeof process_)
        return system_error("getrandom", errno);
    return {};
}

Ucx::~Ucx()
{
    InsideGate inside(gate_);
    closing_down_ = true;
    for (auto &peer : peers_)
        if (peer->endpoint != nullptr)
            close(peer.get(), true);
    auto end = std::chrono::steady_clock::now() + farewell_limit;
    while (std::erase_if(closing_, has_ended), !closing_.empty() && std::chrono::steady_clock::now() < end)
        ucp_worker_progress(worker_);
    for (void *request : closing_)
        ucp_request_free(request);
    if (worker_ != nullptr)
        ucp_worker_destroy(worker_);
    if (context_ != nullptr)
        ucp_cleanup(context_);
}

std::size_t Ucx::write_card(void *card) const
{
    CardHead head{check_of(process_, address_), process_};
    std::memcpy(card, &head, sizeof head);
    std::memcpy(static_cast<std::byte *>(card) + sizeof head, address_.data(), address_.size());
    return sizeof head + address_.size();
}

Result<Peer *> Ucx::connect(const void *card, std::size_t size)
{
    InsideGate inside(gate_);
    CardHead head;
    auto bytes = static_cast<const std::byte *>(card);
    if (size <= sizeof head)
        return Error{Status::invalid, "ucx: a card of " + std::to_string(size) + " bytes is not one of this device"};
    std::memcpy(&head, bytes, sizeof head);
    if (head.check != check_of(head.process, {bytes + sizeof head, size - sizeof head}))
        return Error{Status::invalid, "ucx: a card of " + std::to_string(size) + " bytes is damaged"};
    auto peer = std::make_unique<Peer>();
    peer->device = this;
    peer->process = head.process;
    peer->address.assign(bytes + sizeof head, bytes + size);
    by_process_[peer->process] = peer.get();
    peers_.push_back(std::move(peer));
    return peers_.back().get();
}

void Ucx::let_go(Peer *peer)
{
    InsideGate inside(gate_);
    peer->let_go = true;
}

void Ucx::renew(Peer *peer)
{
    InsideGate inside(gate_);
    peer->let_go = false;
}

void Ucx::introduce(const void *card, std::size_t size, pm_peer *source)
{
    CardHead head;
    if (size < sizeof head)
        return;
    std::memcpy(&head, card, sizeof head);
    InsideGate inside(gate_);
    if (source != nullptr || sender_numbers_.contains(head.process))
        sources_[sender_number(head.process)] = source;
}

std::uint32_t Ucx::sender_number(std::uint64_t process)
{
    auto [found, added] = sender_numbers_.try_emplace(process, static_cast<std::uint32_t>(sources_.size()));
    if (added)
        sources_.push_back(nullptr);
    return found->second;
}

void Ucx::disconnect(Peer *peer)
{
    InsideGate inside(gate_);
    if (peer->endpoint == nullptr) {
        peer->state = Peer::State::gone;
        peer->left = true;
        if (auto found = by_process_.find(peer->process); found != by_process_.end() && found->second == peer)
            by_process_.erase(found);
        return;
    }
    if (peer->state == Peer::State::open)
        send_greeting(peer->endpoint, {Greeting::bye, process_, peer->process}, nullptr);
    bool forced = peer->state != Peer::State::open;
    peer->state = Peer::State::gone;
    peer->left = true;
    close(peer, forced);
}

// --- sending ----------------------------------------------------------------------------------------------------------

Operation *Ucx::take_operation()
{
    if (free_operations_ == nullptr) {
        operations_.push_back(std::make_unique<Operation>());
        operations_.back()->device = this;
        free_operations_ = operations_.back().get();
    }
    Operation *operation = free_operations_;
    free_operations_ = operation->next;
    operation->peer = nullptr;
    operation->buffered = 0;
    operation->detached = false;
    operation->one_sided = false;
    operation->offer = false;
    operation->done = false;
    operation->status = UCS_OK;
    return operation;
}

void Ucx::give_back(Operation *operation)
{
    operation->data.reset();
    operation->next = free_operations_;
    free_operations_ = operation;
}

ucp_request_param_t Ucx::send_parameters(Operation *operation)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
    param.cb.send = on_sent;
    param.user_data = operation;
    return param;
}

void Ucx::on_sent(void *request, ucs_status_t status, void *context)
{
    auto operation = static_cast<Operation *>(context);
    Ucx *device = operation->device;
    ucp_request_free(request);
    operation->done = true;
    operation->status = status;
    device->outstanding_--;
    device->one_sided_pending_ -= operation->one_sided;
    device->done_++;
    if (!operation->detached)
        return;
    if (operation->peer != nullptr) {
        operation->peer->buffered -= operation->buffered;
        if (status != UCS_OK)
            device->lose(operation->peer, status);
    }
    if (operation->offer && status == UCS_OK && !device->closing_down_)
        device->sink_.taken(device->sink_.context, operation->tag, operation->cookie);
    device->give_back(operation);
}

namespace {

std::size_t write_header(std::byte *place, const Peer *peer, const Message &message)
{
    Prefix prefix{message.tag, message.offered, {}, peer->number, peer->process};
    std::memcpy(place, &prefix, sizeof prefix);
    message.copy_header_to(place + sizeof prefix);
    return sizeof prefix + message.header_size;
}

}  // namespace

// The answer is UCX's: null (done), an error, or a request that ends in on_sent().
ucs_status_ptr_t Ucx::post(Peer *peer, Operation *operation, const Message &message, const void *data, std::uint32_t flags)
{
    ucp_request_param_t param = send_parameters(operation);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = flags;
    std::size_t header_size = write_header(operation->header.data(), peer, message);
    outstanding_++;
    ucs_status_ptr_t request = ucp_am_send_nbx(peer->endpoint, message_id, operation->header.data(), header_size, data,
                                               message.payload.size, &param);
    if (!UCS_PTR_IS_PTR(request))
        outstanding_--;
    return request;
}

bool Ucx::try_send_whole(Peer *peer, const Message &message)
{
    InsideGate inside(gate_);
    SendProgress progress;
    return peer->state == Peer::State::open && try_send(peer, message, &progress) == Status::ok;
}

Status Ucx::try_send(Peer *peer, const Message &message, SendProgress *progress)
{
    InsideGate inside(gate_);
    if (progress->operation != nullptr) {
        auto operation = static_cast<Operation *>(progress->operation);
        if (!operation->done)
            return Status::again;
        ucs_status_t status = operation->status;
        give_back(operation);
        progress->operation = nullptr;
        if (status == UCS_OK) {
            progress->sent = message.payload.size;
            return Status::ok;
        }
        lose(peer, status);
    }
    if (Status status; !is_open(peer, &status))
        return status;
    if (message.payload.size <= whole_limit)
        return buffer(peer, message);

    Operation *operation = take_operation();
    const void *data = message.payload.data;
    if (message.payload.pack != nullptr) {
        operation->data = std::make_unique<std::byte[]>(message.payload.size);
        message.payload.copy_to(operation->data.get(), 0, message.payload.size);
        data = operation->data.get();
    }
    ucs_status_ptr_t request = post(peer, operation, message, data, UCP_AM_SEND_FLAG_RNDV);
    if (UCS_PTR_IS_ERR(request)) {
        give_back(operation);
        lose(peer, UCS_PTR_STATUS(request));
        return peer->error.status;
    }
    progress->started = true;
    if (request == nullptr) {
        give_back(operation);
        progress->sent = message.payload.size;
        return Status::ok;
    }
    progress->operation = operation;
    return Status::again;
}

// If not, it is greeted.
bool Ucx::is_open(Peer *peer, Status *otherwise)
{
    if (peer->state == Peer::State::open)
        return true;
    if (peer->state == Peer::State::fresh)
        greet(peer);
    *otherwise = peer->state == Peer::State::gone ? peer->error.status : Status::again;
    return false;
}

Status Ucx::offer(Peer *peer, const Message &message, void *cookie)
{
    InsideGate inside(gate_);
    if (Status status; !is_open(peer, &status))
        return status;
    Operation *operation = take_operation();
    operation->detached = true;
    operation->offer = true;
    operation->cookie = cookie;
    operation->tag = message.tag;
    operation->peer = peer;
    ucs_status_ptr_t request = post(peer, operation, message, message.payload.data, UCP_AM_SEND_FLAG_RNDV);
    if (UCS_PTR_IS_PTR(request))
        return Status::ok;
    if (request == nullptr)
        sink_.taken(sink_.context, message.tag, cookie);
    return ended_at_once(peer, request, operation);
}

// A short message: at once if UCX takes it so, otherwise from a copy.
Status Ucx::buffer(Peer *peer, const Message &message)
{
    std::size_t size = message.payload.size;
    if (message.payload.pack == nullptr) {
        ucp_request_param_t param{};
        param.op_attr_mask = UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL;
        alignas(8) std::byte header[sizeof(Prefix) + largest_header];
        std::size_t header_size = write_header(header, peer, message);
        ucs_status_ptr_t request = ucp_am_send_nbx(peer->endpoint, message_id, header, header_size, message.payload.data, size, &param);
        if (request == nullptr)
            return Status::ok;
    }
    if (peer->buffered > buffered_limit)
        return Status::again;
    Operation *operation = take_operation();
    operation->detached = true;
    if (size > 0) {
        operation->data = std::make_unique<std::byte[]>(size);
        message.payload.copy_to(operation->data.get(), 0, size);
    }
    ucs_status_ptr_t request = post(peer, operation, message, operation->data.get(), UCP_AM_SEND_FLAG_EAGER);
    if (UCS_PTR_IS_PTR(request)) {
        operation->peer = peer;
        operation->buffered = size + sizeof(Operation);
        peer->buffered += operation->buffered;
        return Status::ok;
    }
    return ended_at_once(peer, request, operation);
}

// UCX needs no operation any more: it is done, or has failed.
Status Ucx::ended_at_once(Peer *peer, ucs_status_ptr_t request, Operation *operation)
{
    give_back(operation);
    if (request == nullptr)
        return Status::ok;
    lose(peer, UCS_PTR_STATUS(request));
    return peer->error.status;
}

// --- peers ------------------------------------------------------------------------------------------------------------

void Ucx::greet(Peer *peer)
{
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t *>(peer->address.data());
    // With error handling promised UCX copies long messages (it cannot take back what a peer may still write). The handler is
    // called without the promise, too, by every transport that notices.
    params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
    params.err_handler.cb = on_error;
    params.err_handler.arg = peer;
    ucs_status_t status = ucp_ep_create(worker_, &params, &peer->endpoint);
    if (status != UCS_OK) {
        peer->endpoint = nullptr;
        lose(peer, status);
        return;
    }
    peer->state = Peer::State::greeting;
    auto place = std::ranges::find_if(peers_, [&](const auto &each) { return each.get() == peer; }) - peers_.begin();
    send_greeting(peer->endpoint, {Greeting::hello, process_, peer->process, static_cast<std::uint64_t>(place), 0}, peer);
}

// `peer` is lost when it cannot be sent; null for those who do not care.
void Ucx::send_greeting(ucp_ep_h endpoint, const Greeting &greeting, Peer *peer)
{
    Operation *operation = take_operation();
    operation->detached = true;
    operation->peer = peer;
    std::memcpy(operation->header.data(), &greeting, sizeof greeting);
    ucp_request_param_t param = send_parameters(operation);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = UCP_AM_SEND_FLAG_EAGER | (greeting.kind == Greeting::hello ? UCP_AM_SEND_FLAG_REPLY : 0);
    outstanding_++;
    ucs_status_ptr_t request =
        ucp_am_send_nbx(endpoint, greeting_id, operation->header.data(), sizeof greeting, nullptr, 0, &param);
    if (UCS_PTR_IS_PTR(request)) {
        if (greeting.kind == Greeting::nothing)
            peer->buffered += operation->buffered = sizeof(Operation);
        return;
    }
    outstanding_--;
    give_back(operation);
    if (UCS_PTR_IS_ERR(request) && peer != nullptr)
        lose(peer, UCS_PTR_STATUS(request));
}

ucs_status_t Ucx::on_greeting(void *context, const void *header, std::size_t header_size, void *, std::size_t,
                              const ucp_am_recv_param_t *param)
{
    auto self = static_cast<Ucx *>(context);
    Greeting greeting;
    if (header_size != sizeof greeting || self->closing_down_)
        return UCS_OK;
    std::memcpy(&greeting, header, sizeof greeting);
    if (greeting.kind == Greeting::nothing)
        return UCS_OK;  // and nobody is disturbed
    self->done_++;
    if (greeting.kind == Greeting::hello) {
        if ((param->recv_attr & UCP_AM_RECV_ATTR_FIELD_REPLY_EP) == 0)
            return UCS_OK;
        bool meant = greeting.to == self->process_;
        self->send_greeting(param->reply_ep, {meant ? Greeting::welcome : Greeting::stranger, self->process_, greeting.from, greeting.peer,
                                              meant ? self->sender_number(greeting.from) : 0},
                            nullptr);
        // Its end must be noticed here, too, even if we never send to it: for that an endpoint of our own is needed.
        auto known = self->by_process_.find(greeting.from);
        if (meant && known != self->by_process_.end() && known->second->state == Peer::State::fresh)
            self->to_greet_.push_back(known->second);
        return UCS_OK;
    }
    if (greeting.to != self->process_)
        return UCS_OK;
    if (greeting.kind == Greeting::bye) {
        for (auto &peer : self->peers_)
            if (peer->process == greeting.from)
                peer->left = true;
        return UCS_OK;
    }
    if (greeting.peer >= self->peers_.size())
        return UCS_OK;
    Peer *peer = self->peers_[greeting.peer].get();
    if (peer->state != Peer::State::greeting)
        return UCS_OK;
    if (greeting.kind == Greeting::welcome && greeting.from == peer->process) {
        peer->number = static_cast<std::uint32_t>(greeting.number);
        peer->state = Peer::State::open;
    } else {
        self->lose(peer, UCS_ERR_UNREACHABLE);
    }
    return UCS_OK;
}

// What waits in UCX is asked already.
void Ucx::ask(Peer *peer)
{
    InsideGate inside(gate_);
    if (in_use(peer) && peer->endpoint != nullptr && peer->buffered == 0)
        send_greeting(peer->endpoint, {Greeting::nothing, process_, peer->process}, peer);
}

void Ucx::give_up(Peer *peer, const std::string &why)
{
    InsideGate inside(gate_);
    lose(peer, why);
}

void Ucx::on_error(void *context, ucp_ep_h, ucs_status_t status)
{
    auto peer = static_cast<Peer *>(context);
    peer->device->lose(peer, status);
}

// The endpoint is closed later: UCX may be in the middle of using it.
void Ucx::lose(Peer *peer, const std::string &why)
{
    if (peer->state == Peer::State::gone)
        return;
    bool in_use = peer->state == Peer::State::open && !peer->left;
    peer->state = Peer::State::gone;
    peer->error = {Status::unreachable, "ucx: " + (peer->label.empty() ? std::string("a peer") : peer->label) +
                                            (in_use ? " is gone: " : " is not reached: ") + why + last_words()};
    if (in_use && !peer->let_go && !failure_ && !closing_down_)
        failure_ = peer->error;
    if (peer->endpoint != nullptr)
        to_close_.push_back(peer);
}

void Ucx::close(Peer *peer, bool forced)
{
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    param.flags = forced ? UCP_EP_CLOSE_FLAG_FORCE : 0;
    ucs_status_ptr_t request = ucp_ep_close_nbx(peer->endpoint, &param);
    peer->endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request))
        closing_.push_back(request);
}

// --- receiving --------------------------------------------------------------------------------------------------------

ucs_status_t Ucx::on_message(void *context, const void *header, std::size_t header_size, void *data, std::size_t size,
                             const ucp_am_recv_param_t *param)
{
    auto self = static_cast<Ucx *>(context);
    bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
    if (header_size < sizeof(Prefix) || header_size > sizeof(Prefix) + largest_header || self->closing_down_)
        return UCS_OK;
    Prefix prefix;
    std::memcpy(&prefix, header, sizeof prefix);
    if (prefix.to != self->process_) [[unlikely]] {
        self->aliens_++;
        return UCS_OK;
    }
    alignas(16) std::byte copy[sizeof(Prefix) + largest_header];
    std::memcpy(copy, header, header_size);
    bool wanted = true;
    if (self->polling_ && self->parked_.empty()) {
        wanted = self->deliver(copy, header_size, rendezvous ? nullptr : data, size, rendezvous ? data : nullptr);
    } else {
        Parked &parked = self->parked_.emplace_back();
        parked.header.assign(copy, copy + header_size);
        parked.size = size;
        if (rendezvous)
            parked.rendezvous = data;
        else
            parked.payload.assign(static_cast<std::byte *>(data), static_cast<std::byte *>(data) + size);
        self->any_parked_.store(true, std::memory_order_release);
    }
    // With ok UCX tells the sender that it is done.
    return rendezvous && wanted ? UCS_INPROGRESS : UCS_OK;
}

bool Ucx::deliver(std::byte *header, std::size_t header_size, void *payload, std::size_t size, void *rendezvous)
{
    Prefix prefix;
    std::memcpy(&prefix, header, sizeof prefix);
    done_++;
    Envelope envelope{prefix.sender < sources_.size() ? sources_[prefix.sender] : nullptr, header + sizeof prefix,
                      header_size - sizeof prefix, prefix.tag};
    if (prefix.offered && rendezvous != nullptr && sink_.offered != nullptr) {
        auto offer = new Waiting(this, prefix.tag, rendezvous, size);  // take()'s, perhaps before offered() returns
        if (sink_.offered(sink_.context, envelope, static_cast<Offer *>(offer), size))
            return true;
        delete offer;
        return false;
    }
    void *cookie = sink_.arrived(sink_.context, envelope, payload, rendezvous != nullptr ? 0 : size, size);
    if (rendezvous == nullptr || cookie == nullptr)
        return false;
    void *place = sink_.place != nullptr ? sink_.place(sink_.context, prefix.tag, cookie) : nullptr;
    return receive(prefix.tag, cookie, place, rendezvous, size);
}

// False: there is no memory for it, and the rest never comes.
bool Ucx::receive(int tag, void *cookie, void *place, void *rendezvous, std::size_t size)
{
    auto incoming = std::make_unique<Incoming>(Incoming{this, tag, cookie, size, nullptr});
    if (place == nullptr) {
        incoming->buffer.reset(new (std::nothrow) std::byte[size]);
        place = incoming->buffer.get();
        if (place == nullptr) {
            if (!failure_)
                failure_ = {Status::no_memory, "ucx: there is no memory for a message of " + std::to_string(size) + " bytes"};
            return false;
        }
    }
    ucp_request_param_t param{};
    param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    param.cb.recv_am = on_received;
    param.user_data = incoming.get();
    ucs_status_ptr_t request = ucp_am_recv_data_nbx(worker_, rendezvous, place, size, &param);
    if (UCS_PTR_IS_PTR(request)) {
        incoming.release();  // on_received() has it
        receiving_++;
    } else if (!failure_)
        failure_ = error_of("receiving " + std::to_string(size) + " bytes", UCS_PTR_STATUS(request));
    return true;
}

void Ucx::on_received(void *request, ucs_status_t status, std::size_t, void *context)
{
    std::unique_ptr<Incoming> incoming(static_cast<Incoming *>(context));
    Ucx *self = incoming->device;
    ucp_request_free(request);
    self->receiving_--;
    self->done_++;
    if (self->closing_down_ || status != UCS_OK)
        return;  // its sender is gone, which on_error() tells
    if (incoming->buffer != nullptr)
        self->sink_.more(self->sink_.context, incoming->tag, incoming->cookie, incoming->buffer.get(), incoming->size);
    else
        self->sink_.placed(self->sink_.context, incoming->tag, incoming->cookie);
}

void Ucx::deliver_parked()
{
    while (!parked_.empty()) {
        Parked parked = std::move(parked_.front());
        parked_.pop_front();
        bool wanted = deliver(parked.header.data(), parked.header.size(), parked.payload.data(), parked.size, parked.rendezvous);
        if (parked.rendezvous != nullptr && !wanted)
            ucp_am_data_release(worker_, parked.rendezvous);
    }
    any_parked_.store(false, std::memory_order_release);
}

unsigned Ucx::poll()
{
    InsideGate inside(gate_);
    polling_ = true;
    done_ = 0;
    if (!parked_.empty()) [[unlikely]]
        deliver_parked();
    // Much of what UCX does by itself is nothing to us; a message may be right behind it.
    for (int rounds = 0; rounds < 4 && ucp_worker_progress(worker_) != 0 && done_ == 0; ++rounds) {
    }
    if (!to_greet_.empty() || !to_close_.empty() || !closing_.empty()) [[unlikely]]
        attend_peers();
    polling_ = false;
    return done_;
}

void Ucx::attend_peers()
{
    for (Peer *peer : std::exchange(to_greet_, {}))
        if (peer->state == Peer::State::fresh)
            greet(peer);
    for (Peer *peer : std::exchange(to_close_, {}))
        if (peer->endpoint != nullptr)
            close(peer, true);
    std::erase_if(closing_, has_ended);
}

// --- sleeping ---------------------------------------------------------------------------------------------------------

bool Ucx::arm()
{
    if (any_parked_.load(std::memory_order_acquire) || !gate_.try_enter())
        return false;
    bool armed = to_greet_.empty() && to_close_.empty() && ucp_worker_arm(worker_) == UCS_OK;
    gate_.leave();
    // UCX arms also when a message is in its socket already, and trusts that the descriptor will be looked at.
    pollfd entry{descriptor_, POLLIN, 0};
    return armed && ::poll(&entry, 1, 0) == 0;
}

// Over its own shared memory UCX 1.13 does not always wake a sleeper whom many send to: with 36 senders, once in about 50,000 messages.
void Ucx::sleep(std::chrono::nanoseconds limit)
{
    constexpr std::chrono::milliseconds lost_wake_up{20};
    if (any_parked_.load(std::memory_order_acquire))
        return;
    pollfd entry{descriptor_, POLLIN, 0};
    timespec time = to_timespec(std::min<std::chrono::nanoseconds>(limit, lost_wake_up));
    ppoll(&entry, 1, &time, nullptr);
}

}  // namespace pm::ucx

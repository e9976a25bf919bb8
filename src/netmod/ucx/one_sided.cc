// Reading and writing the memory of peers: UCX lets the NIC do it where it can, and asks the peer's own UCX where it cannot.
#include <utility>

#include "netmod/ucx/operation.h"
#include "netmod/ucx/ucx.h"
#include "netmod/ucx/words.h"

namespace pm::ucx {

Result<Memory> Ucx::register_memory(void *base, std::size_t size)
{
    InsideGate inside(gate_);
    Memory memory;
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = base;
    params.length = size;
    ucs_status_t status = ucp_mem_map(context_, &params, &memory.handle);
    if (status != UCS_OK)
        return Error{Status::failed, "ucx: registering " + std::to_string(size) + " bytes of memory failed: " +
                                         ucs_status_string(status) + last_words()};
    void *key = nullptr;
    std::size_t key_size = 0;
    status = ucp_rkey_pack(context_, memory.handle, &key, &key_size);
    if (status != UCS_OK) {
        ucp_mem_unmap(context_, memory.handle);
        return Error{Status::failed, std::string("ucx: making a key for registered memory failed: ") + ucs_status_string(status) +
                                         last_words()};
    }
    memory.key.assign(static_cast<std::byte *>(key), static_cast<std::byte *>(key) + key_size);
    ucp_rkey_buffer_release(key);
    return memory;
}

void Ucx::release(Memory *memory)
{
    InsideGate inside(gate_);
    ucp_mem_unmap(context_, memory->handle);
    *memory = {};
}

void Ucx::release(RemoteMemory *memory)
{
    InsideGate inside(gate_);
    if (memory->handle != nullptr)
        ucp_rkey_destroy(memory->handle);
    *memory = {};
}

// A key belongs to an endpoint, which there is once something was sent.
Status Ucx::prepare(RemoteMemory *memory)
{
    Peer *peer = memory->peer;
    if (peer->state == Peer::State::gone)
        return peer->error.status;
    if (peer->state != Peer::State::open)
        return Status::again;
    if (memory->handle == nullptr && ucp_ep_rkey_unpack(peer->endpoint, memory->key.data(), &memory->handle) != UCS_OK) {
        memory->handle = nullptr;
        return Status::again;
    }
    return Status::ok;
}

// What is written has arrived only when its target was flushed; what is read is there when the operation ends.
void Ucx::flush_later(Peer *peer)
{
    if (!std::exchange(peer->to_flush, true))
        to_flush_.push_back(peer);
}

Operation *Ucx::begin(Peer *peer)
{
    Operation *operation = take_operation();
    operation->detached = true;
    operation->peer = peer;
    return operation;
}

Status Ucx::started(Peer *peer, ucs_status_ptr_t request, Operation *operation)
{
    if (!UCS_PTR_IS_PTR(request))
        return ended_at_once(peer, request, operation);
    operation->one_sided = true;
    one_sided_pending_++;
    outstanding_++;
    return Status::ok;
}

Status Ucx::put(RemoteMemory *to, std::uint64_t address, const void *data, std::size_t size)
{
    InsideGate inside(gate_);
    if (Status status = prepare(to); status != Status::ok)
        return status;
    flush_later(to->peer);
    Operation *operation = begin(to->peer);
    ucp_request_param_t param = send_parameters(operation);
    return started(to->peer, ucp_put_nbx(to->peer->endpoint, data, size, address, to->handle, &param), operation);
}

Status Ucx::get(RemoteMemory *from, std::uint64_t address, void *data, std::size_t size)
{
    InsideGate inside(gate_);
    if (Status status = prepare(from); status != Status::ok)
        return status;
    Operation *operation = begin(from->peer);
    ucp_request_param_t param = send_parameters(operation);
    return started(from->peer, ucp_get_nbx(from->peer->endpoint, data, size, address, from->handle, &param), operation);
}

Status Ucx::add_behind(RemoteMemory *at, std::uint64_t address, std::uint32_t value)
{
    InsideGate inside(gate_);
    if (Status status = prepare(at); status != Status::ok)
        return status;
    if (ucs_status_t fenced = ucp_worker_fence(worker_); fenced != UCS_OK) {
        lose(at->peer, fenced);
        return at->peer->error.status;
    }
    flush_later(at->peer);
    Operation *operation = begin(at->peer);
    // UCX reads the operand when it sends.
    std::memcpy(operation->header.data(), &value, sizeof value);
    ucp_request_param_t param = send_parameters(operation);
    param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
    param.datatype = ucp_dt_make_contig(sizeof value);
    return started(at->peer,
                   ucp_atomic_op_nbx(at->peer->endpoint, UCP_ATOMIC_OP_ADD, operation->header.data(), 1, address, at->handle, &param),
                   operation);
}

// Each target that was written to is flushed, which waits for all that was written before; what is read ends by itself. All of it ends by events,
// so that one can sleep meanwhile; a flush of the whole worker does not.
bool Ucx::finished()
{
    InsideGate inside(gate_);
    for (Peer *peer : std::exchange(to_flush_, {})) {
        peer->to_flush = false;
        if (peer->state != Peer::State::open)
            continue;  // failure() tells
        Operation *operation = begin(peer);
        ucp_request_param_t param = send_parameters(operation);
        (void)started(peer, ucp_ep_flush_nbx(peer->endpoint, &param), operation);
    }
    return one_sided_pending_ == 0;
}

}  // namespace pm::ucx

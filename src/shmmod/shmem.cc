#include "shmmod/shmem.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <new>
#include <string>

#include "base/clock.h"
#include "base/hash.h"
#include "shmmod/slots.h"

namespace pm::shmem {
namespace {

constexpr unsigned parts_a_call = 8;    // a long send looks at its own arrivals in between
constexpr unsigned cells_a_drain = 64;  // one sender does not keep the others waiting for ever

// Up to how many ranks of a host have the rings of all pairs from the start: each takes some microseconds and three pages.
// bench/run --only cold,init
constexpr std::uint32_t ranks_with_rings_kept = 8;
// And how much of the bulk areas of all these together has memory then.
constexpr std::size_t bulk_kept = 48 * 1024;

// The word that peers read to test pulling.
std::uint64_t probe_word;

constexpr std::chrono::milliseconds between_looks{250};
// One that has ended may have left before, and its words not be read yet; or our own job ends with it, which tells more.
constexpr std::chrono::milliseconds time_to_be_heard{1000};
// Those of our own job: the launcher ends us with them, unless it was told not to.
constexpr std::chrono::milliseconds time_to_be_ended{3000};
constexpr std::size_t own_a_look = 8;
// A sender that helps looks at its own arrivals then.
constexpr std::uint32_t parts_a_help = 64;
// While a peer copies its last part.
constexpr std::uint32_t looks_before_yield = 1 << 10, looks_before_question = 1 << 20;
constexpr std::size_t most_departed = 256;

// Whether the region is what the card says, and when its owner was started.
bool is_region_of(int file, const Card &card, std::uint64_t *started = nullptr)
{
    SegmentHeader header{};
    constexpr std::size_t fixed_part = offsetof(SegmentHeader, probe_address);
    bool is = pread(file, static_cast<void *>(&header), fixed_part, static_cast<off_t>(card.region)) ==
                  static_cast<ssize_t>(fixed_part) &&
              header.magic == segment_magic && header.token == card.token + card.region;
    if (is && started != nullptr)
        *started = header.started;
    return is;
}

// Of a ring without its bulk area.
std::size_t ring_memory()
{
    return detail::round_up(sizeof(RingMemory<std::atomic>), page_size());
}

// True when the sender of this slot has reserved its memory. By reading, not by mapping: to touch a slot without memory would
// take some, and be SIGBUS when there is none left.
bool slot_is_open(int file, std::size_t region, std::uint32_t slot)
{
    std::uint32_t open = 0;
    auto place = static_cast<off_t>(region + slot_offset(slot) + offsetof(RingControl<std::atomic>, open));
    return pread(file, &open, sizeof open, place) == sizeof open && open != 0;
}

RingControl<std::atomic> &control_of(const Mapping &slot)
{
    return reinterpret_cast<RingMemory<std::atomic> *>(slot.data())->control;
}

}  // namespace

std::uint64_t host_identity()
{
    std::uint64_t value = hash_seed;
    std::string boot;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
    value = hash_bytes(boot.data(), boot.size(), value);
    struct stat space {};
    if (stat("/proc/self/ns/pid", &space) == 0)
        value = hash_bytes(&space.st_ino, sizeof space.st_ino, value);
    utsname names{};
    if (uname(&names) == 0)
        value = hash_bytes(names.nodename, std::strlen(names.nodename), value);
    return value;
}

Result<std::unique_ptr<Shmem>> Shmem::create(const Settings &settings, const Sink &sink)
{
    std::unique_ptr<Shmem> device(new Shmem);
    device->settings_ = settings;
    device->sink_ = sink;
    device->host_ = settings.host;
    if (device->host_ == nullptr) {
        auto own = HostFile::create(settings.backing, settings.region + 1, 0);
        if (!own.ok())
            return own.error();
        device->host_ = own.value();
    }
    int file = device->host_->descriptor();
    std::size_t region = device->host_->region(settings.region);
    // Every rank looks at about the same time: ask for what all of them need when all talk to all.
    auto ranks = static_cast<std::size_t>(settings.ranks_on_host);
    if (Error error = check_space(file, ranks * (page_size() + ranks * ring_memory()),
                                  "the channels of " + std::to_string(ranks) + " ranks on this host"))
        return error;
    if (Error error = reserve(file, region, sizeof(SegmentHeader)))
        return error;
    Result<Mapping> mapping = Mapping::create(file, region, header_room);
    if (!mapping.ok())
        return mapping.error();

    device->header_mapping_ = std::move(mapping.value());
    device->header_ = new (device->header_mapping_.data()) SegmentHeader{};
    device->card_.host = host_identity();
    device->card_.token = device->host_->token();
    device->card_.region = region;
    device->card_.process = getpid();
    device->card_.file = file;
    device->card_.grant = core_grant();
    probe_word = device->card_.token + region;
    device->is_fenced_ = UnevenFence<std::atomic>::prepare();
    device->header_->wake_file.store(-1, std::memory_order_relaxed);
    device->header_->memory.store(detail::round_up(sizeof(SegmentHeader), page_size()), std::memory_order_relaxed);
    device->header_->magic = segment_magic;
    device->header_->token = probe_word;
    device->header_->started = this_process().started;
    device->heap_ = Heap(file, region + heap_offset, &device->header_->heap);
    device->arena_ = Arena(file, region + arena_offset, &device->header_->arena);
    if (settings.may_be_pulled) {
        device->header_->probe_address = reinterpret_cast<std::uint64_t>(&probe_word);
        allow_pull_from_us();
    }
    device->keep_rings();
    return device;
}

// Where they are few, all ranks of the host will talk to each other sooner or later: each finds a ring in our segment that costs nothing any more, neither
// it nor us, when its first message comes. Before anybody has our card; and not where memory for those who do talk may become short.
void Shmem::keep_rings()
{
    auto ranks = static_cast<std::uint32_t>(settings_.ranks_on_host);
    int file = host_->descriptor();
    has_plenty_ = !check_space(file, std::size_t{ranks} * ranks * slot_room, "rings of all pairs");
    if (!has_plenty_ || settings_.host == nullptr || ranks < 2 || ranks > ranks_with_rings_kept)
        return;
    std::size_t bulk = std::min(std::bit_floor(bulk_kept / (ranks - 1)), first_limit);
    std::uint64_t kept = 0;
    for (std::uint32_t slot = 0; slot < ranks; ++slot) {
        std::size_t offset = card_.region + slot_offset(slot);
        if (slot == settings_.region || reserve(file, offset, sizeof(RingMemory<std::atomic>)) || reserve(file, offset + ring_room, bulk))
            continue;
        auto mapping = Mapping::create(file, offset, slot_room);
        if (!mapping.ok())
            continue;
        find_pages(mapping.value().data(), sizeof(RingMemory<std::atomic>));
        find_pages(mapping.value().data() + ring_room, bulk);
        control_of(mapping.value()).bulk_memory = bulk;
        kept_.resize(slot + 1);
        kept_[slot] = std::move(mapping.value());
        kept |= std::uint64_t{1} << slot;
    }
    if (kept == 0)
        return;
    header_->memory.fetch_add(static_cast<std::uint64_t>(std::popcount(kept)) * (ring_memory() + bulk), std::memory_order_relaxed);
    header_->kept.store(kept, std::memory_order_relaxed);
    header_->given_back[0].store(~kept & ((std::uint64_t{1} << ranks) - 1), std::memory_order_relaxed);
    header_->claimed.store(ranks, std::memory_order_relaxed);
}

Shmem::~Shmem()
{
    leave();
}

// Who has not attached yet should not, and whoever looks after us sees that we have not died.
void Shmem::leave()
{
    leaving_ = true;
    if (header_ != nullptr)
        header_->magic = 0;
}

std::size_t Shmem::write_card(void *card) const
{
    std::memcpy(card, &card_, sizeof card_);
    return sizeof card_;
}

Result<Shmem::Peer *> Shmem::connect(const void *card, std::size_t size)
{
    Card other;
    if (size != sizeof other)
        return Error{Status::invalid, "shmem: a card of " + std::to_string(size) + " bytes instead of " +
                                          std::to_string(sizeof other)};
    std::memcpy(&other, card, sizeof other);
    if (other.host != card_.host)
        return Error{Status::unreachable, "shmem: process " + std::to_string(other.process) +
                                              " is on another host (or in another PID namespace)"};
    auto host = host_of(other);
    if (!host.ok())
        return host.error();
    auto peer = new Peer;
    peer->card = other;
    peer->host = host.value();
    peer->process.number = other.process;
    peer->foreign = peer->host != host_;
    if (peer->foreign) {
        if (is_region_of(peer->host->descriptor(), other, &peer->process.started))
            peer->process = confirmed(peer->process);
        peer->left = std::erase(departed_, peer->identity()) != 0;
        foreign_.push_back(peer);
    } else {
        own_.push_back(peer);
        attach_early(peer);
    }
    return peer;
}

// To one that has kept a ring for us. It starts as we do; whatever goes wrong is left to the first message.
void Shmem::attach_early(Peer *peer)
{
    if (kept_.empty() || peer->card.region == card_.region)
        return;
    bool mapped = map_header(peer) == Status::ok;
    std::size_t number = (peer->card.region - host_->region(0)) / region_room;
    if (mapped && number < kept_.size() && kept_[number].data() != nullptr)
        report_pull_works(&control_of(kept_[number]), pull_works(peer->card.process, header_of(peer)->probe_address, header_of(peer)->token));
    if (mapped && (header_of(peer)->kept.load(std::memory_order_relaxed) >> settings_.region & 1))
        (void) open_ring(peer);
    peer->error = {};
}

bool Shmem::is_beside(const void *card, std::size_t size) const
{
    Card other;
    if (size != sizeof other)
        return false;
    std::memcpy(&other, card, sizeof other);
    return other.host == card_.host && other.token == host_->token();
}

void Shmem::introduce(const void *card, std::size_t size, pm_peer *source)
{
    Card other;
    if (size != sizeof other)
        return;
    std::memcpy(&other, card, sizeof other);
    std::uint64_t sender = other.token + other.region;
    if (source != nullptr)
        sources_[sender] = source;
    else
        sources_.erase(sender);
    for (auto &incoming : incoming_)
        if (incoming != nullptr && incoming->identity() == sender)
            incoming->source = source;
}

void Shmem::disconnect(Peer *peer)
{
    // In our own job nobody wants to know; at the end it shows by itself.
    if (peer->foreign && peer->ready == nullptr && !leaving_ && !peer->left && peer->ended_since == never)
        (void) prepare(peer);
    if (peer->ready != nullptr && (peer->foreign || !leaving_)) {
        peer->producer.close();
        // Whether it is attended to is not looked at any more: the ring may be another's by now.
        ring_always(peer);
    }
    for (WakeFile &wake : wake_files_)
        if (wake.process == peer->card.process)
            wake = {};
    note_woken(peer, true);
    std::erase(peer->foreign ? foreign_ : own_, peer);
    bool foreign = peer->foreign;
    if (peer->ended_since != never)
        failure_ = {};
    delete peer;
    std::erase_if(other_hosts_, [](const auto &each) { return each.second.expired(); });
    if (foreign && !leaving_)
        close_rings_of_the_dead();
}

// In our file there is nobody else.
bool Shmem::is_foreign(std::uint64_t identity) const
{
    constexpr std::uint64_t longest_file = std::uint64_t{1} << 48;
    return identity - host_->token() >= longest_file;
}

// Whoever is gone cannot close its ring itself. What is in it comes first, by the next poll.
void Shmem::close_rings_of_the_dead()
{
    for (const auto &incoming : incoming_)
        if (incoming != nullptr && incoming->foreign && process_has_ended(incoming->process)) {
            incoming->died |= incoming->consumer.control().open.load(std::memory_order_relaxed) != ring_closed;
            incoming->consumer.close();
            header_->ready.fetch_or(ready_bit(incoming->slot), std::memory_order_relaxed);
        }
}

// Whether it is known to be gone without having said so.
bool Shmem::has_died(Peer *peer, Time now)
{
    if (peer->left || !process_has_ended(peer->process))
        return false;
    // Ended as it should, by MPI_Finalize.
    if (!is_region_of(peer->host->descriptor(), peer->card)) {
        peer->left = true;
        return false;
    }
    if (peer->ended_since == never)
        peer->ended_since = now;
    return true;
}

void Shmem::look_after_peers(Time now)
{
    if (now - looked_ < between_looks)
        return;
    looked_ = now;
    failure_ = {};
    bool died = false;
    for (Peer *peer : foreign_)
        if (has_died(peer, now)) {
            died |= peer->ended_since == now;
            if (now - peer->ended_since >= time_to_be_heard && !failure_)
                failure_ = {Status::unreachable, "shmem: process " + std::to_string(peer->card.process) +
                                                     " of another job on this host, which this one is connected with, has died: it "
                                                     "called neither MPI_Comm_disconnect nor MPI_Finalize"};
        }
    if (died)
        close_rings_of_the_dead();
    // Of our own there may be many: a few at a time. Those who died stay in front.
    auto first = std::ranges::find_if(own_, [](const Peer *peer) { return peer->ended_since == never; });
    auto end = first + std::min<std::ptrdiff_t>(own_a_look, own_.end() - first);
    for (auto each = first; each != end; ++each)
        if (has_died(*each, now))
            std::iter_swap(first++, each);
    std::rotate(first, end, own_.end());
    if (!own_.empty() && own_.front()->ended_since != never && now - own_.front()->ended_since >= time_to_be_ended && !failure_)
        failure_ = {Status::unreachable, "shmem: process " + std::to_string(own_.front()->card.process) +
                                             " of this job, on this host, has ended without calling MPI_Finalize"};
}

void Shmem::has_left(std::uint64_t sender)
{
    // It may have come back before we read what it left.
    if (std::ranges::any_of(incoming_, [&](const auto &each) { return each != nullptr && each->identity() == sender; }))
        return;
    bool known = false;
    for (Peer *peer : foreign_)
        if (peer->identity() == sender) {
            // One that has died has not said so itself.
            peer->left = peer->ended_since == never;
            known = true;
        }
    if (known)
        return;
    departed_.push_back(sender);
    if (departed_.size() > most_departed)
        departed_.pop_front();
}

// The file that the card's owner is in: ours, or that of another job.
Result<std::shared_ptr<HostFile>> Shmem::host_of(const Card &card)
{
    if (card.token == host_->token())
        return host_;
    std::weak_ptr<HostFile> &known = other_hosts_[card.token];
    if (auto host = known.lock())
        return host;
    auto host = HostFile::open({card.token, card.process, card.file});
    if (host.ok())
        known = host.value();
    return host;
}

// Of a peer that is still there.
Status Shmem::find_doorbell(Peer *peer)
{
    auto fail = [&](const Error &error) {
        peer->error = error;
        return error.status;
    };
    if (peer->error)
        return peer->error.status;
    int file = peer->host->descriptor();
    // The memory of one that was killed is still there.
    if (process_has_ended(peer->process) || !is_region_of(file, peer->card))
        return fail({Status::unreachable, "shmem: process " + std::to_string(peer->card.process) +
                                              " has ended, or has no channel where its card says"});
    return peer->doorbell.alone() != nullptr ? Status::ok : map_header(peer);
}

Status Shmem::map_header(Peer *peer)
{
    Result<Mapping> mapping = Mapping::create(peer->host->descriptor(), peer->card.region, header_room);
    if (!mapping.ok()) {
        peer->error = mapping.error();
        return peer->error.status;
    }
    peer->header = std::move(mapping.value());
    find_pages(peer->header.data(), sizeof(SegmentHeader));
    // Whoever finds the doorbell finds it mapped.
    peer->doorbell.set(&header_of(peer)->ready);
    return Status::ok;
}

Status Shmem::attach(Peer *peer)
{
    Status status = find_doorbell(peer);
    return status == Status::ok ? open_ring(peer) : status;
}

// A slot for us that has memory: the one that was kept, or another. Slots of a file are kept for the processes of that file.
Result<std::uint32_t> Shmem::find_slot(Peer *peer)
{
    SegmentHeader *header = header_of(peer);
    if (!peer->foreign && take_kept_slot(settings_.region, &header->kept))
        return settings_.region;
    std::uint32_t slot = claim_slot(&header->claimed, header->given_back);
    if (slot >= slot_limit)
        return Error{Status::no_memory, "shmem: process " + std::to_string(peer->card.process) + " is being sent to by " +
                                            std::to_string(slot_limit) + " processes, which is all it has room for"};
    if (Error error = reserve(peer->host->descriptor(), peer->card.region + slot_offset(slot), sizeof(RingMemory<std::atomic>))) {
        give_back_slot(slot, header->given_back);
        return error;
    }
    header->memory.fetch_add(ring_memory(), std::memory_order_relaxed);
    return slot;
}

// Where the peer's header is mapped.
Status Shmem::open_ring(Peer *peer)
{
    auto fail = [&](const Error &error) {
        peer->error = error;
        return error.status;
    };
    SegmentHeader *header = header_of(peer);
    Result<std::uint32_t> found = find_slot(peer);
    if (!found.ok())
        return fail(found.error());
    std::uint32_t slot = found.value();
    std::size_t offset = peer->card.region + slot_offset(slot);
    Result<Mapping> mapping = Mapping::create(peer->host->descriptor(), offset, slot_room);
    if (!mapping.ok()) {
        give_back_slot(slot, header->given_back);
        return fail(mapping.error());
    }
    find_pages(mapping.value().data(), sizeof(RingMemory<std::atomic>));

    auto memory = reinterpret_cast<RingMemory<std::atomic> *>(mapping.value().data());
    peer->slot = std::move(mapping.value());
    peer->bulk_offset = offset + ring_room;
    auto reserve_bulk = [](void *context, std::size_t size) {
        auto self = static_cast<Peer *>(context);
        if (reserve(self->host->descriptor(), self->bulk_offset, size))
            return false;
        std::uint64_t *before = &control_of(self->slot).bulk_memory;
        find_pages(self->slot.data() + ring_room + *before, size - *before);
        header_of(self)->memory.fetch_add(size - *before, std::memory_order_relaxed);
        *before = size;
        return true;
    };
    peer->producer = Producer<std::atomic>(memory, peer->slot.data() + ring_room, BulkReserve{reserve_bulk, peer});
    peer->producer.open({card_.process, is_fenced_, header_->started, header_->probe_address, header_->token});
    peer->producer.has_memory(memory->control.bulk_memory);
    if (!has_plenty_)
        peer->producer.take_at_least(first_limit);
    find_pages(peer->slot.data() + ring_room, memory->control.bulk_memory);
    peer->producer.be_patient(have_cores_ && !peer->foreign);
    peer->bit = ready_bit(slot);
    peer->ready = &header->ready;
    return Status::ok;
}

// Whether we can wake it up: as long as somebody cannot, it does by itself now and then.
void Shmem::note_woken(Peer *peer, bool can)
{
    if (peer->not_woken != can)
        return;
    peer->not_woken = !can;
    header_of(peer)->not_woken.fetch_add(can ? -1u : 1u, std::memory_order_relaxed);
}

// Out of the way of those who find nobody asleep.
[[gnu::noinline]] void Shmem::wake(Peer *peer)
{
    // The sleeper stored its choice before it armed: ring_doorbell() has acquired that.
    SegmentHeader *header = header_of(peer);
    std::int32_t number = header->wake_file.load(std::memory_order_relaxed);
    if (number < 0)
        return futex_wake_all(peer->doorbell.alone());
    std::int32_t process = peer->card.process;
    WakeFile &wake = wake_files_[static_cast<std::uint32_t>(process) % wake_files_.size()];
    if (wake.process != process || wake.number != number) {
        Result<File> opened = open_file_of(process, number);
        if (!opened.ok()) {
            // It is gone, or forbids it, or we have no descriptor left.
            note_woken(peer, false);
            return;
        }
        wake.process = process;
        wake.number = number;
        wake.file = std::move(opened.value());
    }
    note_woken(peer, true);
    // Opened for reading, too: so a pipe whose owner has died is no signal. A full one is as good as one more byte.
    [[maybe_unused]] ssize_t written = write(wake.file.get(), "", 1);
}

int Shmem::open_descriptor()
{
    int ends[2];
    if (wake_reader_.get() < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
        wake_reader_ = File(ends[0]);
        wake_writer_ = File(ends[1]);
        header_->wake_file.store(ends[1], std::memory_order_relaxed);
    }
    return wake_reader_.get();
}

void Shmem::empty_descriptor()
{
    char bytes[64];
    while (read(wake_reader_.get(), bytes, sizeof bytes) == sizeof bytes) {
    }
}

// Of a peer that is attached.
std::byte *Shmem::find_published(Peer *peer, std::uint64_t address, std::size_t size)
{
    const SegmentHeader *header = header_of(peer);
    int file = peer->host->descriptor();
    std::byte *found = peer->heap.find(header->heap, file, peer->card.region + heap_offset, heap_size, address, size);
    return found != nullptr ? found
                            : peer->arena.find(header->arena, file, peer->card.region + arena_offset, arena_size, address, size);
}

void *Shmem::view(Peer *peer, std::uint64_t address, std::size_t size)
{
    if (prepare(peer) != Status::ok)
        return nullptr;
    return find_published(peer, address, size);
}

bool Shmem::pull(Peer *peer, std::uint64_t address, const iovec *pieces, std::size_t count)
{
    std::size_t size = 0;
    for (std::size_t i = 0; i < count; ++i)
        size += pieces[i].iov_len;
    if (prepare(peer) != Status::ok)
        return false;
    const std::byte *source = find_published(peer, address, size);
    if (source == nullptr)
        return shmem::pull(peer->card.process, address, pieces, count);
    for (std::size_t i = 0; i < count; ++i) {
        if (pieces[i].iov_len != 0)
            std::memcpy(pieces[i].iov_base, source, pieces[i].iov_len);
        source += pieces[i].iov_len;
    }
    return true;
}

std::uint32_t Shmem::open_joint(Peer *peer, std::size_t size)
{
    if (peer->not_joint || !JointParts(size).are_few())
        return 0;
    if (++joint_number_ == 0)
        ++joint_number_;
    header_->joint.open(joint_number_);
    return joint_number_;
}

bool Shmem::pull_joint(Peer *peer, std::uint32_t number, std::uint64_t address, void *place, std::size_t size)
{
    const JointParts parts(size);
    const std::uint32_t count = parts.count();
    bool pulled = true;
    std::uint32_t taken = 0;
    for (std::uint32_t part; (part = header_->joint.take(number, count)) != count; ++taken) {
        iovec piece{static_cast<std::byte *>(place) + parts.offset(part), parts.size(part)};
        pulled = pulled && pull(peer, address + parts.offset(part), &piece, 1);
    }
    // It is at its last part, unless somebody has taken its core.
    for (std::uint32_t looks = 1; !header_->joint.finished(count - taken); ++looks) {
        if (looks % looks_before_yield == 0)
            sched_yield();
        if (looks % looks_before_question == 0 && process_has_ended(peer->process))
            return false;
    }
    if (pulled && header_->joint.failed()) [[unlikely]] {
        peer->not_joint = true;
        iovec all{place, size};
        return pull(peer, address, &all, 1);
    }
    return pulled;
}

void Shmem::help_joint(Peer *peer, std::uint32_t number, const void *data, std::uint64_t place, std::size_t size)
{
    JointCopy<std::atomic> &joint = header_of(peer)->joint;
    const JointParts parts(size);
    std::uint32_t part;
    // Its number may be another process's by now, if we have not looked for long.
    bool copied = clock_now() - looked_ < between_looks || !process_has_ended({peer->card.process, header_of(peer)->started});
    for (std::uint32_t turns = 0; copied && turns < parts_a_help && (part = joint.take(number, parts.count())) != parts.count(); ++turns) {
        copied = write_memory(peer, place + parts.offset(part), static_cast<const std::byte *>(data) + parts.offset(part), parts.size(part));
        joint.has_copied(copied);
    }
}

// Nobody will make room at one who is dead.
Status Shmem::full(Peer *peer)
{
    if (peer->ended_since == never)
        return Status::again;
    peer->error = {Status::unreachable, "shmem: process " + std::to_string(peer->card.process) + " has died"};
    return peer->error.status;
}

Status Shmem::send_parts(Peer *peer, const Message &message, SendProgress *progress)
{
    for (unsigned parts = 0; parts < parts_a_call; ++parts) {
        if (!peer->producer.push_part(message, progress)) {
            if (!peer->producer.starved())
                return full(peer);
            peer->error = reserve(peer->host->descriptor(), peer->bulk_offset, first_limit);
            return peer->error ? peer->error.status : Status::again;
        }
        ring(peer);
        if (progress->sent == message.payload.size)
            return Status::ok;
    }
    return Status::again;
}

unsigned Shmem::drain(Incoming *incoming)
{
    unsigned count = 0;
    CellView view;
    while (count < cells_a_drain && incoming->consumer.peek(&view)) {
        if (view.kind == CellKind::small && incoming->left == 0) [[likely]] {
            Envelope envelope{incoming->source, view.header, view.header_size, view.tag};
            sink_.arrived(sink_.context, envelope, view.piece, view.piece_size, view.piece_size);
        } else if (view.kind == CellKind::first && incoming->left == 0) {
            std::size_t piece = std::min(view.piece_size, view.total);
            Envelope envelope{incoming->source, view.header, view.header_size, view.tag};
            incoming->tag = view.tag;
            incoming->cookie = sink_.arrived(sink_.context, envelope, view.piece, piece, view.total);
            incoming->left = view.total - piece;
        } else if (view.kind == CellKind::more && incoming->left != 0) {
            std::size_t piece = std::min(view.piece_size, incoming->left);
            incoming->left -= piece;
            sink_.more(sink_.context, incoming->tag, incoming->cookie, view.piece, piece);
        } else if (sink_.dropped != nullptr) {
            sink_.dropped(sink_.context);  // after the end of a message, in the middle of another, or nothing that there is
        }
        incoming->consumer.pop(view.kind);
        ++count;
    }
    if (count > 0)
        has_heard(incoming, count);
    if (count == cells_a_drain && !(attending_ && incoming == recent_))
        header_->ready.fetch_or(ready_bit(incoming->slot), std::memory_order_relaxed);  // come back
    return count;
}

// Whom we hear again and again is attended to, until we hear others as often, or sleep.
void Shmem::has_heard(Incoming *incoming, unsigned count)
{
    if ((incoming == recent_) == attending_) {
        in_a_row_ = 0;
    } else {
        in_a_row_ += count;
    }
    if (incoming == recent_) {
        if (!attending_ && may_attend_ && in_a_row_ >= cells_before_attending && incoming->consumer.control().producer_is_fenced != 0) {
            incoming->consumer.attend();
            attending_ = true;
            in_a_row_ = 0;
        }
        return;
    }
    if (attending_ && in_a_row_ < cells_before_leaving)
        return;
    leave_recent();
    recent_ = incoming;
    recent_bit_ = header_->claimed.load(std::memory_order_relaxed) <= ready_bits ? ready_bit(incoming->slot) : 0;
    in_a_row_ = 0;
}

void Shmem::leave_recent()
{
    if (!attending_)
        return;
    attending_ = false;
    in_a_row_ = 0;
    if (!leave_ring(&recent_->consumer, &header_->ready, ready_bit(recent_->slot)))
        may_attend_ = is_fenced_ = false;
}

unsigned Shmem::drain_ready(std::uint32_t bits)
{
    unsigned delivered = 0;
    std::uint32_t claimed = std::min(header_->claimed.load(std::memory_order_relaxed), slot_limit);
    while (bits != 0) {
        auto first = static_cast<std::uint32_t>(__builtin_ctz(bits));
        bits &= bits - 1;
        for (std::uint32_t slot = first; slot < claimed; slot += ready_bits) {
            if (Incoming *incoming = incoming_of(slot)) {
                delivered += drain(incoming);
                if (incoming->consumer.finished()) [[unlikely]]
                    give_back(slot);
            }
        }
    }
    return delivered;
}

Shmem::Incoming *Shmem::incoming_of(std::uint32_t slot)
{
    if (slot < incoming_.size() && incoming_[slot] != nullptr) [[likely]]
        return incoming_[slot].get();
    // One that was given back costs no system call; whoever claims it rings later.
    if (header_->given_back[slot / 64].load(std::memory_order_relaxed) >> slot % 64 & 1)
        return nullptr;
    bool kept = slot < kept_.size() && kept_[slot].data() != nullptr;
    if (kept ? !is_open(control_of(kept_[slot])) : !slot_is_open(host_->descriptor(), card_.region, slot))
        return nullptr;  // not yet: its bit comes later
    Result<Mapping> mapping = kept ? std::move(kept_[slot]) : Mapping::create(host_->descriptor(), card_.region + slot_offset(slot), slot_room);
    if (!mapping.ok()) {
        // Tried again, until somebody looks whether all is well.
        unmapped_ = {mapping.error().status, "shmem: what another process of this host sends cannot be received: " + mapping.error().text};
        header_->ready.fetch_or(ready_bit(slot), std::memory_order_relaxed);
        return nullptr;
    }
    unmapped_ = {};
    if (!is_open(control_of(mapping.value())))
        return nullptr;
    auto memory = reinterpret_cast<RingMemory<std::atomic> *>(mapping.value().data());
    auto incoming = std::make_unique<Incoming>();
    incoming->slot = slot;
    incoming->consumer = Consumer<std::atomic>(memory, mapping.value().data() + ring_room);
    incoming->mapping = std::move(mapping.value());
    const auto &control = incoming->consumer.control();
    if (auto known = sources_.find(incoming->identity()); known != sources_.end())
        incoming->source = known->second;
    if (control.pull_works.load(std::memory_order_relaxed) == 0)
        incoming->consumer.report_pull_works(
            pull_works(control.producer_process, control.producer_probe_address, control.producer_probe_value));
    incoming->foreign = is_foreign(incoming->identity());
    if (incoming->foreign) {
        incoming->process = confirmed({control.producer_process, control.producer_started});
        for (Peer *peer : foreign_)
            if (peer->identity() == incoming->identity())
                peer->left = false;
        std::erase(departed_, incoming->identity());
    }
    if (slot >= incoming_.size())
        incoming_.resize(slot + 1);
    incoming_[slot] = std::move(incoming);
    return incoming_[slot].get();
}

// Its sender has closed it, or has died, and all that it sent is delivered.
void Shmem::give_back(std::uint32_t slot)
{
    std::unique_ptr<Incoming> incoming = std::move(incoming_[slot]);
    const auto &control = incoming->consumer.control();
    std::size_t memory = ring_memory() + std::min<std::size_t>(control.bulk_memory, bulk_size);
    if (incoming->foreign && !incoming->died)
        has_left(incoming->identity());
    if (recent_ == incoming.get()) {
        recent_ = nullptr;
        recent_bit_ = 0;
        attending_ = false;
    }
    // Memory that stays is cleared instead.
    if (!give_up(host_->descriptor(), card_.region + slot_offset(slot), slot_room))
        std::memset(static_cast<void *>(incoming->mapping.data()), 0, sizeof(RingMemory<std::atomic>));
    header_->memory.fetch_sub(memory, std::memory_order_relaxed);
    give_back_slot(slot, header_->given_back);
}

std::size_t Shmem::senders() const
{
    return static_cast<std::size_t>(std::ranges::count_if(incoming_, [](const auto &each) { return each != nullptr; }));
}

std::size_t Shmem::memory_in_use() const
{
    return header_->memory.load(std::memory_order_relaxed);
}

}  // namespace pm::shmem

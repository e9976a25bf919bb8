#include "shmmod/host_file.h"

#include <errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <new>
#include <string>

namespace pm::shmem {
namespace {

constexpr std::uint64_t file_magic = 0x31656c6966706d63;  // changes with the layout
constexpr std::size_t card_room = 4096 + 64;              // of each; most are much shorter
constexpr std::size_t cards_offset = header_room;

bool read_all(int file, void *place, std::size_t size, std::size_t offset)
{
    auto bytes = static_cast<std::byte *>(place);
    while (size > 0) {
        ssize_t got = pread(file, bytes, size, static_cast<off_t>(offset));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        bytes += got;
        offset += static_cast<std::size_t>(got);
        size -= static_cast<std::size_t>(got);
    }
    return true;
}

Error write_all(int file, const void *place, std::size_t size, std::size_t offset)
{
    auto bytes = static_cast<const std::byte *>(place);
    while (size > 0) {
        ssize_t put = pwrite(file, bytes, size, static_cast<off_t>(offset));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return system_error("shared memory: writing the card of a rank", put < 0 ? errno : ENOSPC);
        bytes += put;
        offset += static_cast<std::size_t>(put);
        size -= static_cast<std::size_t>(put);
    }
    return {};
}

std::size_t regions_offset(std::uint32_t ranks)
{
    return cards_offset + detail::round_up(ranks * card_room, header_room);
}

}  // namespace

Result<std::shared_ptr<HostFile>> HostFile::create(Backing backing, std::uint32_t regions, std::uint32_t ranks)
{
    Result<File> file = create_nameless_file(backing, regions_offset(ranks) + regions * region_room);
    if (!file.ok())
        return file.error();
    if (Error error = reserve(file.value().get(), 0, sizeof(Header)))
        return error;
    Result<Mapping> mapping = Mapping::create(file.value().get(), 0, header_room);
    if (!mapping.ok())
        return mapping.error();
    std::shared_ptr<HostFile> host(new HostFile);
    host->file_ = std::move(file.value());
    host->mapping_ = std::move(mapping.value());
    host->process_ = getpid();
    host->ranks_ = ranks;
    if (getrandom(&host->token_, sizeof host->token_, 0) != sizeof host->token_)
        return system_error("getrandom", errno);
    auto header = new (host->mapping_.data()) Header{};
    header->magic = file_magic;
    header->token = host->token_;
    header->ranks = ranks;
    return host;
}

Result<std::shared_ptr<HostFile>> HostFile::open(const HostFileName &name)
{
    Result<File> file = open_file_of(name.process, name.file);
    if (!file.ok())
        return file.error();
    // By reading, not by mapping: whatever else has that number by now may be shorter.
    Header header{};
    constexpr std::size_t fixed_part = offsetof(Header, used);
    if (!read_all(file.value().get(), static_cast<void *>(&header), fixed_part, 0) || header.magic != file_magic ||
        header.token != name.token)
        return Error{Status::unreachable, "shmem: descriptor " + std::to_string(name.file) + " of process " +
                                              std::to_string(name.process) + " is not its channel"};
    Result<Mapping> mapping = Mapping::create(file.value().get(), 0, regions_offset(header.ranks));
    if (!mapping.ok())
        return mapping.error();
    std::shared_ptr<HostFile> host(new HostFile);
    host->file_ = std::move(file.value());
    host->mapping_ = std::move(mapping.value());
    host->token_ = name.token;
    host->process_ = getpid();
    host->ranks_ = header.ranks;
    return host;
}

std::size_t HostFile::region(std::uint32_t index) const
{
    return regions_offset(ranks_) + index * region_room;
}

Error HostFile::put_card(std::uint32_t rank, std::span<const std::byte> card)
{
    if (rank >= ranks_ || card.size() > card_room - sizeof(Entry))
        return {Status::invalid, "shared memory: rank " + std::to_string(rank) + " has no room for a card of " +
                                     std::to_string(card.size()) + " bytes"};
    // Whoever reads does so after a barrier of the process manager: nothing is ordered by this.
    std::uint32_t offset = header().used.fetch_add(static_cast<std::uint32_t>(card.size()), std::memory_order_relaxed);
    if (Error error = write_all(file_.get(), card.data(), card.size(), cards_offset + table_size() + offset))
        return error;
    Entry entry{1, static_cast<std::uint32_t>(card.size()), offset};
    return write_all(file_.get(), &entry, sizeof entry, cards_offset + rank * sizeof entry);
}

Result<std::vector<std::span<const std::byte>>> HostFile::cards()
{
    std::size_t used = header().used.load(std::memory_order_relaxed);
    if (used > ranks_ * card_room)
        return Error{Status::failed, "shared memory: the cards of the ranks are more than there is room for"};
    read_.resize(table_size() + used);
    if (!read_all(file_.get(), read_.data(), read_.size(), cards_offset))
        return Error{Status::failed, "shared memory: the cards of the ranks could not be read"};
    std::vector<std::span<const std::byte>> cards(ranks_);
    for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
        Entry entry;
        std::memcpy(&entry, read_.data() + rank * sizeof entry, sizeof entry);
        if (entry.there == 1 && entry.offset <= used && entry.size <= used - entry.offset)
            cards[rank] = std::span(std::as_const(read_)).subspan(table_size() + entry.offset, entry.size);
    }
    return cards;
}

}  // namespace pm::shmem

// What processes tell each other apart from an engine's messages: headers of messages to be matched, greetings, the pieces of a report and the report, cards. And what
// a user tells them: descriptions of networks, as they are and made of the words of one.
#include <cstring>
#include <iterator>
#include <vector>

#include "ch4/netmod/composite_decode.h"
#include "fuzz/fuzz.h"
#include "netmod/report/report.h"
#include "netmod/routing/card.h"
#include "netmod/routing/networks.h"
#include "profile/profile.h"

namespace pm::fuzz {
namespace {

void read_report(std::span<const std::byte> bytes)
{
    auto read = unpack(bytes);
    if (!read.ok())
        return;
    Report report;
    report.finished = true;
    report.processes.push_back(std::move(read.value()));
    for (const std::string &text : {to_text(report), to_json(report), to_html(report)})
        touch(text.data(), text.size());
}

void read_profile(std::span<const std::byte> bytes)
{
    auto read = profile::unpack(bytes);
    if (!read.ok())
        return;
    profile::Profile all{.processes = {read.value(), read.value()}, .command = {}, .started = 0};
    for (const std::string &text : {to_text(all), to_json(all), to_html(all)})
        touch(text.data(), text.size());
}

void read_card(std::span<const std::byte> bytes)
{
    auto card = Card::read(bytes);
    if (!card)
        return;
    std::vector<std::byte> written = card->write();
    require(written.size() > Card::max_size || Card::read(written), "a card that was read is written as none");
}

void read_description(const std::string &text)
{
    auto networks = parse_networks(text, "here");
    if (!networks.ok()) {
        require(networks.error().text.starts_with("here"), "an error that does not say where: " + networks.error().text);
        return;
    }
    require(!networks.value().empty() && networks.value().size() <= networks_max, "no networks, or too many");
    for (const NetworkDescription &each : networks.value()) {
        require(!each.name.empty(), "a network without a name");
        require(each.priority >= 0 && each.priority <= priority_max, "a priority that is not allowed");
        require(each.device == DeviceKind::udp || each.device == DeviceKind::ucx, "a network of no device");
    }
    Port lan{DeviceKind::udp, "lan", {}, ""}, fabric{DeviceKind::ucx, "mlx5_0:1", {}, "ib fe80"};
    auto here = networks_of_host(networks.value(), {lan, fabric}, "n1.example");
    if (here.ok())
        require(here.value().size() <= networks.value().size(), "more networks than are described");
}

std::string make_description(Choices &choices)
{
    static const char *const words[] = {"network ", "san-a ", "lan ", "ucx ", "udp ", "shmem ", "10.1.0.0/24 ", "10.1.0.0/33 ", "fd00:5::/64 ",
                                        "::/0 ", "priority ", "30 ", "-1 ", "1001 ", "99999999999999999999 ", "hosts ", "n* ", "n1,?2,login ", ", ",
                                        "mlx5_0:1 ", "\n", ";", "# ", "\t", "/24 ", ""};
    std::string text = choices.one_in(2) ? "network a udp " : "";
    for (int count = 0; choices.any() && count < 200; ++count)
        text += words[choices.byte() % std::size(words)];
    return text;
}

// What is let through names only what there is.
void read_headers(std::span<const std::byte> bytes)
{
    constexpr std::size_t limit = 16384;
    constexpr int bits = 20;
    MPIDI_COMPOSITE_short_header_t header;
    if (bytes.size() >= sizeof header) {
        std::memcpy(&header, bytes.data(), sizeof header);
        if (MPIDI_COMPOSITE_may_be_short(&header, bytes.size() - sizeof header, limit, bits))
            require(bytes.size() - sizeof header <= limit && header.context < 1u << bits, "a short message that is too long, or of no communicator");
    }
    MPIDI_COMPOSITE_announced_t announced;
    if (MPIDI_COMPOSITE_may_be_announced(bytes.data(), bytes.size())) {
        require(bytes.size() == sizeof announced, "an announcement of another size");
        std::memcpy(&announced, bytes.data(), sizeof announced);
        require((announced.address & MPIDI_COMPOSITE_IS_OFFER) == 0, "a peer offers what only our core can");
    }
    MPIDI_COMPOSITE_help_t help;
    if (bytes.size() >= sizeof help) {
        std::memcpy(&help, bytes.data(), sizeof help);
        if (MPIDI_COMPOSITE_may_be_helped(&help, limit))
            require(help.size <= limit && help.joint != 0, "more help than there are bytes, or with nothing");
    }
    MPIDI_COMPOSITE_part_init_t init;
    if (bytes.size() >= sizeof init) {
        std::memcpy(&init, bytes.data(), sizeof init);
        if (MPIDI_COMPOSITE_may_be_part_init(&init, bits))
            require(init.number != 0 && init.context < 1u << bits && init.source >= 0 && init.tag >= 0, "partitions of nothing that there is");
    }
    MPIDI_COMPOSITE_part_pull_t pull;
    if (bytes.size() >= sizeof pull) {
        std::memcpy(&pull, bytes.data(), sizeof pull);
        if (MPIDI_COMPOSITE_may_be_part(pull.offset, pull.size, limit))
            require(pull.offset <= limit && pull.offset + pull.size <= limit, "bytes that are not within the partitions");
    }
}

// Headers of MPICH's generic layer, which would assert or believe what is let through: that a message fits its buffer, and an announcement is one that
// there is.
void read_generic(Choices &choices)
{
    constexpr std::size_t limit = 16384;
    while (choices.any()) {
        const std::uint8_t kinds = choices.byte();
        std::vector<std::byte> behind(choices.one_in(2) ? sizeof(MPIDI_COMPOSITE_announced_t) : choices.byte() % 32);
        for (std::byte &each : behind)
            each = static_cast<std::byte>(choices.byte());
        const std::size_t whole = choices.one_in(2) ? 0 : choices.number(limit);
        const MPIDI_COMPOSITE_generic_t header{(kinds & 1) != 0, (kinds & 2) != 0, (kinds & 4) != 0,
                                               static_cast<std::int64_t>(choices.one_in(2) ? whole : choices.number(limit)),
                                               static_cast<std::int64_t>(choices.one_in(2) ? behind.size() : choices.number(32))};
        if (!MPIDI_COMPOSITE_may_be_generic(&header, whole, limit, behind.data(), behind.size()))
            continue;
        require(header.data_size >= 0, "a message of less than nothing");
        if (!header.is_announced) {
            std::vector<char> buffer(limit);
            std::memset(buffer.data(), 1, static_cast<std::size_t>(header.data_size));
            require(static_cast<std::size_t>(header.data_size) == whole, "more or fewer bytes than came");
        } else if (header.is_pulled) {
            MPIDI_COMPOSITE_announced_t announced;
            require(behind.size() == sizeof announced && whole == 0, "an announcement without its address, or with bytes");
            std::memcpy(&announced, behind.data(), sizeof announced);
            require((announced.address & MPIDI_COMPOSITE_IS_OFFER) == 0, "a peer offers what only our core can");
        } else {
            require(header.is_generic && behind.empty() && whole == 0, "a rendezvous of a kind that there is not");
        }
    }
}

void gather(Choices &choices)
{
    constexpr int ranks = 3;
    MPIDI_COMPOSITE_description_t all[ranks] = {};
    for (int count = 0; choices.any() && count < 40; ++count) {
        MPIDI_COMPOSITE_piece_t piece{choices.byte() % 4, choices.byte(), choices.byte() % 32};
        std::size_t size = static_cast<std::size_t>(piece.size);
        if (choices.one_in(4))
            piece.whole = static_cast<int>(choices.number(255));
        if (choices.one_in(4))
            piece.size = static_cast<int>(choices.number(255));
        std::vector<char> message(sizeof piece + size);
        std::memcpy(message.data(), &piece, sizeof piece);
        MPIDI_COMPOSITE_piece_t read;
        if (piece.whole > 1 << 20 || !MPIDI_COMPOSITE_read_piece(message.data(), message.size(), ranks, &read))
            continue;
        MPIDI_COMPOSITE_description_t &one = all[read.rank];
        MPIDI_COMPOSITE_add_piece(&one, &read, message.data() + sizeof read);
        require(one.received <= one.whole, "more than there is to come");
    }
    for (MPIDI_COMPOSITE_description_t &one : all)
        std::free(one.bytes);
}

}  // namespace
}  // namespace pm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size)
{
    using namespace pm::fuzz;
    std::vector<std::byte> exact(size);
    if (size != 0)
        std::memcpy(exact.data(), data, size);
    MPIDI_COMPOSITE_greeting_t greeting;
    if (MPIDI_COMPOSITE_read_greeting(exact.data(), size, &greeting))
        touch(exact.data() + sizeof greeting, static_cast<std::size_t>(greeting.size));
    read_headers(exact);
    read_report(exact);
    read_profile(exact);
    read_card(exact);
    read_description({reinterpret_cast<const char *>(data), size});
    Choices choices(data, size), words(data, size), headers(data, size);
    gather(choices);
    read_generic(headers);
    read_description(make_description(words));
    return 0;
}

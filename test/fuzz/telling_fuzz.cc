// What processes tell each other apart from an engine's messages: greetings, the pieces of a report and the report, cards.
#include <cstring>
#include <vector>

#include "ch4/netmod/composite_decode.h"
#include "fuzz/fuzz.h"
#include "netmod/report/report.h"
#include "netmod/routing/card.h"
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
    read_report(exact);
    read_profile(exact);
    read_card(exact);
    Choices choices(data, size);
    gather(choices);
    return 0;
}

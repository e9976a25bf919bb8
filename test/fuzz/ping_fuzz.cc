// Pings of any content, by which networks are measured before anybody is connected: their headers have any length and their payload should not
// be there. What is too short is dropped, and what strangers say of networks that there are not takes no more room than a table of networks has.
#include <cstring>
#include <vector>

#include "fuzz/fuzz.h"
#include "netmod/core/handlers.h"
#include "netmod/core/state.h"
#include "support/core_setup.h"

namespace pm::fuzz {
namespace {

constexpr std::size_t whole = 16, longest = 64;  // of a ping, and of what is sent as one

// One receiver for all inputs, which is also who sends.
class Target {
  public:
    Target()
    {
        pm_setup setup = test::plain_setup();
        setup.devices = "shmem";
        require((core_ = pm_open(&setup)) != nullptr && pm_measure_open(core_) == PM_OK, pm_error_text());
        char card[PM_CARD_MAX];
        require((self_ = pm_connect(core_, card, pm_card(core_, card))) != nullptr, pm_error_text());
    }

    void play(Choices &choices)
    {
        core_->pings.clear();
        std::vector<std::byte> payload(100'000);
        for (int count = 0; choices.any() && count < 100; ++count) {
            std::vector<std::byte> header(longest);
            std::size_t length = choices.one_in(4) ? choices.byte() % longest : whole;
            std::uint64_t network = choices.number(PM_NETWORKS_MAX);
            auto number = static_cast<std::int32_t>(choices.number(41));
            std::memcpy(header.data(), &network, sizeof network);
            std::memcpy(header.data() + sizeof network, &number, sizeof number);
            std::size_t size = choices.one_in(4) ? choices.word() : 0;
            auto known = core_->pings;
            require(pm_send(self_, PM_PING_TAG, header.data(), length, payload.data(), size, nullptr) != PM_FAILED, pm_error_text());
            for (int tries = 0; pm_progress(core_) != 0 || pm_sends_queued(core_); ++tries)
                require(tries < 10'000, "it never arrives");
            check(known, network, number, length >= whole);
        }
    }

  private:
    using Pings = decltype(pm_core::pings);
    void check(const Pings &known, std::uint64_t network, std::int32_t number, bool is_whole)
    {
        Pings expected = known;
        if (is_whole && (known.size() < PM_NETWORKS_MAX || known.contains(network)))
            expected[network] = number;
        require(core_->pings == expected, is_whole ? "a ping that was not noted as it came" : "what is no ping was noted");
        require(core_->pings.size() <= PM_NETWORKS_MAX, "strangers fill our memory");
    }

    pm_core *core_ = nullptr;
    pm_peer *self_ = nullptr;
};

}  // namespace
}  // namespace pm::fuzz

PM_FUZZ_WITH_ONE(pm::fuzz::Target)

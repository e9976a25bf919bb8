// Whoever finds the port of a worker but does not have its card sends nothing to anybody.
#include <cstring>

#include "conform/ucx_kit.h"
#include "netmod/ucx/operation.h"

namespace pm::conform {
namespace {

int arrivals;

void *arrived(void *, const Envelope &, void *, std::size_t, std::size_t)
{
    ++arrivals;
    return nullptr;
}

// UCX by itself, with a connection to the worker that a card names.
class Stranger {
  public:
    explicit Stranger(std::span<const std::byte> card)
    {
        ucp_params_t params{};
        params.field_mask = UCP_PARAM_FIELD_FEATURES;
        params.features = UCP_FEATURE_AM;
        EXPECT_EQ(ucp_init(&params, nullptr, &context_), UCS_OK);
        ucp_worker_params_t worker{};
        EXPECT_EQ(ucp_worker_create(context_, &worker, &worker_), UCS_OK);
        constexpr std::size_t head = 12;  // of the card, in front of the address
        ucp_ep_params_t endpoint{};
        endpoint.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS;
        endpoint.address = reinterpret_cast<const ucp_address_t *>(card.data() + head);
        EXPECT_EQ(ucp_ep_create(worker_, &endpoint, &endpoint_), UCS_OK);
    }
    ~Stranger()
    {
        ucp_worker_destroy(worker_);
        ucp_cleanup(context_);
    }
    Stranger(const Stranger &) = delete;
    Stranger &operator=(const Stranger &) = delete;

    // All of it has left when the answer is true.
    template <class Poll>
    bool send(std::span<const std::byte> header, Poll poll)
    {
        ucp_request_param_t none{};
        void *request = ucp_am_send_nbx(endpoint_, 0, header.data(), header.size(), nullptr, 0, &none);
        return wait(request, poll) && wait(ucp_ep_flush_nbx(endpoint_, &none), poll);
    }

  private:
    template <class Poll>
    bool wait(void *request, Poll poll)
    {
        if (!UCS_PTR_IS_PTR(request))
            return !UCS_PTR_IS_ERR(request);
        ucs_status_t status;
        while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS) {
            ucp_worker_progress(worker_);
            poll();
        }
        ucp_request_free(request);
        return status == UCS_OK;
    }

    ucp_context_h context_ = nullptr;
    ucp_worker_h worker_ = nullptr;
    ucp_ep_h endpoint_ = nullptr;
};

template <class Kit>
struct CountKit : Kit {
    static Result<std::unique_ptr<ucx::Ucx>> create(const Sink &) { return ucx::Ucx::create({}, {nullptr, arrived}); }
};

template <class Kit>
class UcxStrangers : public Team<CountKit<Kit>> {};
TYPED_TEST_SUITE(UcxStrangers, UcxKits, KitNames);

// The receiver has met its peer, whose number is therefore right in what is forged.
TYPED_TEST(UcxStrangers, AreNotHeard)
{
    this->run(2, [](auto &self) {
        arrivals = 0;
        auto *peer = self.connect(1 - self.number);
        int header = 0;
        Message message{9, &header, sizeof header, {}};
        SendProgress progress;
        while (self.device().try_send(peer, message, &progress) == Status::again)
            self.poll();
        self.poll_until([&] { return arrivals == 1; });
        self.meet_polling();
        if (self.number == 0) {
            Stranger stranger({self.board.cards[1], self.board.card_sizes[1]});
            auto poll = [&] { self.poll(); };
            for (std::uint64_t secret : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x123456789abcdef}}) {
                struct {
                    ucx::Prefix prefix;
                    int header = 0;
                } forged{{9, false, {}, 0, secret}};
                EXPECT_TRUE(stranger.send(std::as_bytes(std::span(&forged, 1)), poll));
            }
            std::byte brief[8]{std::byte{9}};  // shorter than any
            EXPECT_TRUE(stranger.send(brief, poll));
            self.meet_polling();
        } else {
            self.poll_until([&] { return self.device().aliens() + static_cast<unsigned>(arrivals) > 3; });
            EXPECT_EQ(arrivals, 1);
            EXPECT_EQ(self.device().aliens(), 3u);
            self.meet_polling();
        }
    });
}

}  // namespace
}  // namespace pm::conform

// PM(UCX) under the conformance suite, and what its questions do.
#include "conform/conformance.h"
#include "conform/ucx_kit.h"

namespace pm::conform {
namespace {

PM_CONFORMANCE(Ucx, UcxKits);
INSTANTIATE_TYPED_TEST_SUITE_P(Ucx, DeathNoticed, UcxKitsThatNoticeDeath, KitNames);

int arrivals;

void *arrived(void *, const Envelope &, void *, std::size_t, std::size_t)
{
    ++arrivals;
    return nullptr;
}

template <class Kit>
struct CountKit : Kit {
    static Result<std::unique_ptr<ucx::Ucx>> create(const Sink &) { return ucx::Ucx::create({}, {nullptr, arrived}); }
};

template <class Kit>
class UcxAsks : public Team<CountKit<Kit>> {};
TYPED_TEST_SUITE(UcxAsks, UcxKits, KitNames);

// A question is for the kernel of the other host: the process there gets nothing, and polls as if nothing had come.
TYPED_TEST(UcxAsks, ThePeerDoesNotNotice)
{
    this->run(2, [](auto &self) {
        arrivals = 0;
        auto *peer = self.connect(1 - self.number);
        int header = 0;
        Message message{9, &header, sizeof header, {}};
        auto send = [&] {
            SendProgress progress;
            while (self.device().try_send(peer, message, &progress) == Status::again)
                self.poll();
        };
        send();
        self.poll_until([&] { return arrivals == 1 && self.device().idle(); });
        self.meet_polling();
        if (self.number == 0) {
            for (int i = 0; i < 100; ++i) {
                self.device().ask(peer);
                self.poll();
            }
            send();
            self.poll_until([&] { return self.device().idle(); });
        } else {
            unsigned done = 0;
            while (arrivals < 2)
                done += self.poll();
            EXPECT_EQ(done, 1u);
        }
        EXPECT_EQ(self.device().failure(), nullptr);
        self.meet_polling();
    });
}

}  // namespace
}  // namespace pm::conform

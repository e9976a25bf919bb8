// The end of a session. Rank 0 asks every rank, again and again, how many messages it has sent and received; a rank answers when it has
// called finish() and has nothing to run. When two rounds find the same, and as many received as sent, nothing is on the way any more:
// nothing happened between the answers of the first round and the questions of the second.
#include "runtime.hh"

namespace composite {

struct Finishing {
    using Counts = std::pair<std::int64_t, std::int64_t>;

    // No item was posted between the two sums, and in between every worker had nothing to do and no method waited for a window: one that
    // went on in between was posted for that.
    static bool idle(const Runtime &runtime, const Worker *besides)
    {
        auto posted = [&] {
            std::int64_t sum = 0;
            for (const auto &each : runtime.workers_)
                sum += each->posted();
            return sum;
        };
        const std::int64_t before = posted();
        for (const auto &each : runtime.workers_)
            if (each.get() == besides ? !each->empty() : !each->idling())
                return false;
        // [J8] sees what was posted for those who go on; pairs with [J7].
        return runtime.held_.load(std::memory_order_acquire) == 0 && posted() == before;
    }

    static void count(Worker &worker, int, Reader &from, Answer &answer)
    {
        const auto round = from.value<std::uint64_t>();
        Runtime &runtime = worker.runtime;
        while (runtime.entered_.load(std::memory_order_acquire) < round)
            runtime.finishing_.wait_unless([&] { return runtime.entered_.load(std::memory_order_acquire) >= round; });
        while (!idle(runtime, &worker))
            worker.yield();
        const Runtime::Counts counts = runtime.counts();
        answer.value(Counts{counts.sent, counts.received});
    }

    static void end(Worker &worker, int, Reader &from, Answer &)
    {
        worker.runtime.finished_.store(from.value<std::uint64_t>(), std::memory_order_release);
        worker.runtime.finishing_.wake_all();
    }

    static Counts ask_all(Runtime &runtime, std::uint64_t round, std::uint32_t service)
    {
        std::vector<Future<Counts>> answers;
        Writer writer;
        writer.value(round);
        for (int rank = 0; rank < runtime.size(); ++rank) {
            auto state = std::make_shared<AwaitedValue<Counts>>();
            runtime.ask(rank, service, writer, state, false, true);
            answers.emplace_back(std::move(state));
        }
        Counts sum{0, 0};
        for (auto &each : answers) {
            try {
                const Counts counts = each.get();
                sum.first += counts.first;
                sum.second += counts.second;
            } catch (const Error &) {
                // That rank is gone. The numbers of the others will never be equal, but they come to rest.
            }
        }
        return sum;
    }
};

namespace {
const std::uint32_t count_service = Runtime::add_service("count messages", Finishing::count);
const std::uint32_t end_service = Runtime::add_service("end", Finishing::end);
}  // namespace

void Runtime::finish()
{
    const std::uint64_t round = entered_.load(std::memory_order_relaxed) + 1;
    entered_.store(round, std::memory_order_release);
    finishing_.wake_all();
    if (rank_ == 0) {
        bool some_lost = false;
        for (Finishing::Counts before{-1, -1}, now;; before = now) {
            now = Finishing::ask_all(*this, round, count_service);
            for (int rank = 0; rank < size_; ++rank)
                some_lost = some_lost || peers_[rank].lost.load(std::memory_order_acquire);
            if (now == before && (now.first == now.second || some_lost))
                break;
        }
        Writer writer;
        writer.value(round);
        for (int rank = size_ - 1; rank >= 0; --rank) {
            try {
                ask(rank, end_service, writer, nullptr, false, true);
            } catch (const Error &) {
            }
        }
    }
    const auto over = [&] {
        return finished_.load(std::memory_order_acquire) >= round || peers_[0].lost.load(std::memory_order_acquire);
    };
    while (!over())
        finishing_.wait_unless(over);
    if (finished_.load(std::memory_order_acquire) < round)
        throw Error("rank 0 is gone, which would have told when all ranks have finished");
}

}  // namespace composite

// Objects, MPI and MPIX_ functions in one program, on any number of ranks. Usage: basics [--workers N]
#include "session.h"

#include <list>
#include <numeric>
#include <vector>

using composite::Ref;

namespace {

struct Account {
    explicit Account(const std::string &owner) : owner(owner) {}
    long pay(long amount)
    {
        if (balance + amount < 0)
            throw std::runtime_error(owner + " has only " + std::to_string(balance));
        return balance += amount;
    }
    long move_to(Ref<Account> other, long amount)
    {
        pay(-amount);
        return other.now(&Account::pay, amount);
    }
    double sum(std::span<const double> numbers) { return std::accumulate(numbers.begin(), numbers.end(), 0.0); }
    composite::Buffer reversed(composite::Buffer bytes)
    {
        std::reverse(bytes.data(), bytes.data() + bytes.size());
        return bytes;
    }
    std::string owner;
    long balance = 0;
};
COMPOSITE_TYPE(Account, (std::string), pay, move_to, sum, reversed)

}  // namespace

int main(int count, char **values)
{
    Started started(count, values);
    composite::Session session(MPI_COMM_WORLD, started.options);
    const int rank = session.rank(), size = session.size();
    const int next = (rank + 1) % size;

    // Every rank talks to an object on the next one, while others do the same.
    auto account = composite::create<Account>(next, "rank " + std::to_string(rank));
    EXPECT(account.rank == next);
    for (int i = 0; i < 1000; ++i)
        account.past(&Account::pay, 1);
    EXPECT(account.now(&Account::pay, 0) == 1000);
    auto mine = composite::create<Account>(rank, "me");
    EXPECT(mine.now(&Account::pay, 5) == 5);
    EXPECT(account.now(&Account::move_to, mine, 1000) == 1005);
    EXPECT(fails_with("has only 0", [&] { account.now(&Account::move_to, mine, 1); }));
    for (const std::size_t n : {0, 10, 1000, 100000, 1000000}) {
        const std::vector<double> numbers(n, 0.5);
        EXPECT(account.now(&Account::sum, numbers) == 0.5 * static_cast<double>(n));
        composite::Buffer bytes(n);
        for (std::size_t i = 0; i < n; ++i)
            bytes.data()[i] = static_cast<std::byte>(i);
        auto back = account.now(&Account::reversed, std::move(bytes));
        EXPECT(back.size() == n);
        for (std::size_t i = 0; i < n; ++i)
            EXPECT(back.data()[i] == static_cast<std::byte>(n - 1 - i));
    }
    auto trap = account.trap(&Account::pay, 7);
    EXPECT(*trap == 7);

    // MPI beside it: other ranks are served meanwhile, inside these calls and by finish().
    session.finish();
    int sum = 0;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT(sum == size * (size - 1) / 2);
    std::vector<MPIX_Bitmap> others(static_cast<std::size_t>(MPIX_BITMAP_WORDS(size)), 0);
    for (int i = 0; i < size; ++i)
        MPIX_Bitmap_set(others.data(), i);
    volatile int all_here = 0;
    MPIX_Barrier_start(MPI_COMM_WORLD, &all_here);
    account.past(&Account::pay, 3);
    MPIX_Barrier_wait(MPI_COMM_WORLD, &all_here);
    EXPECT(account.now(&Account::pay, 0) == 10);
    // Nobody goes on to a call of MPI that waits while another still needs its objects.
    session.finish();
    if (size > 1 && rank == 0) {
        MPIX_Bitmap_clear(others.data(), 0);
        MPIX_Mcast(&sum, 1, MPI_INT, others.data(), 5, MPI_COMM_WORLD);
    } else if (size > 1) {
        int got = -1;
        MPIX_Mcast_recv(&got, 1, MPI_INT, 0, 5, MPI_COMM_WORLD, nullptr, MPI_STATUS_IGNORE);
        EXPECT(got == sum);
    }

    const composite::Event go("go"), stop("stop");
    auto waiting = go.waiting();
    if (rank == size - 1)
        go.set();
    waiting.get();
    go.wait();
    EXPECT(!stop.is_set());

    account.destroy();
    EXPECT(fails_with("gone", [&] { account.now(&Account::pay, 1); }));
    session.finish();
    if (rank == 0)
        std::printf("all is well on %d ranks\n", size);
}

// An object that sends without end to one that is slow: neither rank may need more memory for it than a few times the window.
// Usage: flood [--messages N] [--workers N]
#include "session.h"

#include <unistd.h>

using namespace composite;

namespace {

// Bytes of memory that this process has now.
long resident()
{
    long pages = 0;
    if (FILE *file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        std::fclose(file);
    }
    return pages * sysconf(_SC_PAGESIZE);
}

struct Slow {
    void hear(long number)
    {
        wrong += number != next++;
        for (int i = 0; i < 200; ++i)
            asm volatile("");
        most = std::max(most, resident_now_and_then());
    }
    long resident_now_and_then() { return next % 1000 == 0 ? resident() : 0; }
    std::tuple<long, long, long> result() { return {next, wrong, most}; }
    long next = 0, wrong = 0, most = 0;
};
COMPOSITE_TYPE(Slow, (), hear, result)

struct Source {
    long flood(Ref<Slow> to, long first, long messages)
    {
        long most = 0;
        for (long i = first; i < first + messages; ++i) {
            to.past(&Slow::hear, i);
            if (i % 1000 == 0)
                most = std::max(most, resident());
        }
        return most;
    }
};
COMPOSITE_TYPE(Source, (), flood)

}  // namespace

int main(int count, char **values)
{
    Started started(count, values);
    const long messages = argument(count, values, "--messages", 1000000);
    Session session(MPI_COMM_WORLD, started.options);
    if (session.rank() == 0) {
        const int last = session.size() - 1;
        auto slow = create<Slow>(last);
        auto source = create<Source>(0);
        source.now(&Source::flood, slow, 0, 1000);
        const long before_here = resident(), before_there = std::get<2>(slow.now(&Slow::result));
        const long most_here = source.now(&Source::flood, slow, 1000, messages);
        std::tuple<long, long, long> result;
        do
            result = slow.now(&Slow::result);
        while (std::get<0>(result) < messages + 1000);
        const auto [heard, wrong, most_there] = result;
        EXPECT(wrong == 0);
        const long here = (most_here - before_here) / 1024, there = (most_there - before_there) / 1024;
        std::printf("%ld messages in order, %ld KiB more here, %ld KiB more there\n", heard, here, there);
        EXPECT(heard == messages + 1000);
        EXPECT(here < 64 * 1024 && there < 64 * 1024);
    }
    session.finish();
}

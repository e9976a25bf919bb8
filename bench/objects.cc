// Messages between objects (composite/objects.hh), against MPI in the same run, and what the library stands on. Two ranks.
//
//   mpi_one_way, past       half of a round trip, MPI_Send and MPI_Recv, and two objects that send each other past messages
//   now                     a call and its result
//   local_past              a message between two objects of one process; its bytes are handed over
//   switch                  from one stack to another
//   future_local, trap      a call to an object of the same thread, whose result is waited for by get(), or by touching it
//   list_common, list_own   a list of a million elements in four objects on two workers, in the heap of the process or in their own
//   object_bytes            memory for one of a million objects, beside its own data
//   create                  making one
//
// --operation runs one of these groups only: messages, local, switch, trap, list, many.
#include <composite/context.hh>
#include <composite/objects.hh>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <string>
#include <unistd.h>
#include <vector>

using namespace composite;

namespace {

double budget = 0.15;
std::string operation;
int ranks = 0;
// Between what is compared inside of a process.
volatile long sink = 0;

void emit(const char *metric, std::size_t size, double value, const char *unit)
{
    std::printf("{\"bench\": \"objects\", \"metric\": \"%s\", \"size\": %zu, \"ranks\": %d, \"value\": %.6g, \"unit\": \"%s\"}\n", metric,
                size, ranks, value, unit);
    std::fflush(stdout);
}

bool wanted(const char *group) { return operation.empty() || operation == group; }

// Seconds for one of what `run(count)` does `count` times: the median of five batches that fill the budget.
double time_of(const std::function<void(long)> &run)
{
    long count = 1;
    double seconds = 0;
    while (true) {
        const double begin = MPI_Wtime();
        run(count);
        seconds = MPI_Wtime() - begin;
        if (seconds > budget / 10 || count > 100000000)
            break;
        count = seconds < budget / 100 ? count * 8 : static_cast<long>(static_cast<double>(count) * budget / 8 / seconds) + 1;
    }
    std::vector<double> times;
    for (int i = 0; i < 5; ++i) {
        const double begin = MPI_Wtime();
        run(count);
        times.push_back((MPI_Wtime() - begin) / static_cast<double>(count));
    }
    std::sort(times.begin(), times.end());
    return times[2];
}

class Player {
  public:
    void meet(Ref<Player> other) { other_ = other; }
    // The first of two throws, and the second catches the last one.
    void begin(long throws, std::size_t size)
    {
        done_ = false;
        left_ = throws;
        if (size <= 8)
            other_.past(&Player::ball, 8);
        else
            other_.past(&Player::box, Buffer(size));
    }
    void ball(std::int64_t value)
    {
        if (!again())
            return;
        other_.past(&Player::ball, value);
    }
    void box(Buffer bytes)
    {
        if (!again())
            return;
        other_.past(&Player::box, std::move(bytes));
    }
    bool again()
    {
        if (left_ < 0)
            return true;  // the one that only answers
        done_ = --left_ <= 0;
        return !done_;
    }
    bool done() const { return done_; }
    void result() {}
    std::int64_t answer(std::int64_t value) { return value; }

  private:
    Ref<Player> other_;
    long left_ = -1;
    bool done_ = false;
};
COMPOSITE_TYPE(Player, (), meet, begin, ball, box, result, answer)
COMPOSITE_WHEN(Player, result, done)

double one_way(Ref<Player> first, std::size_t size)
{
    return time_of([&](long count) {
               first.past(&Player::begin, count, size);
               first.now(&Player::result);
           }) /
           2;
}

void mpi_one_way(int rank, std::size_t size)
{
    std::vector<char> data(size);
    auto play = [&](long count) {
        for (long i = 0; i < count; ++i) {
            if (rank == 0)
                MPI_Send(data.data(), static_cast<int>(size), MPI_CHAR, 1, 0, MPI_COMM_WORLD);
            MPI_Recv(data.data(), static_cast<int>(size), MPI_CHAR, 1 - rank, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (rank == 1)
                MPI_Send(data.data(), static_cast<int>(size), MPI_CHAR, 0, 0, MPI_COMM_WORLD);
        }
    };
    if (rank == 0) {
        const double seconds = time_of([&](long count) {
            MPI_Send(&count, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD);
            play(count);
        });
        const long end = 0;
        MPI_Send(&end, 1, MPI_LONG, 1, 1, MPI_COMM_WORLD);
        emit("mpi_one_way", size, seconds / 2 * 1e6, "us");
    } else if (rank == 1) {
        for (long count = 1; count > 0; play(count))
            MPI_Recv(&count, 1, MPI_LONG, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

void messages(Session &session)
{
    for (const std::size_t size : {std::size_t{8}, std::size_t{1} << 20}) {
        mpi_one_way(session.rank(), size);
        if (session.rank() == 0) {
            auto first = create<Player>(0), second = create<Player>(1);
            first.now(&Player::meet, second);
            second.now(&Player::meet, first);
            emit("past", size, one_way(first, size) * 1e6, "us");
            if (size == 8)
                emit("now", size, time_of([&](long count) {
                         for (long i = 0; i < count; ++i)
                             second.now(&Player::answer, i);
                     }) * 1e6,
                     "us");
        }
        session.finish();
    }
}

void local()
{
    auto first = create<Player>(0), second = create<Player>(0);
    first.now(&Player::meet, second);
    second.now(&Player::meet, first);
    for (const std::size_t size : {std::size_t{8}, std::size_t{1} << 20})
        emit("local_past", size, one_way(first, size) * 1e6, "us");
}

Context *here, *there;

void switches()
{
    Context main;
    Context other(
        64 * 1024,
        [](void *) {
            while (true)
                there->switch_to(*here);
        },
        nullptr);
    here = &main;
    there = &other;
    emit("switch", 0, time_of([&](long count) {
                          for (long i = 0; i < count; ++i)
                              main.switch_to(other);
                      }) / 2 * 1e9,
         "ns");
}

void traps()
{
    auto player = create<Player>(0);
    const double get = time_of([&](long count) {
        for (long i = 0; i < count; ++i)
            sink = player.future(&Player::answer, i).get();
    });
    const double touch = time_of([&](long count) {
        for (long i = 0; i < count; ++i)
            sink = *player.trap(&Player::answer, i);
    });
    emit("future_local", 0, get * 1e6, "us");
    emit("trap", 0, touch * 1e6, "us");
    // A use that must look first whether the value is there, and one that need not.
    auto future = player.future(&Player::answer, 1);
    auto trap = player.trap(&Player::answer, 1);
    trap.wait();
    std::int64_t value = future.get();
    auto &ready = future;
    const double looking = time_of([&](long count) {
        for (long i = 0; i < count; ++i) {
            asm volatile("" ::: "memory");
            if (ready.ready())
                sink = value;
        }
    });
    const double touching = time_of([&](long count) {
        for (long i = 0; i < count; ++i) {
            asm volatile("" ::: "memory");
            sink = *trap;
        }
    });
    emit("use_of_future", 0, looking * 1e9, "ns");
    emit("use_of_trap", 0, touching * 1e9, "ns");
}

class Lister {
  public:
    // Builds a list, walks it, takes every other element out and builds them again.
    long build(bool own, long count)
    {
        std::pmr::list<long> list{own ? heap() : std::pmr::new_delete_resource()};
        for (long i = 0; i < count; ++i)
            list.push_back(i);
        for (auto each = list.begin(); each != list.end(); ++each)
            each = list.erase(each);
        for (long i = 0; i < count / 2; ++i)
            list.push_front(i);
        long sum = 0;
        for (const long each : list)
            sum += each;
        return sum;
    }
};
COMPOSITE_TYPE(Lister, (), build)

void lists(bool own)
{
    const double seconds = time_of([&](long count) {
        for (long i = 0; i < count; ++i) {
            std::vector<Ref<Lister>> listers;
            std::vector<Future<long>> sums;
            for (int j = 0; j < 4; ++j)
                listers.push_back(create<Lister>(0));
            for (auto &each : listers)
                sums.push_back(each.future(&Lister::build, own, 250000));
            for (auto &each : sums)
                sink = each.get();
            for (auto &each : listers)
                each.destroy();
        }
    });
    emit(own ? "list_own" : "list_common", 1000000, seconds * 1e3, "ms");
}

struct Small {
    void touch() { ++value; }
    long value = 0;
};
COMPOSITE_TYPE(Small, (), touch)

double resident()
{
    long pages = 0;
    if (std::FILE *file = std::fopen("/proc/self/statm", "r")) {
        if (std::fscanf(file, "%*d %ld", &pages) != 1)
            pages = 0;
        std::fclose(file);
    }
    return static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

void many()
{
    const long count = 1000000;
    std::vector<Ref<Small>> all(count);
    const double before = resident(), begin = MPI_Wtime();
    for (auto &each : all)
        each = create<Small>(0);
    emit("create", 0, (MPI_Wtime() - begin) / count * 1e6, "us");
    emit("object_bytes", 0, (resident() - before) / count - sizeof(Small), "B");
    for (auto &each : all)
        each.past(&Small::touch);
    for (auto &each : all)
        each.destroy();
}

}  // namespace

int main(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (std::strcmp(argv[i], "--time") == 0)
            budget = std::atof(argv[i + 1]);
        else if (std::strcmp(argv[i], "--operation") == 0)
            operation = argv[i + 1];
        else if (std::strcmp(argv[i], "--limit") == 0)
            alarm(static_cast<unsigned>(std::atoi(argv[i + 1])));
        else {
            std::fprintf(stderr, "objects: unknown argument '%s'; known: --time, --operation, --limit\n", argv[i]);
            return 2;
        }
    }
    int provided;
    // Threads only for the lists: a program without them should not pay for locks.
    MPI_Init_thread(&argc, &argv, operation == "list" ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    {
        Options options;
        options.workers = operation == "list" ? 2 : 0;
        Session session(MPI_COMM_WORLD, options);
        ranks = session.size();
        if (session.size() != 2) {
            std::fprintf(stderr, "objects: needs 2 ranks\n");
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        if (wanted("messages"))
            messages(session);
        if (session.rank() == 0) {
            if (wanted("local"))
                local();
            if (wanted("switch"))
                switches();
            if (wanted("trap"))
                traps();
            if (operation == "list") {
                lists(false);
                lists(true);
            }
            if (wanted("many"))
                many();
        }
        session.finish();
        if (session.rank() == 0)
            std::printf("{\"bench\": \"objects\", \"finished\": true}\n");
    }
    MPI_Finalize();
}

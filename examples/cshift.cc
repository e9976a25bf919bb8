// A small data-parallel library: arrays of N x N numbers, in blocks of rows, whose operation is cshift, the circular shift by some
// rows. It shows how a barrier before every operation can be moved to where nobody waits for it: to the end of an array's life.
//
//     cshift [entry|reclaim|none] ... [--sizes N,...] [--time SECONDS]
//
// A shift writes into the new array of the neighbours, by MPIX_Put_notify. Storage is a pool of blocks in one window. All ranks
// make and drop arrays in the same order, so a new array is the same block everywhere, and a rank knows where to write without
// asking. But is the neighbour done with the array that had the block before? Three ways to know:
//
//   entry     A barrier at the beginning of every shift: what was dropped here before it has been dropped everywhere. A block is
//             used again at once.
//   reclaim   No barrier there. When arrays die, a fuzzy barrier is started for them, and nobody waits: only when there is no block
//             left does a rank look at the oldest of these barriers. If its flag is 1 the arrays are dead everywhere.
//   none      No barrier at all: what the others are measured against. This is safe only for a chain of shifts by one row on a ring
//             of P ranks. Who has ended shift k had data from a rank that had ended shift k-1, and so on around the ring: its
//             neighbour, into whose memory it writes, has ended shift k-(P-1) at least. The pool has more than P+1 blocks and they
//             are used in turn, so a block that is written to has been dead at the neighbour for a while. For the same reason the
//             neighbour has long had what was written to it out of a block.
//
// Whose data has come? Notifications are numbered by the block that was written to. A block has a new array only when all have
// dropped the old one, and so have taken its notifications: those of two shifts never meet. (A flag that changes its sense with
// every shift would not do without barriers: a rank that is a shift ahead changes it back before its neighbour has looked.)
//
// When no block is left, those of the oldest barrier come back, all of them and no others: never "what is free already", which is
// not the same on all ranks. Small arrays share a barrier when they die: to start one takes as long as to copy some kilobytes on
// one host, some hundred between hosts, and the longer the more ranks there are. But arrays that wait for it are memory that is
// not in the cache when it is used again. Here all three ways take the blocks of the pool in turn, so that they differ in nothing
// but their barriers; a library with `entry` could do with two blocks, and for large arrays on one host that is worth more than a
// barrier costs.
//
// A chain of shifts by one row is measured, in batches, the ways in turn; the median counts. Every batch is checked bit for bit,
// and before that shifts by other numbers of rows, with several arrays alive. Exit status 1 if anything is wrong.
//
// Compile: mpicxx -O2 -o cshift cshift.cc

#define MPICH_SKIP_MPICXX
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#ifndef MPIX_MAX_NOTIFICATIONS
#error "This program needs MPIX_Put_notify: compile it with the mpicxx of MPICH-Composite"
#endif

namespace {

constexpr std::size_t bytes_of_a_barrier = 2 << 20;  // for each rank: of dead arrays, on every rank, that share a barrier
constexpr int most_arrays_of_a_barrier = 64;
constexpr int blocks_to_spare = 4;  // for arrays that live
constexpr int most_ranks = MPIX_MAX_NOTIFICATIONS - most_arrays_of_a_barrier - blocks_to_spare;

enum class Mode { entry, reclaim, none };
constexpr std::array<const char *, 3> mode_names{"entry", "reclaim", "none"};

[[noreturn]] void fail(const std::string &what)
{
    std::fprintf(stderr, "cshift: %s\n", what.c_str());
    MPI_Abort(MPI_COMM_WORLD, 1);
    std::abort();
}

// Nobody but MPI writes the flag, in calls that make progress.
void wait_for(volatile int *flag)
{
    int arrived;
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &arrived, MPI_STATUS_IGNORE);
}

// --- which rows are whose --------------------------------------------------------------------------------------------------

struct Layout {
    int n, ranks, rank;

    int first_of(int which) const { return static_cast<int>(static_cast<long>(which) * n / ranks); }
    int owner_of(int row) const { return static_cast<int>((static_cast<long>(row + 1) * ranks - 1) / n); }
    int first() const { return first_of(rank); }
    int end() const { return first_of(rank + 1); }
    int most_rows() const { return (n + ranks - 1) / ranks; }
    int wrapped(long row) const { return static_cast<int>((row % n + n) % n); }

    // Cuts our rows into pieces that belong together also when they are `amount` rows further on: f(row, its other row, how many,
    // whose those are).
    template <class Function> void for_pieces(long amount, Function f) const
    {
        for (int row = first(); row < end();) {
            const int there = wrapped(row + amount), owner = owner_of(there);
            const int count = std::min(end() - row, first_of(owner + 1) - there);
            f(row, there, count, owner);
            row += count;
        }
    }
};

// --- storage ---------------------------------------------------------------------------------------------------------------

class Pool {
  public:
    explicit Pool(const Layout &layout) : layout_(layout)
    {
        const auto block_bytes = static_cast<std::size_t>(block_size()) * sizeof(double);
        const std::size_t share = static_cast<std::size_t>(layout.ranks) * bytes_of_a_barrier / block_bytes;
        together_ = static_cast<int>(std::clamp<std::size_t>(share, 1, most_arrays_of_a_barrier));
        blocks_ = layout.ranks + together_ + blocks_to_spare;
        const MPI_Aint bytes = blocks_ * static_cast<MPI_Aint>(block_bytes);
        MPI_Win_allocate(bytes, sizeof(double), MPI_INFO_NULL, MPI_COMM_WORLD, &memory_, &window_);
        std::memset(memory_, 0, static_cast<std::size_t>(bytes));  // no page fault is measured
        MPI_Win_lock_all(MPI_MODE_NOCHECK, window_);
        use(Mode::entry);
    }
    ~Pool()
    {
        use(Mode::entry);
        MPI_Win_unlock_all(window_);
        MPI_Win_free(&window_);
    }
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    // From now on this way. Collective; there is no array.
    void use(Mode mode)
    {
        while (!dying_.empty())
            recover();
        MPI_Win_flush_all(window_);
        MPI_Barrier(MPI_COMM_WORLD);
        mode_ = mode;
        free_.clear();
        for (int block = 0; block < blocks_; ++block)
            free_.push_back(block);
    }

    void enter()
    {
        if (mode_ != Mode::entry)
            return;
        volatile int all_here, written;
        MPIX_Win_sync_flag(window_, &written);
        MPIX_Barrier_start(MPI_COMM_WORLD, &all_here);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &all_here);
        wait_for(&written);
    }

    int take()
    {
        if (free_.empty())
            recover();
        const int block = free_.front();
        free_.pop_front();
        return block;
    }

    // The array is dead here.
    void give_back(int block)
    {
        if (mode_ != Mode::reclaim) {
            free_.push_back(block);
            return;
        }
        if (dying_.empty() || dying_.back().started)
            dying_.emplace_back();
        Dying &last = dying_.back();
        last.blocks[static_cast<std::size_t>(last.count++)] = block;
        if (last.count == together_)
            start_barrier(&last);
    }

    const Layout &layout() const { return layout_; }
    MPI_Win window() const { return window_; }
    // Of a row, counted from the first of its owner: the same at all ranks.
    MPI_Aint offset(int block, int row_there) const
    {
        return static_cast<MPI_Aint>(block) * block_size() + static_cast<MPI_Aint>(row_there) * layout_.n;
    }
    double *at(int block) { return memory_ + offset(block, 0); }

  private:
    // Arrays that are dead here, and may not be elsewhere.
    struct Dying {
        std::array<int, most_arrays_of_a_barrier> blocks;
        int count = 0;
        bool started = false;
        volatile int all_dead = 0;  // nobody writes to these blocks any more
        volatile int written = 0;   // and what we wrote out of them has been read
    };

    MPI_Aint block_size() const { return static_cast<MPI_Aint>(layout_.most_rows()) * layout_.n; }

    void start_barrier(Dying *dying)
    {
        dying->started = true;
        MPIX_Win_sync_flag(window_, &dying->written);
        MPIX_Barrier_start(MPI_COMM_WORLD, &dying->all_dead);
    }

    void recover()
    {
        if (dying_.empty())
            fail("there is no storage left for another array");
        Dying &oldest = dying_.front();
        if (!oldest.started)
            start_barrier(&oldest);
        MPIX_Barrier_wait(MPI_COMM_WORLD, &oldest.all_dead);
        wait_for(&oldest.written);
        free_.insert(free_.end(), oldest.blocks.begin(), oldest.blocks.begin() + oldest.count);
        dying_.pop_front();
    }

    Layout layout_;
    int blocks_ = 0;
    int together_ = 0;  // arrays that share a barrier
    Mode mode_ = Mode::entry;
    double *memory_ = nullptr;
    MPI_Win window_ = MPI_WIN_NULL;
    std::deque<int> free_;
    std::deque<Dying> dying_;  // which leaves the flags of the others where they are
};

// --- arrays ----------------------------------------------------------------------------------------------------------------

class Array {
  public:
    explicit Array(Pool &pool) : pool_(&pool), block_(pool.take()) {}
    Array(Array &&other) noexcept : pool_(other.pool_), block_(std::exchange(other.block_, -1)) {}
    Array &operator=(Array &&other) noexcept
    {
        release();
        pool_ = other.pool_;
        block_ = std::exchange(other.block_, -1);
        return *this;
    }
    ~Array() { release(); }

    Pool &pool() const { return *pool_; }
    int block() const { return block_; }
    double *row(int row) const  // one of ours
    {
        const Layout &layout = pool_->layout();
        return pool_->at(block_) + static_cast<std::ptrdiff_t>(row - layout.first()) * layout.n;
    }

  private:
    void release()
    {
        if (block_ >= 0)
            pool_->give_back(block_);
        block_ = -1;
    }

    Pool *pool_;
    int block_;
};

// Row i of the result is row i + amount of the array.
Array cshift(const Array &array, long amount)
{
    Pool &pool = array.pool();
    const Layout &layout = pool.layout();
    pool.enter();
    Array result(pool);
    layout.for_pieces(-amount, [&](int row, int there, int count, int owner) {
        if (owner != layout.rank)
            MPIX_Put_notify(array.row(row), count * layout.n, MPI_DOUBLE, owner,
                            pool.offset(result.block(), there - layout.first_of(owner)), count * layout.n, MPI_DOUBLE,
                            pool.window(), result.block());
    });
    layout.for_pieces(-amount, [&](int row, int there, int count, int owner) {
        if (owner == layout.rank)
            std::memcpy(result.row(there), array.row(row), static_cast<std::size_t>(count) * layout.n * sizeof(double));
    });
    layout.for_pieces(amount, [&](int, int, int, int owner) {
        if (owner != layout.rank)
            MPIX_Win_wait_notify(pool.window(), result.block());
    });
    return result;
}

// --- checks ----------------------------------------------------------------------------------------------------------------

double original(const Layout &layout, int row, int column)
{
    return static_cast<double>(row) * layout.n + column + 0.5;
}

Array make_original(Pool &pool)
{
    const Layout &layout = pool.layout();
    Array array(pool);
    for (int row = layout.first(); row < layout.end(); ++row)
        for (int column = 0; column < layout.n; ++column)
            array.row(row)[column] = original(layout, row, column);
    return array;
}

// Of our rows, those that are not what the original is after a shift by so many rows.
long wrong_rows(const Array &array, long amount)
{
    const Layout &layout = array.pool().layout();
    std::vector<double> expected(static_cast<std::size_t>(layout.n));
    long wrong = 0;
    for (int row = layout.first(); row < layout.end(); ++row) {
        for (int column = 0; column < layout.n; ++column)
            expected[static_cast<std::size_t>(column)] = original(layout, layout.wrapped(row + amount), column);
        wrong += std::memcmp(array.row(row), expected.data(), expected.size() * sizeof(double)) != 0;
    }
    return wrong;
}

// Shifts by all kinds of numbers, and arrays that live for different times.
long check_any_shift(Pool &pool)
{
    const int n = pool.layout().n;
    const std::array<long, 10> amounts{1, -1, 0, n / 2, -3, n - 1, 2L * n + 1, -n / 3, 5, n};
    const Array first = make_original(pool);
    Array now = cshift(first, 0);
    long total = 0, wrong = 0;
    for (int i = 0; i < 4 * most_arrays_of_a_barrier; ++i) {
        const long amount = amounts[static_cast<std::size_t>(i) % amounts.size()];
        const Array aside = cshift(first, -amount);
        now = cshift(now, amount);
        total += amount;
        wrong += wrong_rows(now, total) + wrong_rows(aside, -amount);
    }
    return wrong + wrong_rows(first, 0);
}

// --- measurement -----------------------------------------------------------------------------------------------------------

// Seconds that the slowest rank took for a chain of shifts by one row.
double batch(Pool &pool, Mode mode, long shifts, long *wrong)
{
    pool.use(mode);
    Array array = make_original(pool);
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    for (long i = 0; i < shifts; ++i)
        array = cshift(array, 1);
    double elapsed = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &elapsed, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    *wrong += wrong_rows(array, shifts);
    MPI_Barrier(MPI_COMM_WORLD);
    return elapsed;
}

// How many shifts take about as long as a batch should. The same on all ranks, like the times.
long find_shifts(Pool &pool, Mode mode, double seconds, long *wrong)
{
    long shifts = 1;
    for (double elapsed = batch(pool, mode, shifts, wrong); elapsed < seconds / 2; elapsed = batch(pool, mode, shifts, wrong))
        shifts = static_cast<long>(static_cast<double>(shifts) * std::clamp(seconds / std::max(elapsed, 1e-9), 2.0, 16.0));
    return shifts;
}

double median(std::vector<double> values)
{
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

// How many rows were wrong, here.
long measure(const Layout &layout, const std::vector<Mode> &modes, double budget)
{
    constexpr int rounds = 11;
    Pool pool(layout);
    long wrong = 0;
    for (Mode mode : modes)
        if (mode != Mode::none) {
            pool.use(mode);
            wrong += check_any_shift(pool);
        }

    std::vector<long> shifts;
    for (Mode mode : modes)
        shifts.push_back(find_shifts(pool, mode, budget / rounds, &wrong));
    std::vector<std::vector<double>> times(modes.size());
    for (int round = 0; round < rounds; ++round)
        for (std::size_t i = 0; i < modes.size(); ++i) {
            const std::size_t turn = (i + static_cast<std::size_t>(round)) % modes.size();
            times[turn].push_back(batch(pool, modes[turn], shifts[turn], &wrong) / static_cast<double>(shifts[turn]));
        }
    for (std::size_t i = 0; i < modes.size() && layout.rank == 0; ++i) {
        std::printf("cshift: %s, %d x %d points, %d rank%s, %.4f us\n", mode_names[static_cast<std::size_t>(modes[i])], layout.n,
                    layout.n, layout.ranks, layout.ranks > 1 ? "s" : "", median(times[i]) * 1e6);
        std::fflush(stdout);
    }
    return wrong;
}

struct Options {
    std::vector<Mode> modes;
    std::vector<int> sizes;
    double time = 0.5;
    bool usable = true;
};

Options read_options(int argc, char **argv)
{
    Options options;
    std::string sizes = "64,128,256,512";
    for (int i = 1; i < argc && options.usable; ++i) {
        const std::string word = argv[i];
        const auto mode = std::find(mode_names.begin(), mode_names.end(), word);
        if (mode != mode_names.end())
            options.modes.push_back(static_cast<Mode>(mode - mode_names.begin()));
        else if (word == "--sizes" && i + 1 < argc)
            sizes = argv[++i];
        else if (word == "--time" && i + 1 < argc)
            options.time = std::atof(argv[++i]);
        else
            options.usable = false;
    }
    if (options.modes.empty())
        options.modes = {Mode::entry, Mode::reclaim, Mode::none};
    for (const char *text = sizes.c_str(); options.usable && *text != '\0';) {
        char *end;
        const long n = std::strtol(text, &end, 10);
        options.usable = end != text && (*end == ',' || *end == '\0') && n >= 1 && n <= 8192;
        options.sizes.push_back(static_cast<int>(n));
        text = *end == ',' ? end + 1 : end;
    }
    options.usable = options.usable && options.time > 0 && options.time <= 60;
    return options;
}

}  // namespace

int main(int argc, char **argv)
{
    Layout layout{};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &layout.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &layout.ranks);
    const Options options = read_options(argc, argv);
    const bool fits = layout.ranks <= most_ranks && std::all_of(options.sizes.begin(), options.sizes.end(),
                                                                [&](int n) { return n >= layout.ranks; });
    if (!options.usable || !fits) {
        if (layout.rank == 0)
            std::fprintf(stderr, "usage: cshift [entry|reclaim|none] ... [--sizes N,...] [--time SECONDS]\n"
                         "with N up to 8192 and not below the number of ranks, of which there may be %d, and up to 60 s for a "
                         "size\n", most_ranks);
        MPI_Finalize();
        return 1;
    }

    long wrong = 0;
    for (int n : options.sizes) {
        layout.n = n;
        wrong += measure(layout, options.modes, options.time);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (layout.rank == 0) {
        if (wrong > 0)
            std::fprintf(stderr, "cshift: %ld rows were wrong\n", wrong);
        std::printf("cshift: %s\n", wrong > 0 ? "FAIL" : "PASS");
    }
    MPI_Finalize();
    return wrong > 0;
}

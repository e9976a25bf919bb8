// How many ways there are to place n queens on a board so that none attacks another: every place of the first rows is an object, which asks
// objects for the next row and waits for all of them.
//     mpicxx -std=c++20 -O2 queens.cc -o queens $(pkg-config --cflags --libs composite-objects)
//     mpiexec -n 2 ./queens [--size N] [--rows N] [--workers N]
#include <composite/objects.hh>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

// Bits for the columns and diagonals that are attacked in the next row.
struct Board {
    std::int32_t size, row;
    std::uint32_t columns, left, right;
    std::uint32_t free() const { return ~(columns | left | right) & ((1u << size) - 1); }
    Board with(std::uint32_t place) const { return {size, row + 1, columns | place, (left | place) << 1, (right | place) >> 1}; }
};

long count_ways(const Board &board)
{
    if (board.row == board.size)
        return 1;
    long ways = 0;
    for (std::uint32_t free = board.free(); free != 0; free &= free - 1)
        ways += count_ways(board.with(free & -free));
    return ways;
}

struct Solver {
    // Ways and objects, from here on.
    std::pair<long, long> solve(Board board, int rows)
    {
        if (board.row >= rows)
            return {count_ways(board), 1};
        int ranks = composite::Runtime::current().size();
        std::vector<composite::Future<composite::Ref<Solver>>> made;
        for (std::uint32_t free = board.free(); free != 0; free &= free - 1)
            made.push_back(composite::create_future<Solver>(static_cast<int>((board.columns + free) % static_cast<unsigned>(ranks))));
        std::vector<composite::Future<std::pair<long, long>>> answers;
        std::size_t i = 0;
        for (std::uint32_t free = board.free(); free != 0; free &= free - 1, ++i) {
            auto solver = made[i].get();
            answers.push_back(solver.future(&Solver::solve, board.with(free & -free), rows));
            solver.destroy();  // when it has answered
        }
        std::pair<long, long> sum{0, 1};
        for (auto &each : answers) {
            const auto [ways, objects] = each.get();
            sum.first += ways;
            sum.second += objects;
        }
        return sum;
    }
};
COMPOSITE_TYPE(Solver, (), solve)

int main(int count, char **values)
{
    int size = 10, rows = 4, provided;
    composite::Options options;
    for (int i = 1; i + 1 < count; i += 2) {
        if (std::strcmp(values[i], "--size") == 0)
            size = std::atoi(values[i + 1]);
        else if (std::strcmp(values[i], "--rows") == 0)
            rows = std::atoi(values[i + 1]);
        else if (std::strcmp(values[i], "--workers") == 0)
            options.workers = static_cast<unsigned>(std::atoi(values[i + 1]));
    }
    static const long known[] = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200, 73712};
    MPI_Init_thread(&count, &values, MPI_THREAD_MULTIPLE, &provided);
    int status = 0;
    {
        composite::Session session(MPI_COMM_WORLD, options);
        if (session.rank() == 0) {
            const double begin = MPI_Wtime();
            const auto [ways, objects] = composite::create<Solver>(0).now(&Solver::solve, Board{size, 0, 0, 0, 0}, rows);
            std::printf("%d queens: %ld ways, found by %ld objects in %.0f ms\n", size, ways, objects, (MPI_Wtime() - begin) * 1e3);
            status = size < 14 && ways != known[size];
        }
        session.finish();
    }
    MPI_Finalize();
    return status;
}

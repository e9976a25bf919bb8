// Two objects that throw a ball to each other, on the first and the last rank.
//     mpicxx -std=c++20 -O2 pingpong.cc -o pingpong $(pkg-config --cflags --libs composite-objects)
//     mpiexec -n 2 ./pingpong [--throws N] [--workers N]
#include <composite/objects.hh>

#include <cstdio>
#include <cstdlib>
#include <cstring>

struct Player {
    explicit Player(int throws) : left(throws) {}

    void meet(composite::Ref<Player> player) { other = player; }
    void ball(int number)
    {
        seen = number;
        if (--left > 0)
            other.past(&Player::ball, number + 1);
        if (left <= 0)
            composite::Event("the game is over").set();
    }
    int last_seen() { return seen; }

    composite::Ref<Player> other;
    int left, seen = 0;
};
COMPOSITE_TYPE(Player, (int), meet, ball, last_seen)

int main(int count, char **values)
{
    composite::Options options;
    int throws = 100000, wanted = MPI_THREAD_MULTIPLE, provided;
    for (int i = 1; i < count; ++i) {
        if (std::strcmp(values[i], "--throws") == 0 && i + 1 < count)
            throws = std::atoi(values[++i]);
        else if (std::strcmp(values[i], "--workers") == 0 && i + 1 < count)
            options.workers = static_cast<unsigned>(std::atoi(values[++i]));
        else if (std::strcmp(values[i], "--single-threaded") == 0)  // to see what is said then
            wanted = MPI_THREAD_SINGLE, options.workers = 1;
    }
    MPI_Init_thread(&count, &values, wanted, &provided);
    {
        composite::Session session(MPI_COMM_WORLD, options);
        if (session.rank() == 0) {
            auto first = composite::create<Player>(0, throws), second = composite::create<Player>(session.size() - 1, throws);
            first.now(&Player::meet, second);
            second.now(&Player::meet, first);
            const double begin = MPI_Wtime();
            first.past(&Player::ball, 1);
            composite::Event("the game is over").wait();
            const double microseconds = (MPI_Wtime() - begin) * 1e6;
            const int seen = std::max(first.now(&Player::last_seen), second.now(&Player::last_seen));
            std::printf("the ball was thrown %d times, %.2f us each\n", seen, microseconds / seen);
        }
        session.finish();
    }
    MPI_Finalize();
}

// The last rank dies while others wait for it: each of their futures fails with a message that names it, and they go on with each other.
// Needs a mpiexec that leaves the others alone (-disable-auto-cleanup).
#include "session.h"

#include <csignal>
#include <unistd.h>
#include <vector>

using composite::Ref;

namespace {

struct Victim {
    int die()
    {
        kill(getpid(), SIGKILL);
        return 0;
    }
    int never() { return 0; }
    bool never_ready() { return false; }
    int answer() { return 42; }
};
COMPOSITE_TYPE(Victim, (), die, never, answer)
COMPOSITE_WHEN(Victim, never, never_ready)

}  // namespace

int main(int count, char **values)
{
    Started started(count, values);
    composite::Session session(MPI_COMM_WORLD, started.options);
    const int last = session.size() - 1;
    const std::string name = "rank " + std::to_string(last) + " is gone";
    std::vector<composite::Future<int>> waiting;
    Ref<Victim> victim;
    if (session.rank() != last) {
        victim = composite::create<Victim>(last);
        for (int i = 0; i < 10; ++i)
            waiting.push_back(victim.future(&Victim::never));
        EXPECT(victim.now(&Victim::answer) == 42);
    }
    // All have what they wait for; the last rank serves here until it dies.
    session.finish();
    if (session.rank() == 0)
        waiting.push_back(victim.future(&Victim::die));
    if (session.rank() == last)
        composite::Event("never").wait();
    for (auto &each : waiting)
        EXPECT(fails_with(name.c_str(), [&] { each.get(); }));
    EXPECT(fails_with(name.c_str(), [&] { victim.now(&Victim::answer); }));
    EXPECT(fails_with(name.c_str(), [&] { composite::create<Victim>(last); }));
    // The others are as they were.
    auto here = composite::create<Victim>(session.rank());
    EXPECT(here.now(&Victim::answer) == 42);
    std::printf("rank %d has seen it\n", session.rank());
    std::fflush(stdout);
    // There is nobody to finalize MPI with.
    _exit(0);
}

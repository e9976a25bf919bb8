// Types that come at run time. Usage: library PATH-OF-LIBWORKER [--workers N]
#include "session.h"

#include <dlfcn.h>

using namespace composite;

namespace {

struct Probe {
    // Whether this process really has it in memory.
    bool in_memory(const std::string &path)
    {
        void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
        if (handle != nullptr)
            dlclose(handle);
        return handle != nullptr;
    }
};
COMPOSITE_TYPE(Probe, (), in_memory)

}  // namespace

int main(int count, char **values)
{
    Started started(count, values);
    const std::string path = values[1];
    Session session(MPI_COMM_WORLD, started.options);
    if (session.rank() == 0) {
        const int last = session.size() - 1;
        auto probe = create<Probe>(last);
        EXPECT(fails_with("no type Worker", [&] { create("Worker", last, 3); }));
        EXPECT(fails_with("cannot load ./missing.so", [&] { load("./missing.so"); }));
        EXPECT(!probe.now(&Probe::in_memory, path));
        for (int round = 0; round < 3; ++round) {
            load(path, {last});
            EXPECT(loaded(path, last));
            auto worker = create("Worker", last, 3 + round);
            EXPECT(worker.now<int>("work", 5) == 5 * (3 + round));
            // Loaded anew each time, so it has counted one object.
            EXPECT(worker.now<int>("count") == 1);
            EXPECT(fails_with("do not decode", [&] { worker.now<int>("work", 1.0); }));
            EXPECT(fails_with("do not decode", [&] { create("Worker", last); }));
            unload(path, {last});
            EXPECT(fails_with("being unloaded", [&] { create("Worker", last, 1); }));
            EXPECT(worker.now<int>("work", 1) == 3 + round);
            EXPECT(probe.now(&Probe::in_memory, path));
            worker.destroy();
            while (probe.now(&Probe::in_memory, path)) {
            }
            EXPECT(!loaded(path, last));
            EXPECT(fails_with("no type Worker", [&] { create("Worker", last, 3); }));
        }
        if (last > 0)
            EXPECT(fails_with("no type Worker", [&] { create("Worker", 0, 3); }));
        std::printf("loaded and unloaded on rank %d\n", last);
    }
    session.finish();
}

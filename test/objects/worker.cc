// A library with a type, for loading at run time. Its state shows whether it was loaded anew.
#include <composite/objects.hh>

namespace {

int made = 0;

struct Worker {
    explicit Worker(int factor) : factor(factor) { ++made; }
    int work(int value) { return value * factor; }
    int count() { return made; }
    int factor;
};
COMPOSITE_TYPE(Worker, (int), work, count)

}  // namespace

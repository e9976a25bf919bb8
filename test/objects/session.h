// For programs that test objects on real processes: arguments, and checks that end the job.
#pragma once

#include <composite/objects.hh>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#define EXPECT(condition)                                                                              \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            std::fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition);              \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                              \
        }                                                                                              \
    } while (0)

// What follows --NAME, or another value.
inline long argument(int count, char **values, const char *name, long otherwise)
{
    for (int i = 1; i + 1 < count; ++i)
        if (std::strcmp(values[i], name) == 0)
            return std::atol(values[i + 1]);
    return otherwise;
}

// Whether f throws an Error that has this text.
template <class F>
bool fails_with(const char *text, F f)
{
    try {
        f();
    } catch (const composite::Error &error) {
        if (std::strstr(error.what(), text) != nullptr)
            return true;
        std::fprintf(stderr, "another error: %s\n", error.what());
        return false;
    }
    std::fprintf(stderr, "no error\n");
    return false;
}

// MPI with as many worker threads as --workers says.
class Started {
  public:
    Started(int &count, char **&values)
    {
        int provided;
        options.workers = static_cast<unsigned>(argument(count, values, "--workers", 0));
        MPI_Init_thread(&count, &values, options.workers > 0 ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
    }
    ~Started() { MPI_Finalize(); }
    composite::Options options;
};

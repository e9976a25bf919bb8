// Types that come at run time: shared libraries whose COMPOSITE_TYPEs are known by name while the library is loaded.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "future.hh"

namespace composite {

// A library that this process has loaded. It goes when that was asked for and no object of its types is left. What is known of it stays:
// types point to it until they are gone.
struct Library {
    std::string name;
    void *handle = nullptr;
    long objects = 0;
    bool leaving = false;
    // The item that closes it is on its way; it must go round again because the library was used meanwhile.
    bool closing = false, again = false;

    // What is not closed yet, but will be unless it is loaded again, is not there.
    bool there() const { return handle != nullptr && !(leaving && objects == 0); }

    // The one whose types register now, on this thread.
    static Library *being_loaded();
    // Counts a new object of its types. Error when it is leaving.
    void made();
    void released();
};

// Brings the types of a library in on these ranks, all if none are given: a path, or a name that dlopen() finds there. Ranks where that
// fails are named in an Error; the others have it.
void load(const std::string &name, const std::vector<int> &ranks = {});
// No new objects of its types are made there from now on; it goes with the last one that is left.
void unload(const std::string &name, const std::vector<int> &ranks = {});
// Whether a rank has it.
bool loaded(const std::string &name, int rank);

}  // namespace composite

// Something that is set or not, known by its name to all ranks. One rank, found from the name, keeps it; who waits asks that one, and when
// it is set all who wait are told by one multicast.
#pragma once

#include <string>
#include <utility>

#include "future.hh"

namespace composite {

class Event {
  public:
    explicit Event(std::string name) : name_(std::move(name)) {}
    // Returns when it is so: whoever asks later finds it so.
    void set() const;
    void reset() const;
    // Returns when it is set, or was at some time since the call.
    void wait() const { waiting().get(); }
    Future<void> waiting() const;
    bool is_set() const;

  private:
    std::string name_;
};

}  // namespace composite

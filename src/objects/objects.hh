// Objects that talk: C++ objects on the ranks of an MPI program that send each other messages. doc/objects.md teaches it.
//
//     struct Counter {
//         int add(int more) { return value += more; }
//         int value = 0;
//     };
//     COMPOSITE_TYPE(Counter, (), add)
//
//     composite::Session session(MPI_COMM_WORLD);
//     if (session.rank() == 0) {
//         auto counter = composite::create<Counter>(1);   // an object on rank 1
//         counter.past(&Counter::add, 1);                 // goes on at once
//         auto later = counter.future(&Counter::add, 1);  // later.get() waits
//         int now = counter.now(&Counter::add, 1);        // waits
//     }
//     session.finish();                                   // all ranks: until nothing is left to do
#pragma once

#include <mpi.h>

#include "event.hh"
#include "library.hh"
#include "ref.hh"
#include "runtime.hh"

namespace composite {

// Objects on the ranks of a communicator, which is duplicated. Collective. Worker threads need MPI_THREAD_MULTIPLE. A session ends before
// MPI_Finalize; its end is not collective and does not wait: call finish() on all ranks first.
class Session : public Runtime {
  public:
    explicit Session(MPI_Comm comm, const Options &options = {});
    ~Session() override;
};

}  // namespace composite

// PM(SHMEM) under the conformance suite, with both kinds of memory.
#include "conform/conformance.h"
#include "shmmod/shmem.h"

namespace pm::conform {
namespace {

template <shmem::Backing backing>
struct ShmemKit {
    using Device = shmem::Shmem;
    static constexpr const char *name = backing == shmem::Backing::memfd ? "memfd" : "devshm";
    static constexpr std::size_t bytes_in_flight = 0;
    static constexpr unsigned rounds_of_disconnecting = 1000;
    static constexpr std::size_t heap_of_a_parted_peer = 64;
    static constexpr bool asks_for_places = false;
    static constexpr std::size_t silent_peer_limit = 4096;
    static constexpr unsigned descriptors_of_a_silent_peer = 1;
    static constexpr bool keeps_descriptors = false;
    static constexpr bool gives_back_descriptors = true;

    static std::string prepare() { return {}; }
    static Result<std::unique_ptr<Device>> create(const Sink &sink) { return Device::create({backing}, sink); }

    static std::vector<std::size_t> edges()
    {
        using namespace shmem;
        return {small_capacity,  inline_header_capacity, smallest_piece,    4 * smallest_piece, whole_piece,  first_limit,
                2 * first_limit, largest_piece,          4 * largest_piece, bulk_size,          2 * bulk_size};
    }

    static std::size_t memory(const Device &device) { return device.memory_in_use(); }
};

using ShmemKits = testing::Types<ShmemKit<shmem::Backing::memfd>, ShmemKit<shmem::Backing::devshm>>;
PM_CONFORMANCE(Shmem, ShmemKits);
INSTANTIATE_TYPED_TEST_SUITE_P(Shmem, DeathNoticed, ShmemKits, KitNames);
INSTANTIATE_TYPED_TEST_SUITE_P(Shmem, MemoryKnown, ShmemKits, KitNames);

}  // namespace
}  // namespace pm::conform

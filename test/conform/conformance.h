// The conformance suite: what the PM contract (src/pm/device.h) promises, tested between real processes, for any device. Every
// process has a time limit, so that a hang is a failure. A device is brought to it by a kit; see shmem_conform.cc.
//
// A kit has
//   Device, name, create(sink);
//   edges(): payload sizes at which something changes inside the device;
//   bytes_in_flight: how much may wait below the device (in the kernel) before a sender is held back, at most; 0 when that is
//   little;
//   rounds_of_disconnecting: how often a peer comes and goes in a test of that;
//   heap_of_a_parted_peer: bytes that may be left of each that has come and gone, with what the test itself remembers of it;
//   asks_for_places: it asks the sink where a long payload belongs;
//   silent_peer_limit: bytes that a peer may cost at most which has sent nothing and was sent nothing;
//   descriptors_of_a_silent_peer: as many may be opened for it;
//   keeps_descriptors: what it opens for the first channel of a process stays open, for the next;
//   gives_back_descriptors: of a peer that has disconnected;
//   memory(device): bytes that others' messages cost this process, or 0 when the device does not know;
//   prepare(): called before the processes of a test are made; a reason when the device cannot be tested here, otherwise empty.
#pragma once

#include "conform/cards.h"
#include "conform/death.h"
#include "conform/delivery.h"
#include "conform/memory.h"
#include "conform/placing.h"
#include "conform/sleeping.h"

// Two suites are for some kits only, those that can do what they ask for: DeathNoticed and MemoryKnown. Each is instantiated beside the kits.

// All other suites for the kits in a testing::Types list; inside namespace pm::conform.
#define PM_CONFORMANCE(device, Kits)                                       \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Cards, Kits, KitNames);    \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Death, Kits, KitNames);    \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Delivery, Kits, KitNames); \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Memory, Kits, KitNames);   \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Placing, Kits, KitNames);  \
    INSTANTIATE_TYPED_TEST_SUITE_P(device, Sleeping, Kits, KitNames)

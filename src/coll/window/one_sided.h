// What devices do by themselves in the parts of a window, where they reach them: no processor of the target takes part, and only sync
// and flush know when it has happened. Under the caller's lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll/window/engine.h"

namespace pm::coll {

// MPIR_CVAR_CH4_COMPOSITE_NOTIFY.
enum class Way { best, message, put };

// Whether a write that notifies should be put by a device, which counts it, too, instead of being sent: what is short comes sooner in one
// message. Only the whole of an operation: of several parts the last one must not overtake the others. `by_itself`: the device needs
// nothing of the target's processor.
bool wants_put(Way way, std::size_t size, const pm_after &after, bool whole, bool by_itself);

// Registers our part and our counts; what the others need for it follows in the card. Answers how much of it is used, the same at all ranks.
std::size_t register_part(pm_core *core, pm_window *window, std::byte *card);
// What a rank has told us in its card.
void meet_part(pm_window *window, int rank, const std::byte *card);

// As pm_put() and pm_get(): PM_QUEUED when nothing has happened. With `after`, a notification or a counter, that is counted at the target
// when the data is there.
int put_part(pm_window *window, int rank, std::uint64_t offset, const void *data, std::size_t size, const pm_after *after);
int get_part(pm_window *window, int rank, std::uint64_t offset, void *data, std::size_t size);

// Whether all of it has happened.
bool parts_done(pm_core *core, pm_window *window);

}  // namespace pm::coll

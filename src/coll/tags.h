// The tags of the engines' messages: the last of the table in netmod/core/handlers.h. MPICH numbers its own from 0.
#pragma once

namespace pm::coll {

inline constexpr int am_tag = 251, window_tag = 253, barrier_tag = 254, mcast_tag = 255;

}  // namespace pm::coll

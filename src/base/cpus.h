// How many cores this process may really use: the affinity mask and the cgroup CPU quota count, not only the machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace pm {

// What one process may use.
struct CoreGrant {
    std::uint64_t mask;  // stands for the affinity mask: equal masks, equal values
    std::int32_t cores;  // in the mask, at least 1
    std::int32_t quota;  // of its cgroup, in cores; 0: none
};
CoreGrant core_grant();

// What processes of one host have together, at least 1. Masks are taken to be equal or disjoint, as those of bound and of
// unbound ranks are. The same for every process that asks with the same grants.
int cores_of_all(const std::vector<CoreGrant> &grants);

// For this process alone, at least 1.
int available_cores();

// The pure part, for tests. `quota` and `period` in microseconds; quota <= 0: no limit.
int cores_from(int affinity_cores, long long quota, long long period);

// The smallest quota on the way from this process's cgroup to the root, in cores; 0 when there is none.
// `root` is where the cgroup file system is mounted; `self` is the text of /proc/self/cgroup.
int cgroup_quota_cores(const std::string &root, const std::string &self);

}  // namespace pm

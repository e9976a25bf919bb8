// How many cores this process may really use: the affinity mask and the cgroup CPU quota count, not only the machine.
#pragma once

#include <string>

namespace pm {

// At least 1.
int available_cores();

// The pure part, for tests. `quota` and `period` in microseconds; quota <= 0: no limit.
int cores_from(int affinity_cores, long long quota, long long period);

// The smallest quota on the way from this process's cgroup to the root, in cores; 0 when there is none.
// `root` is where the cgroup file system is mounted; `self` is the text of /proc/self/cgroup.
int cgroup_quota_cores(const std::string &root, const std::string &self);

}  // namespace pm

#include "base/cpus.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>

#include "base/hash.h"

namespace pm {
namespace {

CoreGrant affinity_grant()
{
    // A machine may have more CPUs than cpu_set_t holds: ask with a growing mask.
    for (int cpus = CPU_SETSIZE; cpus <= 1 << 16; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (set == nullptr)
            break;
        size_t size = CPU_ALLOC_SIZE(cpus);
        CPU_ZERO_S(size, set);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        std::uint64_t mask = hash_bytes(set, size);
        CPU_FREE(set);
        if (count > 0)
            return {mask, count, 0};
    }
    return {0, static_cast<std::int32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN))), 0};
}

std::string read_text(const std::string &path)
{
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// Cores granted by one cgroup directory, 0 when it sets no limit. Version 2 has cpu.max, version 1 two files.
int directory_cores(const std::string &directory)
{
    long long quota = 0, period = 0;
    std::string max = read_text(directory + "/cpu.max");
    if (!max.empty()) {
        if (std::sscanf(max.c_str(), "%lld %lld", &quota, &period) != 2)
            return 0;  // "max 100000"
    } else {
        std::string v1_quota = read_text(directory + "/cpu.cfs_quota_us");
        std::string v1_period = read_text(directory + "/cpu.cfs_period_us");
        if (std::sscanf(v1_quota.c_str(), "%lld", &quota) != 1 || std::sscanf(v1_period.c_str(), "%lld", &period) != 1)
            return 0;
    }
    return quota > 0 && period > 0 ? cores_from(1 << 30, quota, period) : 0;
}

}  // namespace

int cores_from(int affinity, long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return std::max(1, affinity);
    long long whole = (quota + period - 1) / period;
    return static_cast<int>(std::max(1LL, std::min<long long>(affinity, whole)));
}

int cgroup_quota_cores(const std::string &root, const std::string &self)
{
    int least = 0;
    std::istringstream lines(self);
    for (std::string line; std::getline(lines, line);) {
        // hierarchy-ID:controllers:path; version 2 has an empty controller list.
        size_t first = line.find(':');
        size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos)
            continue;
        std::string controllers = line.substr(first + 1, second - first - 1);
        std::string path = line.substr(second + 1);
        std::string base = root;
        if (!controllers.empty()) {
            if (("," + controllers + ",").find(",cpu,") == std::string::npos)
                continue;
            base += "/" + controllers;
        }
        while (true) {
            int cores = directory_cores(base + path);
            if (cores > 0)
                least = least == 0 ? cores : std::min(least, cores);
            if (path.empty() || path == "/")
                break;
            std::size_t parent = path.find_last_of('/');
            path.resize(parent == std::string::npos ? 0 : parent);
        }
    }
    return least;
}

CoreGrant core_grant()
{
    CoreGrant grant = affinity_grant();
    grant.quota = cgroup_quota_cores("/sys/fs/cgroup", read_text("/proc/self/cgroup"));
    return grant;
}

int cores_of_all(const std::vector<CoreGrant> &grants)
{
    std::map<std::uint64_t, std::int32_t> masks;
    int quota = 0;
    for (const CoreGrant &grant : grants) {
        masks[grant.mask] = std::max(grant.cores, 1);
        if (grant.quota > 0)
            quota = quota == 0 ? grant.quota : std::min(quota, grant.quota);
    }
    int cores = 0;
    for (const auto &[mask, count] : masks)
        cores += count;
    if (quota > 0)
        cores = std::min(cores, quota);
    return std::max(cores, 1);
}

int available_cores()
{
    return cores_of_all({core_grant()});
}

}  // namespace pm

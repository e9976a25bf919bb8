// Memory, limits, cores, interfaces and devices of this host.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/cpus.h"
#include "base/joined.h"
#include "inspector/doctor/examination.h"
#include "inspector/doctor/resolve.h"
#include "inspector/findings.h"
#include "netmod/udp/io/interfaces.h"
#include "netmod/udp/io/socket.h"

namespace pm::inspector {
namespace {

// What mpiexec's proxy needs for one rank, see src/launcher/README.md.
constexpr rlim_t descriptors_of_rank = 4;
constexpr rlim_t least_locked = rlim_t{64} << 20;  // what fabrics register for a small job
constexpr std::size_t good_buffer = std::size_t{4} << 20;
constexpr int least_mtu = 1280;

std::string limit_text(rlim_t limit, unsigned shift, const char *unit)
{
    return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit >> shift) + unit;
}

std::string first_line(const std::string &path)
{
    std::string line;
    std::ifstream file(path);
    std::getline(file, line);
    return line;
}

void examine_memory(Job *job, Advices *advices)
{
    Finding shmem = find_shmem(job);
    for (const Part &part : shmem.parts) {
        if (part.name == "cma") {
            bool works = part.detail != "does not work";
            advices->push_back({works ? Level::ok : Level::warning, "cma", part.detail,
                                works ? "" : "Large messages within the host are copied twice: set /proc/sys/kernel/yama/ptrace_scope to 0 or "
                                             "1, and give a container the capability SYS_PTRACE."});
            continue;
        }
        bool needed = part.why_not.empty() || part.detail != "does not work";
        advices->push_back({Level::ok, part.name == "/proc" ? "memory of others" : part.name, part.detail + (needed ? "" : ": " + part.why_not), ""});
    }
    if (shmem.why_not.empty())
        advices->push_back({Level::ok, "shmem", "used within the host", ""});
    else if (!job->why_forbidden(DeviceKind::shmem).empty())
        advices->push_back({Level::warning, "shmem", shmem.why_not, "Ranks of one host use a network instead, which is slower: leave the setting out."});
    else
        advices->push_back({Level::problem, "shmem", shmem.why_not,
                            "Ranks of one host have no shared memory: allow memfd_create(2), or mount /dev/shm and /proc in the container."});
}

void examine_limits(bool fabric, int cores, Advices *advices)
{
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t needed = 64 + descriptors_of_rank * static_cast<rlim_t>(cores);
    bool enough = limit.rlim_max >= needed;
    advices->push_back({enough ? Level::ok : Level::warning, "descriptors",
                        limit_text(limit.rlim_cur, 0, "") + ", at most " + limit_text(limit.rlim_max, 0, ""),
                        enough ? "" : "A rank on each core needs " + std::to_string(needed) + " of them: raise the hard limit (ulimit -Hn, limits.conf(5))."});
    getrlimit(RLIMIT_MEMLOCK, &limit);
    enough = !fabric || limit.rlim_max >= least_locked;
    advices->push_back({enough ? Level::ok : Level::warning, "locked memory",
                        limit_text(limit.rlim_max, 20, " MiB") + (fabric ? "" : "; only fabrics need it"),
                        enough ? "" : "A fabric locks the memory that it sends from: set memlock to unlimited for this user (limits.conf(5)), also for ssh."});
    getrlimit(RLIMIT_CORE, &limit);
    advices->push_back({Level::ok, "core dumps", limit.rlim_cur == 0 ? "off, and not needed" : "on, and not needed", ""});
}

void examine_cores(Facts *facts, Advices *advices)
{
    CoreGrant grant = core_grant();
    facts->cores = available_cores();
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    std::string found = std::to_string(online) + " in this host, " + std::to_string(grant.cores) + " allowed by the affinity mask, " +
                        (grant.quota > 0 ? std::to_string(grant.quota) + " by the quota of the cgroup" : "no quota of a cgroup");
    std::string advice;
    if (grant.quota > 0 && grant.quota < grant.cores)
        advice = "More than " + std::to_string(grant.quota) + " ranks that compute are stopped from time to time: start so many, or raise the quota "
                 "of the cgroup or container.";
    else if (grant.cores < online)
        advice = "A job that starts here has only the cores of the mask: widen it (taskset -p, the options of the batch system) if that is not meant.";
    advices->push_back({advice.empty() ? Level::ok : Level::warning, "cores", found, advice});
}

void examine_interfaces(const Finding &udp, const Job &job, Facts *facts, Advices *advices)
{
    facts->udp = udp.why_not.empty();
    std::vector<std::string> used, narrow;
    for (const Part &part : udp.parts) {
        if (!part.why_not.empty())
            continue;
        std::string mtu = first_line("/sys/class/net/" + part.name + "/mtu");
        used.push_back(part.name + " " + part.detail + " (MTU " + (mtu.empty() ? "unknown" : mtu) + ")");
        if (!mtu.empty() && std::atoi(mtu.c_str()) < least_mtu)
            narrow.push_back(part.name);
        auto address = parse_subnet(part.detail);
        if (address.ok() && part.name != "lo")
            facts->addresses.push_back(address.value().ip);
    }
    if (!facts->udp) {
        auto interfaces = udp::find_interfaces();
        for (const udp::Interface &each : interfaces.value())
            if (!each.loopback)
                facts->addresses.push_back(each.address.ip);
    }
    if (used.empty()) {
        bool meant = !job.why_forbidden(DeviceKind::udp).empty();
        advices->push_back({meant && facts->ucx ? Level::ok : Level::warning, "interfaces", udp.why_not,
                            meant && facts->ucx ? "" : meant ? "Other hosts are not reached by UDP: leave the setting out if that is not meant."
                                  : "Other hosts are not reached by UDP: bring an interface with an IP address up."});
    } else {
        std::string advice;
        if (!narrow.empty())
            advice = "An MTU below " + std::to_string(least_mtu) + " makes " + joined(narrow, ", ") + " slow: raise it if the network allows that.";
        advices->push_back({advice.empty() ? Level::ok : Level::warning, "interfaces",
                            joined(used, ", ") + (facts->addresses.empty() ? ": jobs on this host only" : ""), advice});
    }
    auto ports = udp::parse_ports(setting("UDP_PORTS"));
    if (!ports.ok()) {
        advices->push_back({Level::problem, "ports of UDP", ports.error().text, "No job can start with this setting."});
        return;
    }
    udp::SocketSettings settings;
    settings.ports = ports.value();
    auto socket = udp::Socket::create(settings);
    if (!socket.ok()) {
        settings.v6 = false;
        socket = udp::Socket::create(settings);
    }
    if (!socket.ok()) {
        advices->push_back({facts->udp ? Level::problem : Level::warning, "ports of UDP", socket.error().text, "A rank that uses UDP needs a port."});
        return;
    }
    std::size_t buffer = socket.value()->receive_buffer();
    advices->push_back({buffer >= good_buffer ? Level::ok : Level::warning, "buffer of UDP", std::to_string(buffer >> 10) + " KiB",
                        buffer >= good_buffer ? "" : "Many senders at once lose packets, which are sent again: sysctl -w net.core.rmem_max=" +
                                                         std::to_string(good_buffer) + " net.core.wmem_max=" + std::to_string(good_buffer) + "."});
}

// Whether there is a fabric, used or not.
bool examine_ucx(const Finding &ucx, Facts *facts, Advices *advices)
{
    facts->ucx = ucx.why_not.empty();
    std::vector<std::string> used, cards;
    for (const Part &part : ucx.parts)
        if (part.why_not.empty())
            used.push_back(part.name + " " + part.detail);
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/sys/class/infiniband", error))
        cards.push_back(entry.path().filename().string());
    std::ranges::sort(cards);
    std::string found = used.empty() ? "not used: " + ucx.why_not : joined(used, ", ");
    bool idle = used.empty() && !cards.empty();
    advices->push_back({idle ? Level::warning : Level::ok, "ucx" + (ucx.version.empty() ? "" : " " + ucx.version),
                        found + (idle ? "; this host has " + joined(cards, ", ") : ""),
                        idle ? "The fabric is there and not used: mpicomposite devices shows why; UCX needs its verbs module and locked memory." : ""});
    return !cards.empty();
}

void examine_pages(Advices *advices)
{
    std::string shmem = first_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled"), count = first_line("/proc/sys/vm/nr_hugepages");
    std::size_t begin = shmem.find('['), end = shmem.find(']');
    std::string mode = begin < end && end != std::string::npos ? shmem.substr(begin + 1, end - begin - 1) : "unknown";
    advices->push_back({Level::ok, "hugepages", (count.empty() ? "none" : count) + " reserved, transparent ones for shared memory: " + mode + "; not needed", ""});
}

}  // namespace

Examination examine_this_host()
{
    Examination examination;
    Facts *facts = &examination.facts;
    Advices *advices = &examination.advices;
    facts->host = host_name();
    Job job = read_settings();
    examine_installation(&examination);
    examine_memory(&job, advices);
    Resolved own = resolve(facts->host);
    advices->push_back({own.trouble.empty() ? Level::ok : Level::warning, "own name",
                        facts->host + (own.trouble.empty() ? " is " + address_list(own.addresses) : ": " + own.trouble),
                        own.trouble.empty() ? "" : "mpiexec tells other hosts this name: add it to /etc/hosts or to the DNS, on all hosts."});
    examine_cores(facts, advices);
    find_networks(&job);
    Finding ucx = find_ucx(&job), udp = find_udp(&job);
    bool fabric = examine_ucx(ucx, facts, advices);
    examine_interfaces(udp, job, facts, advices);
    examine_limits(fabric, facts->cores, advices);
    examine_pages(advices);
    for (const std::string &error : job.errors)
        advices->push_back({Level::problem, "settings", error, "No job can start with this setting."});
    return examination;
}

}  // namespace pm::inspector

// SHMEM: which memory can be had, and what another process of this user may do with it.
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "base/file.h"
#include "inspector/findings.h"
#include "netmod/routing/settings.h"
#include "shmmod/pull.h"
#include "shmmod/segment.h"

namespace pm::inspector {
namespace {

constexpr std::size_t small_file = 4096;

// What one process may do with the memory of another. As with ranks, neither is the other's parent, whom the kernel may allow
// more.
struct Neighbours {
    bool open = false;  // its file, through /proc
    bool pull = false;  // its memory, by CMA
};

// The owner says that it is ready and stays until the end of the test.
void be_owner(const int (&ready)[2], const int (&end)[2])
{
    close(end[1]);
    shmem::allow_pull_from_us();
    char word = 0;
    if (write(ready[1], &word, 1) == 1)
        while (read(end[0], &word, 1) < 0 && errno == EINTR)
            ;
    _exit(0);
}

Neighbours try_neighbours(int file)
{
    static const std::uint64_t word = 0x6e65696768626f72;
    int ready[2], end[2], status = 0;
    if (pipe(ready) != 0 || pipe(end) != 0)
        return {};
    pid_t owner = fork();
    if (owner == 0)
        be_owner(ready, end);
    close(ready[1]);
    pid_t reader = owner < 0 ? -1 : fork();
    if (reader == 0) {
        char seen = 0;
        bool there = read(ready[0], &seen, 1) == 1;
        bool open = there && shmem::open_file_of(owner, file).ok();
        bool pull = there && shmem::pull_works(owner, reinterpret_cast<std::uint64_t>(&word), word);
        _exit((open ? 1 : 0) | (pull ? 2 : 0));
    }
    bool ended = reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status);
    close(ready[0]);
    close(end[0]);
    close(end[1]);
    if (owner > 0)
        waitpid(owner, nullptr, 0);
    int bits = ended ? WEXITSTATUS(status) : 0;
    return {(bits & 1) != 0, (bits & 2) != 0};
}

std::string mebibytes(std::uint64_t bytes)
{
    return std::to_string(bytes >> 20) + " MiB";
}

std::string space_of_devshm()
{
    struct statvfs space;
    if (statvfs("/dev/shm", &space) != 0 || space.f_blocks == 0)
        return "size unknown";
    return mebibytes(space.f_blocks * space.f_frsize) + ", " + mebibytes(space.f_bavail * space.f_frsize) + " free";
}

}  // namespace

Finding find_shmem(Job *job)
{
    Finding finding{DeviceKind::shmem, {}, job->why_forbidden(DeviceKind::shmem), {}};
    auto backing = shmem::parse_backing(setting("SHMEM_BACKING"));
    if (!backing.ok())
        job->errors.push_back(backing.error().text);
    auto rendezvous = parse_rendezvous(setting("SHMEM_RNDV"));
    if (!rendezvous.ok())
        job->errors.push_back(rendezvous.error().text);

    auto memfd = shmem::create_nameless_file(shmem::Backing::memfd, small_file);
    Part memfd_part{"memfd", memfd.ok() ? "works" : "does not work", ""};
    if (!memfd.ok())
        memfd_part.why_not = memfd.error().text;
    else if (backing.value() == shmem::Backing::devshm)
        memfd_part.why_not = setting_is("SHMEM_BACKING");
    auto devshm = shmem::create_nameless_file(shmem::Backing::devshm, small_file);
    Part devshm_part{"/dev/shm", devshm.ok() ? space_of_devshm() : "does not work", ""};
    if (!devshm.ok())
        devshm_part.why_not = devshm.error().text;
    else if (backing.value() == shmem::Backing::memfd)
        devshm_part.why_not = setting_is("SHMEM_BACKING");
    else if (memfd_part.why_not.empty())
        devshm_part.why_not = "memfd is there (MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING=devshm would use it)";
    bool any = memfd_part.why_not.empty() || devshm_part.why_not.empty();

    Neighbours neighbours;
    if (any)
        neighbours = try_neighbours((memfd_part.why_not.empty() ? memfd : devshm).value().get());
    Part open_part{"/proc", neighbours.open ? "a process can open the memory of another" : "does not work", ""};
    if (!neighbours.open)
        open_part.why_not = any ? "a process cannot open the memory of another through /proc (it must be mounted, and not hide "
                                  "the processes of the same user)"
                                : "there is no memory to share";
    Part pull_part{"cma", neighbours.pull ? "a process can read the memory of another" : "does not work", ""};
    if (!neighbours.pull)
        pull_part.why_not = "the kernel or the container forbids it (process_vm_readv(2), /proc/sys/kernel/yama/ptrace_scope); "
                            "large messages take the pipeline";
    else if (rendezvous.value() == Rendezvous::pipeline)
        pull_part.why_not = setting_is("SHMEM_RNDV");

    if (finding.why_not.empty() && !any)
        finding.why_not = "there is no memory to share";
    else if (finding.why_not.empty())
        finding.why_not = open_part.why_not;
    finding.parts = {memfd_part, devshm_part, open_part, pull_part};
    return finding;
}

}  // namespace pm::inspector

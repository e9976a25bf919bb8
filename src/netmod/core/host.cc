// The file that the processes of the job share on this host, as start-up uses it.
#include <dirent.h>
#include <errno.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <span>

#include "netmod/core/setup.h"
#include "netmod/core/state.h"

struct pm_host {
    std::shared_ptr<pm::shmem::HostFile> file;
};

namespace pm {

std::shared_ptr<shmem::HostFile> file_of(const pm_host *host)
{
    return host != nullptr ? host->file : nullptr;
}

static pm_host *made(Result<std::shared_ptr<shmem::HostFile>> &&file)
{
    if (!file.ok()) {
        failed(file.error());
        return nullptr;
    }
    return new pm_host{std::move(file.value())};
}

}  // namespace pm

extern "C" {

int pm_make_room(void)
{
    constexpr rlim_t wanted = 48, least = 3;  // UCX has most of them; without it a few at a time will do
    rlimit limit{};
    DIR *directory = opendir("/proc/self/fd");
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || (directory == nullptr && errno != EMFILE)) {
        if (directory != nullptr)
            closedir(directory);
        return PM_OK;
    }
    // One that is inherited may be beyond the limit.
    rlim_t open = 0;
    while (dirent *entry = directory != nullptr ? readdir(directory) : nullptr)
        open += entry->d_name[0] != '.' && std::strtoul(entry->d_name, nullptr, 10) < limit.rlim_cur;
    if (directory != nullptr)
        closedir(directory);
    rlim_t left = directory != nullptr ? limit.rlim_cur - open + 1 : 0;  // what we looked with is closed again
    if (left < wanted && limit.rlim_cur < limit.rlim_max) {
        rlim_t more = std::min(limit.rlim_max - limit.rlim_cur, wanted - left);
        limit.rlim_cur += more;
        if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
            left += more;
    }
    if (left >= least)
        return PM_OK;
    return pm::failed({pm::Status::failed, "of the " + std::to_string(limit.rlim_max) + " files that this process may have open " +
                                               "(ulimit -n) " + std::to_string(left) + " are left; MPI needs " +
                                               std::to_string(least) + " at least, and some more for each network of UCX"});
}

pm_host *pm_host_create(const char *backing, int processes, int ranks, pm_host_name *name)
{
    auto wanted = pm::shmem::parse_backing(backing);
    pm_host *host = wanted.ok() ? pm::made(pm::shmem::HostFile::create(wanted.value(), static_cast<std::uint32_t>(processes),
                                                                       static_cast<std::uint32_t>(ranks)))
                                : nullptr;
    if (host != nullptr) {
        pm::shmem::HostFileName own = host->file->name();
        *name = {own.token, own.process, own.file};
    }
    return host;
}

pm_host *pm_host_join(const pm_host_name *name)
{
    return pm::made(pm::shmem::HostFile::open({name->token, name->process, name->file}));
}

int pm_host_put(pm_host *host, int rank, const void *card, size_t size)
{
    std::span bytes(static_cast<const std::byte *>(card), size);
    pm::Error error = host->file->put_card(static_cast<std::uint32_t>(rank), bytes);
    return error ? pm::failed(error) : PM_OK;
}

int pm_host_cards(pm_host *host, const void **cards, size_t *sizes)
{
    auto read = host->file->cards();
    if (!read.ok())
        return pm::failed(read.error());
    for (std::span<const std::byte> card : read.value()) {
        *cards++ = card.data();
        *sizes++ = card.size();
    }
    return PM_OK;
}

void pm_host_leave(pm_host *host)
{
    if (host != nullptr)
        host->file->forget_cards();
    delete host;
}

}  // extern "C"

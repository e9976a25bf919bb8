#include "shmmod/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace pm::shmem {

Result<Backing> parse_backing(std::string_view text)
{
    if (text == "auto")
        return Backing::automatic;
    if (text == "memfd")
        return Backing::memfd;
    if (text == "devshm")
        return Backing::devshm;
    return Error{Status::invalid,
                 "unknown shared-memory backing \"" + std::string(text) + "\" in MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING; known are auto, memfd, devshm"};
}

Mapping::Mapping(Mapping &&other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}

Mapping &Mapping::operator=(Mapping &&other) noexcept
{
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
}

Mapping::~Mapping()
{
    if (data_ != nullptr)
        munmap(data_, size_);
}

Result<Mapping> Mapping::create(int file, std::size_t offset, std::size_t size)
{
    // To touch what is beyond the end would be SIGBUS.
    struct stat status {};
    if (fstat(file, &status) != 0 || offset > static_cast<std::size_t>(status.st_size) ||
        size > static_cast<std::size_t>(status.st_size) - offset)
        return Error{Status::unreachable, "mapping " + std::to_string(size) + " bytes of shared memory: there are not so many behind " +
                                              std::to_string(offset) + " in this file"};
    void *address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
    if (address == MAP_FAILED)
        return system_error("mapping " + std::to_string(size) + " bytes of shared memory", errno);
    Mapping mapping;
    mapping.data_ = static_cast<std::byte *>(address);
    mapping.size_ = size;
    return mapping;
}

Result<File> create_nameless_file(Backing backing, std::size_t size)
{
    int descriptor = -1;
    if (backing != Backing::devshm)
        descriptor = memfd_create("mpich-composite", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    std::string tried = "memfd_create";
    if (descriptor < 0 && backing != Backing::memfd) {
        tried = backing == Backing::devshm ? "an unnamed file in /dev/shm" : "memfd_create, then an unnamed file in /dev/shm";
        descriptor = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    }
    if (descriptor < 0)
        return system_error("creating shared memory by " + tried +
                                " (mount a tmpfs on /dev/shm or allow memfd_create; see "
                                "MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING)",
                            errno);
    File file(descriptor);
    // Beyond it the kernel would send SIGXFSZ.
    rlimit largest{};
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && largest.rlim_cur < size)
        return Error{Status::no_memory, "shared memory: a sparse file of " + std::to_string(size / 1024) +
                                            " KiB is beyond the limit on the size of files (ulimit -f), " +
                                            std::to_string(largest.rlim_cur / 1024) + " KiB"};
    if (ftruncate(descriptor, static_cast<off_t>(size)) != 0)
        return system_error("making a shared-memory file of " + std::to_string(size) + " bytes (sparse)", errno);
    // Whoever has it open cannot take memory away from under the others. A file in /dev/shm has no seals.
    fcntl(descriptor, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
    return file;
}

namespace {

// Empty for memory that is not of a file system with a limit.
std::string describe_space(int file, std::size_t *left)
{
    struct statvfs space;
    if (fstatvfs(file, &space) != 0 || space.f_blocks == 0)
        return {};
    *left = space.f_bavail * space.f_frsize;
    return "its file system has " + std::to_string(space.f_blocks * space.f_frsize / 1024) + " KiB, " +
           std::to_string(*left / 1024) + " KiB of them free; enlarge it (mount -o remount,size=1G /dev/shm, or docker run "
           "--shm-size=1g), or do not set MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING=devshm";
}

std::string kibibytes(std::size_t size)
{
    return std::to_string((size + 1023) / 1024) + " KiB";
}

}  // namespace

Error reserve(int file, std::size_t offset, std::size_t size)
{
    int result;
    do
        result = fallocate(file, 0, static_cast<off_t>(offset), static_cast<off_t>(size));
    while (result != 0 && errno == EINTR);
    if (result == 0)
        return {};
    int error_number = errno;
    std::size_t left;
    std::string space = error_number == ENOSPC ? describe_space(file, &left) : "";
    return system_error("shared memory: reserving " + kibibytes(size) + (space.empty() ? "" : " (" + space + ")"), error_number);
}

void find_pages(std::byte *begin, std::size_t size)
{
#ifdef MADV_POPULATE_WRITE
    madvise(begin, detail::round_up(size, page_size()), MADV_POPULATE_WRITE);
#endif
}

bool give_up(int file, std::size_t offset, std::size_t size)
{
    int result;
    do
        result = fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
    while (result != 0 && errno == EINTR);
    return result == 0;
}

Error check_space(int file, std::size_t size, const std::string &purpose)
{
    std::size_t left = 0;
    std::string space = describe_space(file, &left);
    if (space.empty() || left >= size)
        return {};
    return {Status::no_memory, "shared memory: " + purpose + " need " + kibibytes(size) + ", but " + space};
}

std::size_t page_size()
{
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Result<File> open_file_of(std::int32_t process, std::int32_t file)
{
    std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
    int descriptor = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0) {
        Error error = system_error("opening the shared memory of process " + std::to_string(process) + " (" + path + ")", errno);
        error.status = Status::unreachable;
        return error;
    }
    return File(descriptor);
}

}  // namespace pm::shmem

// Messages of objects as active messages of MPI (MPIX_Am_send).
#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <functional>
#include <mutex>
#include <new>
#include <thread>

#include "objects.hh"

namespace composite {

namespace {

constexpr std::chrono::milliseconds alarm_interval{500};

// A process, as others on its host find it. Memory that is shared does not tell that its other side has ended; the kernel does.
struct Process {
    std::uint64_t host = 0;  // equal when both see the same process numbers
    std::int64_t number = 0;
    std::uint64_t started = 0;  // so that another one with the same number is not taken for it

    static Process self()
    {
        Process self;
        char text[256] = "", space[64] = "";
        if (std::FILE *file = std::fopen("/proc/sys/kernel/random/boot_id", "r")) {
            if (std::fgets(text, 64, file) == nullptr)
                text[0] = 0;
            std::fclose(file);
        }
        if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
            space[0] = 0;
        self.host = std::hash<std::string>()(std::string(text) + space);
        self.number = getpid();
        self.running(self.started);
        return self;
    }
    // Whether there is a process of this number that has not ended, and when it was started.
    bool running(std::uint64_t &since) const
    {
        const std::string path = "/proc/" + std::to_string(number) + "/stat";
        std::FILE *file = std::fopen(path.c_str(), "r");
        if (file == nullptr)
            return errno != ENOENT && errno != ESRCH;
        char text[1024];
        const std::size_t length = std::fread(text, 1, sizeof text - 1, file);
        std::fclose(file);
        text[length] = 0;
        // The name before it may have anything in it.
        const char *behind = std::strrchr(text, ')');
        char state = 0;
        unsigned long long start = 0;
        if (behind == nullptr || std::sscanf(behind + 1, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                                             &state, &start) != 2)
            return length > 0;
        since = start;
        return state != 'Z' && state != 'X';
    }
};

std::string sentence(int code)
{
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(code, text, &length);
    return std::string(text, static_cast<std::size_t>(length));
}

void check(int code, const char *what)
{
    if (code != MPI_SUCCESS)
        throw Error(std::string(what) + " failed: " + sentence(code));
}

class ActiveMessages final : public Network {
  public:
    ActiveMessages(MPI_Comm comm, const Options &options) : alone_(options.workers == 0)
    {
        int initialized = 0, provided = MPI_THREAD_SINGLE;
        MPI_Initialized(&initialized);
        if (initialized == 0)
            throw Error("a session needs MPI: call MPI_Init_thread before");
        MPI_Query_thread(&provided);
        if (options.workers > 0 && provided < MPI_THREAD_MULTIPLE)
            throw Error(
                "a session with worker threads needs MPI_THREAD_MULTIPLE: ask MPI_Init_thread for it, or use Options without workers");
        check(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup for a session");
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
        const Process self = Process::self();
        processes_.resize(static_cast<std::size_t>(size_));
        check(MPI_Allgather(&self, sizeof self, MPI_BYTE, processes_.data(), sizeof self, MPI_BYTE, comm_), "MPI_Allgather for a session");
    }
    ~ActiveMessages() override { MPI_Comm_free(&comm_); }

    void begin(Runtime &to) override
    {
        runtime_ = &to;
        check(MPIX_Am_register("composite objects", arrived, place, this, comm_, &handler_), "MPIX_Am_register for a session");
        if (alone_ && size_ > 1)
            alarm_ = std::thread([this] {
                std::unique_lock lock(mutex_);
                while (!ending_.wait_for(lock, alarm_interval, [this] { return end_; }))
                    __atomic_store_n(&came_, 1, __ATOMIC_RELAXED);
            });
    }
    void end() override
    {
        if (alarm_.joinable()) {
            {
                std::lock_guard lock(mutex_);
                end_ = true;
            }
            ending_.notify_one();
            alarm_.join();
        }
        MPIX_Am_deregister(handler_, comm_);
    }
    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void send(int rank, std::span<const std::byte> header, std::span<const std::byte> data) override
    {
        check(MPIX_Am_send(header.data(), static_cast<int>(header.size()), data.data(), static_cast<MPI_Count>(data.size()), rank, handler_,
                           comm_),
              "sending a message");
    }

    void multicast(const std::vector<int> &ranks, std::span<const std::byte> header, std::span<const std::byte> data) override
    {
        std::vector<MPIX_Bitmap> members(static_cast<std::size_t>(MPIX_BITMAP_WORDS(size_)), 0);
        for (const int each : ranks)
            MPIX_Bitmap_set(members.data(), each);
        check(MPIX_Am_mcast(header.data(), static_cast<int>(header.size()), data.data(), static_cast<MPI_Count>(data.size()),
                            members.data(), handler_, comm_),
              "sending a message to several ranks");
    }

    void progress() override { MPIX_Am_progress(comm_); }

    void sleep() override
    {
        // Handlers may run in MPI's own thread, too. [J10] sees what a handler posted that we forget here; pairs with [J9].
        __atomic_exchange_n(&came_, 0, __ATOMIC_ACQUIRE);
        MPIX_Am_progress(comm_);
        if (runtime_->nothing_to_run())
            MPIX_Am_wait(&came_);
    }

    bool alive(int rank) override
    {
        const Process &other = processes_[static_cast<std::size_t>(rank)];
        std::uint64_t since = other.started;
        return other.host != processes_[static_cast<std::size_t>(rank_)].host || (other.running(since) && since == other.started);
    }

  private:
    static void *place(const MPIX_Am_message *message, void *)
    {
        try {
            return Block::take(static_cast<std::size_t>(message->size))->data();
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    }
    static void arrived(const MPIX_Am_message *message, void *state)
    {
        auto *self = static_cast<ActiveMessages *>(state);
        BlockPointer block;
        if (message->size > 0)
            block.reset(Block::of(message->data));
        self->runtime_->arrived(message->source,
                                {static_cast<const std::byte *>(message->header), static_cast<std::size_t>(message->header_size)},
                                std::move(block));
        __atomic_store_n(&self->came_, 1, __ATOMIC_RELEASE);  // [J9] publishes what was posted; pairs with [J10]
    }

    std::vector<Process> processes_;
    Runtime *runtime_ = nullptr;
    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, handler_ = 0;
    volatile int came_ = 0;

    // The only thread sleeps until a message comes, and none comes from a rank that is dead: somebody must wake it to look.
    const bool alone_;
    std::thread alarm_;
    std::mutex mutex_;
    std::condition_variable ending_;
    bool end_ = false;
};

std::unique_ptr<Network> open_network(MPI_Comm comm, const Options &options) { return std::make_unique<ActiveMessages>(comm, options); }

}  // namespace

Session::Session(MPI_Comm comm, const Options &options) : Runtime(open_network(comm, options), options) {}
Session::~Session() = default;

}  // namespace composite

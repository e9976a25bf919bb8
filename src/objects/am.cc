// Messages of objects as active messages of MPI (MPIX_Am_send).
#include <mpi.h>

#include <new>

#include "objects.hh"

namespace composite {

namespace {

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
    ActiveMessages(MPI_Comm comm, const Options &options)
    {
        int initialized = 0, provided = MPI_THREAD_SINGLE;
        MPI_Initialized(&initialized);
        if (initialized == 0)
            throw Error("a session needs MPI: call MPI_Init_thread before");
        MPI_Query_thread(&provided);
        if (options.workers > 0 && provided < MPI_THREAD_MULTIPLE)
            throw Error("a session with worker threads needs MPI_THREAD_MULTIPLE: ask MPI_Init_thread for it, or use Options without workers");
        check(MPI_Comm_dup(comm, &comm_), "MPI_Comm_dup for a session");
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);
        MPI_Comm_rank(comm_, &rank_);
        MPI_Comm_size(comm_, &size_);
    }
    ~ActiveMessages() override { MPI_Comm_free(&comm_); }

    void begin(Runtime &to) override
    {
        runtime_ = &to;
        check(MPIX_Am_register("composite objects", arrived, place, this, comm_, &handler_), "MPIX_Am_register for a session");
    }
    void end() override { MPIX_Am_deregister(handler_, comm_); }
    int rank() const override { return rank_; }
    int size() const override { return size_; }

    void send(int rank, std::span<const std::byte> header, std::span<const std::byte> data) override
    {
        check(MPIX_Am_send(header.data(), static_cast<int>(header.size()), data.data(), static_cast<MPI_Count>(data.size()), rank, handler_, comm_),
              "sending a message");
    }

    void multicast(const std::vector<int> &ranks, std::span<const std::byte> header, std::span<const std::byte> data) override
    {
        std::vector<MPIX_Bitmap> members(static_cast<std::size_t>(MPIX_BITMAP_WORDS(size_)), 0);
        for (const int each : ranks)
            MPIX_Bitmap_set(members.data(), each);
        check(MPIX_Am_mcast(header.data(), static_cast<int>(header.size()), data.data(), static_cast<MPI_Count>(data.size()), members.data(), handler_,
                            comm_),
              "sending a message to several ranks");
    }

    void progress() override { MPIX_Am_progress(comm_); }

    void sleep() override
    {
        // The handlers run in this thread only, so nothing comes between the look and the wait.
        came_ = 0;
        MPIX_Am_progress(comm_);
        if (came_ == 0)
            MPIX_Am_wait(&came_);
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
        self->came_ = 1;
        BlockPointer block;
        if (message->size > 0)
            block.reset(Block::of(message->data));
        self->runtime_->arrived(message->source, {static_cast<const std::byte *>(message->header), static_cast<std::size_t>(message->header_size)},
                               std::move(block));
    }

    Runtime *runtime_ = nullptr;
    MPI_Comm comm_ = MPI_COMM_NULL;
    int rank_ = 0, size_ = 1, handler_ = 0;
    volatile int came_ = 0;
};

std::unique_ptr<Network> open_network(MPI_Comm comm, const Options &options) { return std::make_unique<ActiveMessages>(comm, options); }

}  // namespace

Session::Session(MPI_Comm comm, const Options &options) : Runtime(open_network(comm, options), options) {}
Session::~Session() = default;

}  // namespace composite

/* Everybody tells everybody up to 64 bytes, in one turn of each rank. Part of composite_coll.c.
 *
 * Messages of its own, without requests or matching: one needs a tenth of the time of an MPI message. They are counted by
 * communicator (its context id) and by turn: somebody may be one exchange ahead of us, but not two, since for that it would need
 * our message of the next one. So two sets of counters and bytes are enough. A message may come before we have made
 * the communicator: whoever comes first makes the state. It ends with the communicator, whose id is not used
 * again before. */
#ifndef COMPOSITE_EXCHANGE_H_INCLUDED
#define COMPOSITE_EXCHANGE_H_INCLUDED

typedef struct {
    MPIR_Context_id_t context_id;
    uint8_t turn;
    uint8_t rank;
    uint32_t size;
    char bytes[PM_EXCHANGE_BYTES_LIMIT];
} exchange_message_t;

typedef struct {
    char bytes[2][PM_EXCHANGE_RANKS_LIMIT][PM_EXCHANGE_BYTES_LIMIT];
    int heard[2];
    unsigned turn;
} exchange_t;

static exchange_t *exchanges[1 << (8 * sizeof(MPIR_Context_id_t))];
static int exchange_handler;

static exchange_t *exchange_of(MPIR_Context_id_t context_id)
{
    if (exchanges[context_id] == NULL) {
        exchanges[context_id] = MPL_calloc(1, sizeof(exchange_t), MPL_MEM_COLL);
        MPIR_Assertp(exchanges[context_id]);
    }
    return exchanges[context_id];
}

static int exchange_arrived(void *am_hdr, void *data, MPI_Aint data_sz, uint32_t attr, MPIR_Request ** req)
{
    exchange_message_t *message = am_hdr;
    exchange_t *exchange = exchange_of(message->context_id);

    memcpy(exchange->bytes[message->turn][message->rank], message->bytes, message->size);
    exchange->heard[message->turn]++;
    return MPI_SUCCESS;
}

/* `*all` is what each rank gave, ours included; valid until our next exchange on this communicator. */
static int exchange_bytes(const void *bytes, size_t size, MPIR_Comm * comm, char (**all)[PM_EXCHANGE_BYTES_LIMIT])
{
    int mpi_errno = MPI_SUCCESS;
    int ranks = comm->local_size;
    bool done = false;
    exchange_message_t message;
    exchange_t *exchange;

    MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
    exchange = exchange_of(comm->context_id);
    message.context_id = comm->context_id;
    message.turn = exchange->turn & 1;
    message.rank = comm->rank;
    message.size = size;
    memcpy(message.bytes, bytes, size);
    memcpy(exchange->bytes[message.turn][comm->rank], bytes, size);
    for (int i = 1; i < ranks && mpi_errno == MPI_SUCCESS; i++)
        mpi_errno = MPIDI_NM_am_send_hdr((comm->rank + i) % ranks, comm, exchange_handler, &message,
                                         offsetof(exchange_message_t, bytes) + size, 0, 0);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    while (mpi_errno == MPI_SUCCESS) {
        MPID_THREAD_CS_ENTER(VCI, MPIDI_VCI(0).lock);
        done = exchange->heard[message.turn] == ranks - 1;
        MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
        if (done)
            break;
        mpi_errno = MPID_Progress_test(NULL);
        if (exchange->heard[message.turn] != ranks - 1)
            MPIDI_COMPOSITE_WAIT_MESSAGE();
    }
    exchange->heard[message.turn] = 0;
    exchange->turn++;
    *all = exchange->bytes[message.turn];
    return mpi_errno;
}

#endif

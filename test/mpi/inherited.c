/* What was wrong in MPICH 4.0.2 and is not here (doc/differences.md), as far as it has no program of its own. */
#include "expect.h"
#include <stddef.h>

static void expect_nothing(const MPI_Status *status, const char *what)
{
    int count = -1;
    MPI_Get_count(status, MPI_INT, &count);
    EXPECT(status->MPI_SOURCE == MPI_PROC_NULL && status->MPI_TAG == MPI_ANY_TAG && count == 0, "%s: source %d, tag %d, count %d",
           what, status->MPI_SOURCE, status->MPI_TAG, count);
}

static void spoil(MPI_Status *status)
{
    status->MPI_SOURCE = 3;
    status->MPI_TAG = 4;
    MPI_Status_set_elements(status, MPI_INT, 5);
}

/* Messages from nobody. */
static void nobody(void)
{
    int value = 17, flag, index, outcount, indices[2];
    MPI_Request request, two[2];
    MPI_Message message;
    MPI_Status status, statuses[2];

#define FROM_NOBODY(what, ...) do { spoil(&status); __VA_ARGS__; expect_nothing(&status, what); } while (0)
#define IRECV MPI_Irecv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &request)
    FROM_NOBODY("MPI_Recv", MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
    FROM_NOBODY("MPI_Wait", IRECV; MPI_Wait(&request, &status));
    FROM_NOBODY("MPI_Test", IRECV; MPI_Test(&request, &flag, &status));
    FROM_NOBODY("MPI_Waitall", IRECV; MPI_Waitall(1, &request, &status));
    FROM_NOBODY("MPI_Testall", IRECV; MPI_Testall(1, &request, &flag, &status));
    FROM_NOBODY("MPI_Waitany", IRECV; MPI_Waitany(1, &request, &index, &status));
    FROM_NOBODY("MPI_Testany", IRECV; MPI_Testany(1, &request, &index, &flag, &status));
    FROM_NOBODY("MPI_Waitsome", IRECV; MPI_Waitsome(1, &request, &outcount, indices, &status));
    FROM_NOBODY("MPI_Testsome", IRECV; MPI_Testsome(1, &request, &outcount, indices, &status));
    FROM_NOBODY("MPI_Request_get_status", IRECV; MPI_Request_get_status(request, &flag, &status); MPI_Wait(&request, MPI_STATUS_IGNORE));
    FROM_NOBODY("MPI_Probe", MPI_Probe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
    FROM_NOBODY("MPI_Iprobe", MPI_Iprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &status));
    FROM_NOBODY("MPI_Mprobe", MPI_Mprobe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &message, &status));
    EXPECT(message == MPI_MESSAGE_NO_PROC, "MPI_Mprobe found a message");
    FROM_NOBODY("MPI_Mrecv", MPI_Mrecv(&value, 1, MPI_INT, &message, &status));
    FROM_NOBODY("MPI_Improbe", MPI_Improbe(MPI_PROC_NULL, 5, MPI_COMM_WORLD, &flag, &message, &status));
    FROM_NOBODY("MPI_Imrecv", MPI_Imrecv(&value, 1, MPI_INT, &message, &request); MPI_Wait(&request, &status));
    FROM_NOBODY("MPI_Sendrecv", MPI_Sendrecv(&value, 1, MPI_INT, MPI_PROC_NULL, 5, &value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
    FROM_NOBODY("MPI_Sendrecv_replace", MPI_Sendrecv_replace(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &status));
    EXPECT(value == 17, "the buffer was written to");

    /* Persistent ones are active between start and completion, as others are. */
    MPI_Recv_init(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &two[0]);
    MPI_Send_init(&value, 1, MPI_INT, MPI_PROC_NULL, 5, MPI_COMM_WORLD, &two[1]);
    for (int start = 0; start < 3; start++) {
        MPI_Waitany(2, two, &index, &status);
        EXPECT(index == MPI_UNDEFINED, "request %d was not started", index);
        MPI_Startall(2, two);
        if (start == 0) {
            spoil(&statuses[0]);
            MPI_Waitall(2, two, statuses);
            expect_nothing(&statuses[0], "MPI_Recv_init");
        } else if (start == 1) {
            int found = 0;
            for (int i = 0; i < 2; i++) {
                MPI_Waitany(2, two, &index, &status);
                EXPECT(index == 0 || index == 1, "MPI_Waitany did not find what was started");
                found |= index == 0 ? 1 : 2;
                if (index == 0)
                    expect_nothing(&status, "MPI_Recv_init, MPI_Waitany");
            }
            EXPECT(found == 3, "MPI_Waitany found one of two");
        } else {
            FROM_NOBODY("MPI_Recv_init, MPI_Test", MPI_Test(&two[0], &flag, &status));
            MPI_Wait(&two[1], MPI_STATUS_IGNORE);
        }
    }
    MPI_Start(&two[0]);
    MPI_Request_free(&two[0]);
    MPI_Request_free(&two[1]);
}

/* Of a communicator that nobody has asked for its group. */
static void create_group(void)
{
    MPI_Comm fresh, reversed, made, sub;
    MPI_Group world, odd;
    int members[64], n = 0, size, sum = 0, one = 1;

    MPI_Comm_group(MPI_COMM_WORLD, &world);
    for (int i = 1; i < ranks; i += 2)
        members[n++] = i;
    MPI_Group_incl(world, n, members, &odd);
    MPI_Comm_dup(MPI_COMM_WORLD, &fresh);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &reversed);
    if (rank % 2 == 1) {
        MPI_Comm_create_group(fresh, odd, 3, &made);
        MPI_Comm_size(made, &size);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, made);
        EXPECT(size == n && sum == n, "%d ranks, sum %d", size, sum);
        MPI_Comm_create_group(reversed, odd, 4, &sub);
        MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, sub);
        EXPECT(sum == n, "sum %d of a part", sum);
        MPI_Comm_free(&sub);
        MPI_Comm_free(&made);
    }
    MPI_Group_free(&odd);
    MPI_Group_free(&world);
    MPI_Comm_free(&fresh);
    MPI_Comm_free(&reversed);
}

/* Messages to oneself whose request is freed before they are received, on MPI_COMM_SELF and what is like it. */
static void self(void)
{
    enum { n = 5000 };
    static int out[n], in[n];
    static char buffer[n * sizeof(int) + MPI_BSEND_OVERHEAD];
    void *detached;
    int size, flag;
    MPI_Comm comm;
    MPI_Request request;
    MPI_Status status;
    MPI_Message message;
    MPI_Datatype gapped;

    MPI_Comm_dup(MPI_COMM_SELF, &comm);
    MPI_Type_vector(n / 5, 1, 5, MPI_INT, &gapped);
    MPI_Type_commit(&gapped);
    MPI_Buffer_attach(buffer, sizeof buffer);
    for (int way = 0; way < 9; way++) {
        for (int i = 0; i < n; i++)
            out[i] = way * n + i, in[i] = -1;
        switch (way) {
        case 0: case 5: case 6: case 7: MPI_Isend(out, n, MPI_INT, 0, way, comm, &request); break;
        case 1: MPI_Issend(out, n, MPI_INT, 0, way, comm, &request); break;
        case 2: MPI_Ibsend(out, n, MPI_INT, 0, way, comm, &request); break;
        case 3: MPI_Send_init(out, n, MPI_INT, 0, way, comm, &request); MPI_Start(&request); break;
        case 4: MPI_Irecv(in, n, MPI_INT, 0, way, comm, &request); break;
        case 8: MPI_Isend(out, 1, gapped, 0, way, comm, &request); break;
        }
        MPI_Request_free(&request);
        EXPECT(request == MPI_REQUEST_NULL, "the request is still there");
        /* Others take what was given back too early. */
        for (int i = 0; i < 20; i++) {
            MPI_Irecv(in, 0, MPI_INT, 0, 99, comm, &request);
            MPI_Cancel(&request);
            MPI_Wait(&request, &status);
            MPI_Test_cancelled(&status, &flag);
            EXPECT(flag, "a receive from oneself was not cancelled");
        }
        if (way == 4) {
            MPI_Send(out, n, MPI_INT, 0, way, comm);
        } else if (way == 5) {
            MPI_Probe(0, way, comm, &status);
            MPI_Recv(in, n, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &status);
        } else if (way == 6) {
            MPI_Mprobe(0, MPI_ANY_TAG, comm, &message, &status);
            MPI_Mrecv(in, n, MPI_INT, &message, &status);
        } else if (way == 7) {
            MPI_Irecv(in, n, MPI_INT, 0, way, comm, &request);
            MPI_Wait(&request, &status);
        } else if (way == 8) {
            MPI_Recv(in, 1, gapped, 0, way, comm, &status);
        } else {
            MPI_Recv(in, n, MPI_INT, 0, way, comm, &status);
            MPI_Get_count(&status, MPI_INT, &size);
            EXPECT(size == n && status.MPI_TAG == way, "%d elements of tag %d", size, status.MPI_TAG);
        }
        for (int i = 0; i < n; i += 5)
            EXPECT(in[i] == out[i], "way %d: element %d is %d", way, i, in[i]);
    }
    MPI_Buffer_detach(&detached, &size);
    MPI_Isend(out, n, MPI_INT, 0, 1, comm, &request);
    MPI_Cancel(&request);
    MPI_Wait(&request, &status);
    MPI_Test_cancelled(&status, &flag);
    EXPECT(flag, "a send to oneself was not cancelled");
    MPI_Iprobe(0, 1, comm, &flag, &status);
    EXPECT(!flag, "a cancelled message is still there");
    MPI_Type_free(&gapped);
    MPI_Comm_free(&comm);
}

/* The predefined pairs in files: some have a gap, which is not in the file. */
static const struct pair {
    const char *name;
    MPI_Datatype type;
    size_t value, index, extent;        /* bytes of the value, where the int is, and where the next pair is */
} *pairs_list(int *n)
{
    static struct pair list[6];
    int i = 0;
#define PAIR(name, c) do { struct it { c a; int b; }; \
        list[i++] = (struct pair) { #name, name, sizeof(c), offsetof(struct it, b), sizeof(struct it) }; } while (0)
    PAIR(MPI_FLOAT_INT, float);
    PAIR(MPI_DOUBLE_INT, double);
    PAIR(MPI_LONG_INT, long);
    PAIR(MPI_SHORT_INT, short);
    PAIR(MPI_2INT, int);
    PAIR(MPI_LONG_DOUBLE_INT, long double);
    *n = i;
    return list;
}

static void fill_bytes(unsigned char *bytes, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)mix(i * 64 + seed);
}

static void pairs(void)
{
    enum { n = 37 };
    static unsigned char out[2 * n * 64], in[2 * n * 64], raw[2 * n * 64], expected[2 * n * 64];
    char name[64];
    int kinds, pid = (int)mix(MPI_Wtime() * 1e6) & 0xffffff;
    const struct pair *list = pairs_list(&kinds);

    MPI_Bcast(&pid, 1, MPI_INT, 0, MPI_COMM_WORLD);
    snprintf(name, sizeof name, "pairs.%d.%d", pid, rank);
    for (int k = 0; k < kinds; k++) {
        const struct pair *p = &list[k];
        int packed;
        MPI_Status status;
        MPI_File file;
        MPI_Datatype twice, strided;
        MPI_Type_size(p->type, &packed);
        fill_bytes(out, sizeof out, k);
        for (int way = 0; way < 4; way++) {
            int count = -1;
            MPI_File_open(MPI_COMM_SELF, name, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
            MPI_File_set_size(file, 0);
            MPI_Type_contiguous(2, p->type, &twice);
            MPI_Type_commit(&twice);
            MPI_Type_vector(n, 1, 2, p->type, &strided);
            MPI_Type_commit(&strided);
            memset(in, 0xee, sizeof in);
            memset(raw, 0, sizeof raw);
            if (way == 0) {
                MPI_File_write_at(file, 0, out, n, p->type, MPI_STATUS_IGNORE);
                MPI_File_read_at(file, 0, in, n, p->type, &status);
            } else if (way == 1) {
                MPI_File_write_at_all(file, 0, out, n / 2, twice, MPI_STATUS_IGNORE);
                MPI_File_read_at_all(file, 0, in, n / 2, twice, &status);
            } else if (way == 2) {
                /* The file has the gaps, too: its view is made of pairs. */
                MPI_File_set_view(file, 0, p->type, p->type, "native", MPI_INFO_NULL);
                MPI_File_write_at(file, 1, out, n, p->type, MPI_STATUS_IGNORE);
                MPI_File_read_at(file, 1, in, n, p->type, &status);
            } else {
                MPI_File_set_view(file, 8, p->type, strided, "native", MPI_INFO_NULL);
                MPI_File_write_all(file, out, n, p->type, MPI_STATUS_IGNORE);
                MPI_File_seek(file, 0, MPI_SEEK_SET);
                MPI_File_read_all(file, in, n, p->type, &status);
            }
            MPI_Get_count(&status, MPI_BYTE, &count);
            EXPECT(count == packed * (way == 1 ? n / 2 * 2 : n), "%s, way %d: %d bytes read", p->name, way, count);
            int written = way == 1 ? n / 2 * 2 : n;
            for (int i = 0; i < written; i++) {
                EXPECT(memcmp(out + i * p->extent, in + i * p->extent, p->value) == 0, "%s, way %d: value %d differs", p->name, way, i);
                EXPECT(memcmp(out + i * p->extent + p->index, in + i * p->extent + p->index, sizeof(int)) == 0,
                       "%s, way %d: int %d differs", p->name, way, i);
                for (size_t b = p->value; b < p->index; b++)
                    EXPECT(in[i * p->extent + b] == 0xee, "%s, way %d: the gap of pair %d was written to", p->name, way, i);
            }
            /* The bytes in the file. */
            MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
            MPI_File_read_at(file, 0, raw, sizeof raw, MPI_BYTE, MPI_STATUS_IGNORE);
            /* What nobody has written may be anything. */
            memcpy(expected, raw, sizeof expected);
            for (int i = 0; i < written; i++) {
                size_t at = way < 2 ? (size_t)i * packed : way == 2 ? (i + 1) * p->extent : 8 + 2 * i * p->extent;
                size_t second = way < 2 ? p->value : p->index;
                memcpy(expected + at, out + i * p->extent, p->value);
                memcpy(expected + at + second, out + i * p->extent + p->index, sizeof(int));
            }
            EXPECT(memcmp(expected, raw, sizeof raw) == 0, "%s, way %d: the file is wrong", p->name, way);
            MPI_Type_free(&twice);
            MPI_Type_free(&strided);
            MPI_File_close(&file);
        }
    }
    MPI_File_delete(name, MPI_INFO_NULL);
}

/* Partitions: ready once, of a send, while it is active. What is wrong is an error, and harms nothing. */
static void partitions(void)
{
    enum { n = 4, each = 1000 };
    static int out[n * each], in[n * each];
    int list[2] = { 2, 3 }, flag, twice[2] = { 0, 0 };
    MPI_Request send, receive, other;

    MPI_Psend_init(out, n, each, MPI_INT, (rank + 1) % ranks, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, n, each, MPI_INT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    for (int start = 0; start < 3; start++) {
        for (int i = 0; i < n * each; i++)
            out[i] = rank + start * 100 + i, in[i] = -1;
        expect_class(MPI_Pready(0, send), MPI_ERR_REQUEST, "MPI_Pready before MPI_Start");
        MPI_Start(&receive);
        MPI_Start(&send);
        EXPECT(MPI_Pready(n, send) != MPI_SUCCESS, "MPI_Pready of a partition too many");
        EXPECT(MPI_Pready(-1, send) != MPI_SUCCESS, "MPI_Pready of partition -1");
        expect_class(MPI_Pready(0, receive), MPI_ERR_REQUEST, "MPI_Pready of a receive");
        expect_class(MPI_Pready_list(2, twice, send), MPI_ERR_ARG, "MPI_Pready_list of the same partition twice");
        MPI_Pready(1, send);
        for (int again = 0; again < 3 * n; again++)
            expect_class(MPI_Pready(1, send), MPI_ERR_ARG, "MPI_Pready of a partition that is ready");
        expect_class(MPI_Pready_range(0, 2, send), MPI_ERR_ARG, "MPI_Pready_range of a partition that is ready");
        MPI_Pready(0, send);
        MPI_Pready_list(2, list, send);
        expect_class(MPI_Parrived(send, 0, &flag), MPI_ERR_REQUEST, "MPI_Parrived of a send");
        EXPECT(MPI_Parrived(receive, n, &flag) != MPI_SUCCESS, "MPI_Parrived of a partition too many");
        for (flag = 0; !flag;)
            MPI_Parrived(receive, start % n, &flag);
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        MPI_Wait(&receive, MPI_STATUS_IGNORE);
        for (int i = 0; i < n * each; i++)
            EXPECT(in[i] == (rank + ranks - 1) % ranks + start * 100 + i, "start %d: element %d is %d", start, i, in[i]);
        expect_class(MPI_Pready(0, send), MPI_ERR_REQUEST, "MPI_Pready after completion");
        MPI_Parrived(receive, 0, &flag);
        EXPECT(flag, "MPI_Parrived of an inactive request is false");
    }
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
    MPI_Psend_init(out, n, each, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &send);
    MPI_Precv_init(in, n, each, MPI_INT, MPI_PROC_NULL, 0, MPI_COMM_WORLD, MPI_INFO_NULL, &receive);
    for (int start = 0; start < 2; start++) {
        MPI_Status status;
        MPI_Start(&send);
        MPI_Start(&receive);
        MPI_Pready_range(0, n - 1, send);
        MPI_Parrived(receive, 0, &flag);
        EXPECT(flag, "nothing has not arrived from nobody");
        MPI_Wait(&send, MPI_STATUS_IGNORE);
        spoil(&status);
        MPI_Wait(&receive, &status);
        expect_nothing(&status, "MPI_Precv_init");
    }
    MPI_Irecv(in, 1, MPI_INT, rank, 9, MPI_COMM_WORLD, &other);
    EXPECT(MPI_Pready(0, other) != MPI_SUCCESS, "MPI_Pready of an ordinary request");
    EXPECT(MPI_Parrived(other, 0, &flag) != MPI_SUCCESS, "MPI_Parrived of an ordinary request");
    MPI_Send(out, 1, MPI_INT, rank, 9, MPI_COMM_WORLD);
    MPI_Wait(&other, MPI_STATUS_IGNORE);
    MPI_Request_free(&send);
    MPI_Request_free(&receive);
}

/* ---- neighbours that are the same rank several times ---- */

enum { SLOTS = 6, LONGEST = SLOTS + 1 };
/* Who it is, and which of its blocks is the one for us. */
typedef struct {
    int peer, block;
} neighbour;

static int value_at(int from, int block, int i, int round) { return from * 10000 + block * 100 + i + round * 100000; }

/* Each block has a length of its own, but for MPI_Neighbor_alltoall. */
static void exchange(MPI_Comm comm, const char *what, int slots, const neighbour *sources, int kind, int mode)
{
    static const char *const kinds[] = { "alltoall", "alltoallv", "alltoallw" }, *const modes[] = { "blocking", "nonblocking", "persistent" };
    int out[SLOTS][LONGEST], in[SLOTS][LONGEST], sends[SLOTS], receives[SLOTS], places[SLOTS], me;
    MPI_Aint far[SLOTS];
    MPI_Datatype types[SLOTS];
    MPI_Request request = MPI_REQUEST_NULL;

    MPI_Comm_rank(comm, &me);
    for (int slot = 0; slot < slots; slot++) {
        sends[slot] = kind ? slot + 1 : LONGEST;
        receives[slot] = kind ? sources[slot].block + 1 : LONGEST;
        places[slot] = slot * LONGEST;
        far[slot] = (MPI_Aint) sizeof(int) * places[slot];
        types[slot] = MPI_INT;
    }
#define EACH_WAY(name, ...) \
    (mode == 0 ? MPI_Neighbor_##name(__VA_ARGS__, comm) : mode == 1 ? MPI_Ineighbor_##name(__VA_ARGS__, comm, &request) : \
     MPI_Neighbor_##name##_init(__VA_ARGS__, comm, MPI_INFO_NULL, &request))
    for (int round = 0; round < (mode == 2 ? 2 : 1); round++) {
        for (int slot = 0; slot < slots; slot++)
            for (int i = 0; i < LONGEST; i++) {
                out[slot][i] = value_at(me, slot, i, round);
                in[slot][i] = -1;
            }
        if (round == 0 && kind == 0)
            EACH_WAY(alltoall, out, LONGEST, MPI_INT, in, LONGEST, MPI_INT);
        else if (round == 0 && kind == 1)
            EACH_WAY(alltoallv, out, sends, places, MPI_INT, in, receives, places, MPI_INT);
        else if (round == 0)
            EACH_WAY(alltoallw, out, sends, far, types, in, receives, far, types);
        if (mode == 2)
            MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
        for (int slot = 0; slot < slots; slot++)
            for (int i = 0; i < LONGEST; i++) {
                int expected = i < receives[slot] ? value_at(sources[slot].peer, sources[slot].block, i, round) : -1;
                EXPECT(in[slot][i] == expected, "%s, %s, %s, start %d, block %d, number %d: %d, not %d", what, kinds[kind], modes[mode], round, slot, i,
                       in[slot][i], expected);
            }
    }
    if (mode == 2)
        MPI_Request_free(&request);
}

static void exchange_all_ways(MPI_Comm comm, const char *what, int slots, const neighbour *sources)
{
    for (int kind = 0; kind < 3; kind++)
        for (int mode = 0; mode < 3; mode++)
            exchange(comm, what, slots, sources, kind, mode);
}

/* Grids of one rank and of two: what goes to the lower neighbour of a dimension arrives as that of the upper one. Graphs: the first block for a rank is
 * the first one from there. */
static void neighbours(void)
{
    static const int sides[][3] = { {1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 2} }, periodic[3] = { 1, 1, 1 };
    MPI_Comm two, comm;
    int size;

    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, rank, &two);
    MPI_Comm_size(two, &size);
    for (int shape = 0; shape < 4; shape++)
        for (int dimensions = 1; dimensions <= 3; dimensions++) {
            neighbour sources[SLOTS];
            int grid_size = 1, me;
            for (int d = 0; d < dimensions; d++)
                grid_size *= sides[shape][d];
            if (grid_size > size)
                continue;
            MPI_Cart_create(grid_size == 1 ? MPI_COMM_SELF : two, dimensions, sides[shape], periodic, 0, &comm);
            MPI_Comm_rank(comm, &me);
            for (int slot = 0; slot < 2 * dimensions; slot++)
                sources[slot] = (neighbour) { sides[shape][slot / 2] == 2 ? !me : me, slot ^ 1 };
            exchange_all_ways(comm, "grid", 2 * dimensions, sources);
            MPI_Comm_free(&comm);
        }

    /* Edges several times, in another order at either end. */
    if (size == 2) {
        int me;
        MPI_Comm_rank(two, &me);
        int from[] = { !me, !me, me, !me, me }, to[] = { me, !me, me, !me, !me };
        neighbour sources[] = { {!me, 1}, {!me, 3}, {me, 0}, {!me, 4}, {me, 2} };
        MPI_Dist_graph_create_adjacent(two, 5, from, MPI_UNWEIGHTED, 5, to, MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &comm);
        exchange_all_ways(comm, "graph", 5, sources);
        MPI_Comm_free(&comm);
    }
    MPI_Comm_free(&two);
}

int main(int argc, char **argv)
{
    const struct part parts[] = {
        { "nobody", nobody, 1, 0 },
        { "create_group", create_group, 2, 0 },
        { "self", self, 1, 0 },
        { "pairs", pairs, 1, 0 },
        { "partitions", partitions, 1, 0 },
        { "neighbours", neighbours, 1, 0 },
    };
    MPI_Init(&argc, &argv);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    int status = run_parts(parts, sizeof parts / sizeof parts[0], argc, argv);
    MPI_Finalize();
    return status;
}

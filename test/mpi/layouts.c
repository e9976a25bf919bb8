/* Datatypes drawn from a seed, regular ones and others, sent as they are and packed, received as they are and packed, expected and not. What
 * arrives is compared with what MPI_Pack and MPI_Unpack make of it, and what is between must stay. Exit status 0 only when all is so. */
#include "expect.h"

enum { kinds = 9 };

static uint64_t state;

/* The same numbers for all ranks. */
static int draw(int least, int most)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return least + (int) ((state >> 33) % (uint64_t) (most - least + 1));
}

static MPI_Datatype basic(void)
{
    const MPI_Datatype types[] = { MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_FLOAT, MPI_DOUBLE, MPI_DOUBLE_COMPLEX, MPI_DOUBLE_INT };

    return types[draw(0, 7)];
}

static MPI_Datatype subarray(MPI_Datatype old)
{
    int whole[3], part[3], start[3], dimensions = draw(1, 3);
    MPI_Datatype made;

    for (int i = 0; i < dimensions; i++) {
        part[i] = draw(1, 6);
        start[i] = draw(0, 3);
        whole[i] = start[i] + part[i] + draw(0, 2);
    }
    MPI_Type_create_subarray(dimensions, whole, part, start, draw(0, 1) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &made);
    return made;
}

static MPI_Datatype indexed(MPI_Datatype old)
{
    int lengths[4], displacements[4], next = 0, count = draw(1, 4);
    MPI_Datatype made;

    for (int i = 0; i < count; i++) {
        displacements[i] = next + draw(0, 3);
        lengths[i] = draw(1, 4);
        next = displacements[i] + lengths[i];
    }
    MPI_Type_indexed(count, lengths, displacements, old, &made);
    return made;
}

static MPI_Datatype structure(MPI_Datatype old, MPI_Aint extent)
{
    const int lengths[] = { 1, 2 };
    const MPI_Aint displacements[] = { 3 * extent, draw(0, 1) * extent };
    const MPI_Datatype types[] = { old, old };
    MPI_Datatype made;

    MPI_Type_create_struct(2, lengths, displacements, types, &made);
    return made;
}

/* Nothing in it overlaps. */
static MPI_Datatype combined(MPI_Datatype old, int kind)
{
    MPI_Aint lb, extent;
    int blocks = draw(1, 20), length = draw(1, 9), stride = length + draw(0, 2) * draw(0, 5);
    MPI_Datatype made = MPI_DATATYPE_NULL;

    MPI_Type_get_extent(old, &lb, &extent);
    if (draw(0, 7) == 0)
        stride = -stride;
    switch (kind) {
    case 0:
    case 1:
        MPI_Type_vector(blocks, length, stride, old, &made);
        break;
    case 2:
        MPI_Type_create_hvector(blocks, length, stride * extent + (stride > 0 ? 16 : -16), old, &made);
        break;
    case 3:
        MPI_Type_contiguous(blocks, old, &made);
        break;
    case 4:
        MPI_Type_create_resized(old, lb, extent + 16 * draw(0, 3), &made);
        break;
    case 5:
        MPI_Type_dup(old, &made);
        break;
    case 6:
        made = subarray(old);
        break;
    case 7:
        made = indexed(old);
        break;
    case 8:
        made = structure(old, extent);
        break;
    }
    return made;
}

/* Of at most `most` bytes. The last two kinds are not regular. */
static MPI_Datatype drawn(int most)
{
    const int kinds_here = draw(0, 2) ? kinds - 2 : kinds;
    MPI_Datatype type;

    MPI_Type_dup(basic(), &type);
    for (int level = draw(1, 4); level > 0; level--) {
        MPI_Datatype made = combined(type, draw(0, kinds_here - 1));
        MPI_Count size, lb, extent;

        MPI_Type_size_x(made, &size);
        MPI_Type_get_extent_x(made, &lb, &extent);
        if (size > most || extent > 8 * most) {
            MPI_Type_free(&made);
            break;
        }
        MPI_Type_free(&type);
        type = made;
    }
    MPI_Type_commit(&type);
    return type;
}

typedef struct {
    char *memory, *base;        /* where a message of the type begins */
    size_t room;
} buffer_t;

static buffer_t buffer_for(MPI_Datatype type, int count)
{
    MPI_Aint lb, extent, true_lb, true_extent;
    buffer_t made;

    MPI_Type_get_extent(type, &lb, &extent);
    MPI_Type_get_true_extent(type, &true_lb, &true_extent);
    made.room = (size_t) (extent * (count - 1) + true_extent) + 32;
    made.memory = malloc(made.room);
    made.base = made.memory + 16 - true_lb;
    return made;
}

static void fill(buffer_t * buffer, int source, int round)
{
    for (size_t i = 0; i < buffer->room; i++)
        buffer->memory[i] = (char) ((i * 2654435761u >> 13) + (size_t) source * 31 + (size_t) round);
}

enum { asked, unasked, matched, ways };

/* One message to the next rank, one from the last, as the types say; what has come is as long as it should be. */
static void pass(const void *out, int out_count, MPI_Datatype out_type, void *in, int in_count, MPI_Datatype in_type, int size, int way)
{
    const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    MPI_Request requests[2];
    MPI_Status statuses[2];
    int count;

    if (way == asked) {
        MPI_Irecv(in, in_count, in_type, from, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Isend(out, out_count, out_type, to, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, statuses);
    } else if (way == matched) {
        MPI_Message message;

        MPI_Issend(out, out_count, out_type, to, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Mprobe(from, 1, MPI_COMM_WORLD, &message, &statuses[0]);
        MPI_Mrecv(in, in_count, in_type, &message, &statuses[0]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    } else {
        MPI_Isend(out, out_count, out_type, to, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Probe(from, 1, MPI_COMM_WORLD, &statuses[0]);
        MPI_Recv(in, in_count, in_type, from, 1, MPI_COMM_WORLD, &statuses[0]);
        MPI_Wait(&requests[1], MPI_STATUS_IGNORE);
    }
    MPI_Get_count(&statuses[0], MPI_BYTE, &count);
    EXPECT(count == size, "%d bytes came, not %d", count, size);
}

static void play(int round)
{
    const int most = 1 << draw(4, 19);
    MPI_Datatype type = drawn(most);
    const int way = draw(0, ways - 1);
    int size, count, spare = draw(0, 2), position = 0;
    char *out_packed, *in_packed, *from_packed;
    buffer_t out, in, wanted;

    MPI_Type_size(type, &size);
    count = most / size > 2000 ? 2000 : most / size < 1 ? 1 : most / size;
    size *= count;
    out = buffer_for(type, count);
    in = buffer_for(type, count + spare);
    wanted = buffer_for(type, count + spare);
    out_packed = malloc((size_t) size);
    in_packed = malloc((size_t) size);
    from_packed = malloc((size_t) size);

    /* What the last rank sends, and what this should make of it. */
    fill(&out, (rank + ranks - 1) % ranks, round);
    MPI_Pack(out.base, count, type, from_packed, size, &position, MPI_COMM_SELF);
    memset(wanted.memory, '.', wanted.room);
    position = 0;
    MPI_Unpack(from_packed, size, &position, wanted.base, count, type, MPI_COMM_SELF);
    fill(&out, rank, round);
    position = 0;
    MPI_Pack(out.base, count, type, out_packed, size, &position, MPI_COMM_SELF);

    memset(in.memory, '.', in.room);
    pass(out.base, count, type, in.base, count + spare, type, size, way);
    EXPECT(memcmp(in.memory, wanted.memory, in.room) == 0, "round %d, %d bytes: wrong as they are", round, size);
    pass(out.base, count, type, in_packed, size, MPI_PACKED, size, way);
    EXPECT(memcmp(in_packed, from_packed, (size_t) size) == 0, "round %d, %d bytes: wrong when received packed", round, size);
    memset(in.memory, '.', in.room);
    pass(out_packed, size, MPI_PACKED, in.base, count + spare, type, size, way);
    EXPECT(memcmp(in.memory, wanted.memory, in.room) == 0, "round %d, %d bytes: wrong when sent packed", round, size);

    MPI_Type_free(&type);
    free(out.memory);
    free(in.memory);
    free(wanted.memory);
    free(out_packed);
    free(in_packed);
    free(from_packed);
}

/* Numbers into every other place: fewer than there are places, and more, which is an error and does not touch what is behind. */
static void too_few_and_too_many(int number, int way)
{
    const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
    double *out = calloc((size_t) number, sizeof *out), *in = calloc((size_t) number * 2, sizeof *in);
    int class, elements;
    MPI_Datatype half, whole;
    MPI_Request request, received;
    MPI_Status status;

    MPI_Type_vector(number / 2, 1, 2, MPI_DOUBLE, &half);
    MPI_Type_vector(number, 1, 2, MPI_DOUBLE, &whole);
    MPI_Type_commit(&half);
    MPI_Type_commit(&whole);
    for (int i = 0; i < number; i++)
        out[i] = i + 1;

    MPI_Isend(out, number - 3, MPI_DOUBLE, to, 2, MPI_COMM_WORLD, &request);
    MPI_Recv(in, 1, whole, from, 2, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Get_elements(&status, whole, &elements);
    EXPECT(elements == number - 3, "%d numbers came, not %d", elements, number - 3);
    EXPECT(in[2 * (number - 4)] == number - 3 && in[2 * (number - 3)] == 0, "%d numbers: wrong at the end", number - 3);

    memset(in, 0, (size_t) number * 2 * sizeof *in);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (way == asked) {
        MPI_Irecv(in, 1, half, from, 3, MPI_COMM_WORLD, &received);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Isend(out, number, MPI_DOUBLE, to, 3, MPI_COMM_WORLD, &request);
    if (way != asked) {
        MPI_Probe(from, 3, MPI_COMM_WORLD, &status);
        MPI_Irecv(in, 1, half, from, 3, MPI_COMM_WORLD, &received);
    }
    MPI_Error_class(MPI_Wait(&received, MPI_STATUS_IGNORE), &class);
    EXPECT(class == MPI_ERR_TRUNCATE, "%d numbers into %d: class %d", number, number / 2, class);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    for (int i = 2 * (number / 2) - 1; i < 2 * number; i++)
        EXPECT(in[i] == 0, "%d numbers into %d: place %d has %f", number, number / 2, i, in[i]);

    MPI_Type_free(&half);
    MPI_Type_free(&whole);
    free(out);
    free(in);
}

int main(int argc, char **argv)
{
    const int rounds = argc > 1 ? atoi(argv[1]) : 300;
    long all = 0, here;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    part = "layouts";
    state = argc > 2 ? (uint64_t) atoi(argv[2]) : 1;
    for (int round = 0; round < rounds; round++)
        play(round);
    for (int number = 8; number <= 80000; number *= 10)
        for (int way = asked; way <= unasked; way++)
            too_few_and_too_many(number, way);
    here = wrong;
    MPI_Allreduce(&here, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("layouts: %d ranks, %ld wrong\n", ranks, all);
    MPI_Finalize();
    return all != 0;
}

/* Usage: cvars NAME=VALUE...
 * The settings of ours as control variables of MPI_T: there are many, each has a sentence and is found by its name, and those that are
 * named have this value, which the environment gave them. */
#include "expect.h"

static int count;

/* As text, whatever its type is. */
static void read_text(int number, MPI_Datatype type, char *text, size_t room)
{
    MPI_T_cvar_handle handle;
    int length, whole = 0;
    char *value;
    MPI_T_cvar_handle_alloc(number, NULL, &handle, &length);
    if (type == MPI_CHAR) {
        value = calloc((size_t) length + 1, 1);
        MPI_T_cvar_read(handle, value);
        snprintf(text, room, "%s", value);
        free(value);
    } else {
        EXPECT(length == 1, "%d numbers", length);
        MPI_T_cvar_read(handle, &whole);
        snprintf(text, room, "%d", whole);
    }
    MPI_T_cvar_handle_free(&handle);
}

static const char *wanted(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], name, strlen(name)) == 0 && argv[i][strlen(name)] == '=')
            return argv[i] + strlen(name) + 1;
    return NULL;
}

int main(int argc, char **argv)
{
    static const char prefix[] = "MPIR_CVAR_CH4_COMPOSITE_";
    int provided, all, found = 0, told = 0;
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_T_cvar_get_num(&all);
    for (int i = 0; i < all; i++) {
        char name[200], sentence[2000], text[500];
        int name_size = sizeof name, sentence_size = sizeof sentence, verbosity, bind, scope, number = -1;
        MPI_Datatype type;
        MPI_T_enum enumeration;
        MPI_T_cvar_get_info(i, name, &name_size, &verbosity, &type, &enumeration, sentence, &sentence_size, &bind, &scope);
        if (strncmp(name, prefix, sizeof prefix - 1) != 0)
            continue;
        count++;
        EXPECT(strlen(sentence) > 10, "%s has no sentence", name);
        EXPECT(MPI_T_cvar_get_index(name, &number) == MPI_SUCCESS && number == i, "%s is found as %d, not %d", name, number, i);
        read_text(i, type, text, sizeof text);
        const char *value = wanted(name + sizeof prefix - 1, argc, argv);
        if (value) {
            found++;
            EXPECT(strcmp(text, value) == 0, "%s is %s, not %s", name, text, value);
        }
    }
    for (int i = 1; i < argc; i++)
        told += strchr(argv[i], '=') != NULL;
    EXPECT(found == told, "%d of %d settings were found", found, told);
    EXPECT(count >= 30, "there are only %d", count);
    MPI_Finalize();
    MPI_T_finalize();
    return wrong != 0;
}

/* A page of this process that other processes of the same user find as /proc/PID/fd/N: they ask on it what the process does, and it answers when it
 * makes progress. Nothing is sent and nobody is interrupted; a process that does not come to answer has said at least how far MPI is. */
#ifndef PM_QUESTION_H_INCLUDED
#define PM_QUESTION_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#include "netmod/core/core.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PM_QUESTION_NAME "mpich-composite-question"
#define PM_QUESTION_MAGIC 0x31796877706d6f63u
#define PM_QUESTION_TEXT 4096   /* where the answer begins in the file */

enum { PM_PHASE_INIT, PM_PHASE_RUNS, PM_PHASE_FINALIZE, PM_PHASE_OVER };

typedef struct pm_question_page {
    uint64_t magic;
    int32_t rank, size;         /* in the job */
    uint32_t phase;
    uint32_t asked;             /* questions so far: whoever asks adds one, */
    uint32_t answered;          /* and waits until this is not behind */
    uint32_t version;           /* of the answer, odd while it is being written */
    uint32_t length;            /* of the answer */
} pm_question_page;

/* PM_FAILED where such a file cannot be made: then nobody can ask. */
int pm_question_open(int rank, int size);
void pm_question_phase(int phase);
/* The last question if it is not answered, or 0. */
uint32_t pm_question_asked(void);
void pm_question_answer(uint32_t question, const char *text, size_t size);

/* What the answer of one rank (netmod/report/state.h) says in words: malloc'ed. */
char *pm_state_in_words(const char *text, size_t size);

/* Over which device and network messages to a peer go, for a line of an answer. */
void pm_path_in_words(const pm_peer *peer, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif

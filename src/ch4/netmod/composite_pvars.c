/* Performance variables: what each device has carried in this process so far, for tools that speak MPI_T. */
#include "mpidimpl.h"
#include "composite_impl.h"
#include "composite_report.h"
#include "netmod/core/setup.h"

enum { MESSAGES_SENT, BYTES_SENT, MESSAGES_RECEIVED, BYTES_RECEIVED, MESSAGES_DROPPED, KINDS };

/* `which` is the number of the variable: its device, then its kind. */
static void read_counter(void *which, void *object, int count, void *value)
{
    pm_traffic traffic[PM_DEVICES_MAX];
    uintptr_t number = (uintptr_t) which - 1;
    unsigned long long counter = 0;

    MPID_THREAD_CS_ENTER_REC_VCI(MPIDI_VCI(0).lock);    /* peers may be given back meanwhile */
    int devices = pm_get_traffic(MPIDI_COMPOSITE_global.core, traffic);
    MPID_THREAD_CS_EXIT(VCI, MPIDI_VCI(0).lock);
    if ((int) (number / KINDS) < devices) {
        const pm_traffic *of = &traffic[number / KINDS];
        uint64_t all[KINDS] = { of->messages_sent, of->bytes_sent, of->messages_received, of->bytes_received, of->messages_dropped };
        counter = all[number % KINDS];
    }
    *(unsigned long long *) value = counter;
}

void MPIDI_COMPOSITE_register_pvars(void)
{
    static const char *kinds[KINDS] = { "messages_sent", "bytes_sent", "messages_received", "bytes_received", "messages_dropped" };
    static const char *words[KINDS] = { "Messages this process sent over", "Bytes of payload this process sent over",
        "Messages this process received over", "Bytes of payload this process received over",
        "Messages that this process dropped for their tag, size, sender or contents from"
    };
    static char names[PM_DEVICES_MAX * KINDS][64];      /* MPICH keeps the pointers */
    static bool registered = false;
    pm_traffic traffic[PM_DEVICES_MAX];
    int devices = pm_get_traffic(MPIDI_COMPOSITE_global.core, traffic);

    if (registered)
        return;
    registered = true;
    for (int device = 0; device < devices; device++) {
        for (int kind = 0; kind < KINDS; kind++) {
            char description[128];
            uintptr_t which = 1 + device * KINDS + kind;
            char *name = names[which - 1];
            snprintf(name, sizeof names[0], "composite_%s_%s", traffic[device].device, kinds[kind]);
            snprintf(description, sizeof description, "%s the device %s", words[kind], traffic[device].device);
            MPIR_T_PVAR_REGISTER_impl(MPI_T_PVAR_CLASS_COUNTER, MPI_UNSIGNED_LONG_LONG, name, (void *) which, 1, MPI_T_ENUM_NULL,
                                      MPI_T_VERBOSITY_USER_BASIC, MPI_T_BIND_NO_OBJECT,
                                      MPIR_T_PVAR_FLAG_READONLY | MPIR_T_PVAR_FLAG_CONTINUOUS, read_counter, NULL,
                                      "CH4_COMPOSITE", description);
        }
    }
}

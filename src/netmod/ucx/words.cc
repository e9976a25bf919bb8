#include "netmod/ucx/words.h"

#include <ucs/debug/log_def.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace pm::ucx {
namespace {

std::mutex mutex;  // UCX has threads of its own
std::string words;

ucs_log_func_rc_t note(const char *, unsigned, const char *, ucs_log_level_t level, const ucs_log_component_config_t *,
                       const char *message, va_list arguments)
{
    if (level > UCS_LOG_LEVEL_WARN)
        return UCS_LOG_FUNC_RC_CONTINUE;
    char text[256];
    va_list copy;
    va_copy(copy, arguments);
    std::vsnprintf(text, sizeof text, message, copy);
    va_end(copy);
    if (level == UCS_LOG_LEVEL_WARN) {  // Ucx::create() sets these, whatever transports there are
        bool ours = std::strstr(text, "UCX_TCP_CONN_NB") != nullptr || std::strstr(text, "UCX_TCP_KEEPIDLE") != nullptr;
        return ours ? UCS_LOG_FUNC_RC_STOP : UCS_LOG_FUNC_RC_CONTINUE;
    }
    std::lock_guard lock(mutex);
    words = text;
    return UCS_LOG_FUNC_RC_STOP;
}

}  // namespace

void listen_to_ucx()
{
    static std::once_flag once;
    std::call_once(once, [] {
        if (std::getenv("UCX_LOG_LEVEL") == nullptr)
            ucs_log_push_handler(note);
    });
}

std::string last_words()
{
    std::lock_guard lock(mutex);
    std::string said = words.empty() ? std::string() : "; UCX said: " + words;
    words.clear();
    return said;
}

}  // namespace pm::ucx

// What a user may set, from text to types. Unknown names and words are errors that list the known ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pm {

// The settings, MPIR_CVAR_CH4_COMPOSITE_NAME (composite_cvars.c), and what their values look like. Words have meanings that are
// checked where they are used.
struct Setting {
    enum class Kind { words, flag, count, seconds };
    const char *name;
    Kind kind = Kind::words;
    long least = 0, most = 0;  // of numbers
    const char *meaning_of_zero = nullptr;
};
const std::vector<Setting> &known_settings();

// Whether NAME=VALUE is a setting of ours with a value that makes sense, or nothing of ours. MPICH also reads MPIR_PARAM_ and MPICH_
// instead of MPIR_CVAR_.
Error check_variable(std::string_view entry);

// Devices this library was built with, best first.
const std::vector<std::string> &known_devices();

// "auto", or a list such as "shmem,udp", best first.
Result<std::vector<std::string>> parse_devices(std::string_view text);

enum class Rendezvous { automatic, pipeline, pull, joint };
Result<Rendezvous> parse_rendezvous(std::string_view text);

// Whether these mean something: "given" or "measure"; "off", "init", "text", "json" or a name with an ending that tells a format.
Error check_priority(std::string_view text);
Error check_routes(std::string_view text);
// "0", "1" and what else is a flag; "profile", and behind a colon its format, as for routes.
Error check_report(std::string_view text);

}  // namespace pm

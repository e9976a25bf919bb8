// What a user may set, from text to types. Unknown words are errors that list the known ones.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace pm {

// Devices this library was built with, best first.
const std::vector<std::string> &known_devices();

// "auto", or a list such as "shmem,udp", best first.
Result<std::vector<std::string>> parse_devices(std::string_view text);

enum class Rendezvous { automatic, pipeline, pull };
Result<Rendezvous> parse_rendezvous(std::string_view text);

// Whether these mean something: "given" or "measure"; "off", "init", "text", "json" or a name with an ending that tells a format.
Error check_priority(std::string_view text);
Error check_routes(std::string_view text);

}  // namespace pm

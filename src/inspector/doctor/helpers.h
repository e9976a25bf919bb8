// Helpers: doctor itself, started on each host as mpiexec starts its proxies, and talked to by lines.
//
// A line is words between tabs. A helper tells what it found out about its host, waits for the listeners of the others, tries them, and
// ends when its standard input does.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace pm::inspector {

// In front of each line of a helper, as a login may print others.
inline const std::string helper_mark = "mpicomposite-doctor";

using Line = std::vector<std::string>;
Line words_of(std::string_view line);
// Texts lose their control characters.
std::string line_of(const Line &words);

struct Helper {
    std::string host;
    bool launched = false;  // by ssh or the like
    pid_t process = -1;
    File input, output, errors;
    std::string said, complained;
    std::vector<Line> lines;  // without the mark
    int status = -1;          // as a shell tells it, once it has ended
    bool ended = false;

    // Whether a line of this kind has come.
    bool has(std::string_view kind) const;
    void tell(const std::string &lines);
};

// Runs `command`, whose first word is the program, with its own standard input, output and errors.
std::unique_ptr<Helper> start_helper(const std::string &host, const std::vector<std::string> &command);

// Until each of them has said a line of this kind or has ended, or the time is over.
void listen_to(const std::vector<Helper *> &helpers, std::string_view kind, std::chrono::seconds limit);

// Closes their inputs, and ends what does not end by itself soon.
void dismiss(const std::vector<Helper *> &helpers);

// What runs on the host: `doctor --answer`. Reads standard input, writes standard output.
int answer();

}  // namespace pm::inspector

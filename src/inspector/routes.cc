// Starts a job with MPIR_CVAR_CH4_COMPOSITE_ROUTES set: mpiexec passes its environment on to all hosts.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include "inspector/commands.h"

namespace pm::inspector {
namespace {

const char *const variable = "MPIR_CVAR_CH4_COMPOSITE_ROUTES";
const std::string expected = "; expected is, for example: mpicomposite routes -- mpiexec -n 4 ./program";

const std::string options = "--text, --json, --html and --init";

// The option without its dashes is the format, and the ending of a FILE: the library goes by it.
bool is_format(std::string_view word)
{
    return word == "--text" || word == "--json" || word == "--html";
}

std::string ending_of(const std::string &format)
{
    return format == "text" ? ".txt" : "." + format;
}

struct Request {
    std::string value = "text";  // of the variable
    Words command;
    std::string trouble;  // empty: none
};

Request parse(Words words)
{
    Request request;
    bool given = false;
    std::size_t place = 0;
    auto word = [&](std::size_t at) { return std::string_view(at < words.size() ? words[at] : ""); };
    auto refused = [&](const std::string &sentence) {
        request.trouble = sentence;
        return request;
    };
    for (; word(place).starts_with("-") && word(place) != "--"; ++place) {
        if (!is_format(word(place)) && word(place) != "--init")
            return refused("routes knows no option \"" + std::string(word(place)) + "\"; known are " + options);
        if (given)
            return refused("routes writes one table: give one of " + options);
        given = true;
        if (word(place) == "--init") {
            request.value = "init";
            continue;
        }
        std::string format(word(place).substr(2)), ending = ending_of(format);
        std::string_view next = word(place + 1);
        request.value = format;
        if (next.ends_with(ending)) {
            std::error_code error;
            request.value = std::filesystem::absolute(next, error).string();
            if (error)
                return refused("routes cannot find out the path of \"" + std::string(next) + "\": " + error.message());
            ++place;
        } else if (format == "html" || (place + 2 < words.size() && word(place + 2) == "--" && next != "--")) {
            bool missing = next.empty() || next == "--";
            return refused("the file behind --" + format + " must end in " + ending +
                           (missing ? ", and is missing" : ", and \"" + std::string(next) + "\" does not"));
        }
    }
    if (word(place) == "--")
        ++place;
    request.command = words.subspan(std::min(place, words.size()));
    if (request.command.empty())
        return refused("routes needs a command that starts a job" + expected);
    return request;
}

// "; this installation has /opt/bin/mpiexec" when a command of that name is beside this program.
std::string hint_for(const std::string &name)
{
    std::error_code error;
    std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
    std::filesystem::path beside = self.parent_path() / name;
    if (error || name.find('/') != std::string::npos || access(beside.c_str(), X_OK) != 0)
        return "";
    return "; this installation has " + beside.string();
}

}  // namespace

int routes(Words words)
{
    Request request = parse(words);
    if (!request.trouble.empty())
        return refuse(request.trouble);
    setenv(variable, request.value.c_str(), 1);
    // Words come from argv, which ends with a null pointer as execvp() wants it.
    std::string name = request.command[0];
    execvp(request.command[0], request.command.data());
    int error_number = errno;
    std::string place = name.find('/') == std::string::npos ? " (looked for in PATH)" : "";
    std::fprintf(stderr, "mpicomposite: cannot start \"%s\"%s: %s%s%s\n", name.c_str(), place.c_str(),
                 std::strerror(error_number), hint_for(name).c_str(), expected.c_str());
    return failure;
}

}  // namespace pm::inspector

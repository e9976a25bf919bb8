// Starts a job with MPIR_CVAR_CH4_COMPOSITE_ROUTES set: mpiexec passes its environment on to all hosts.
//
// JSON for standard output, and anything for a descriptor, comes alone: rank 0 writes it into a file, which is copied when the job
// has ended.
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>

#include "base/escape.h"
#include "inspector/commands.h"

namespace pm::inspector {
namespace {

const char *const variable = "MPIR_CVAR_CH4_COMPOSITE_ROUTES";
const std::string expected = "; expected is, for example: mpicomposite routes -- mpiexec -n 4 ./program";

const std::string options = "--text, --json, --html, --init and --fd";

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
    std::string format = "text";
    int descriptor = -1;  // where the table goes when the job has ended; -1: rank 0 writes it to its place
    Words command;
    std::string trouble;  // empty: none
};

Request parse(Words words)
{
    Request request;
    bool given = false, named = false;
    std::size_t place = 0;
    auto word = [&](std::size_t at) { return std::string_view(at < words.size() ? words[at] : ""); };
    auto refused = [&](const std::string &sentence) {
        request.trouble = sentence;
        return request;
    };
    for (; word(place).starts_with("-") && word(place) != "--"; ++place) {
        if (word(place) == "--fd") {
            std::string_view number = word(++place);
            auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), request.descriptor);
            if (error != std::errc{} || end != number.data() + number.size() || request.descriptor < 0 ||
                fcntl(request.descriptor, F_GETFD) < 0)
                return refused("behind --fd there must be the number of an open descriptor, and \"" + std::string(number) +
                               "\" is none; expected is, for example: mpicomposite routes --json --fd 3 -- mpiexec -n 4 ./program 3>routes.json");
            continue;
        }
        if (!is_format(word(place)) && word(place) != "--init")
            return refused("routes knows no option \"" + std::string(word(place)) + "\"; known are " + options);
        if (given)
            return refused("routes writes one table: give one of --text, --json, --html and --init");
        given = true;
        if (word(place) == "--init") {
            request.value = "init";
            named = true;
            continue;
        }
        std::string format(word(place).substr(2)), ending = ending_of(format);
        std::string_view next = word(place + 1);
        request.value = request.format = format;
        if (next.ends_with(ending)) {
            std::error_code error;
            request.value = std::filesystem::absolute(next, error).string();
            if (error)
                return refused("routes cannot find out the path of \"" + std::string(next) + "\": " + error.message());
            named = true;
            ++place;
        } else if ((format == "html" && next != "--fd" && request.descriptor < 0) || (place + 2 < words.size() && word(place + 2) == "--" && next != "--")) {
            bool missing = next.empty() || next == "--";
            return refused("the file behind --" + format + " must end in " + ending +
                           (missing ? ", and is missing" : ", and \"" + std::string(next) + "\" does not"));
        }
    }
    if (named && request.descriptor >= 0)
        return refused("--fd is for a table that goes into no file and comes at the end, not for --init");
    if (!named && request.descriptor < 0 && request.format == "json")
        request.descriptor = STDOUT_FILENO;
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

// Words come from argv, which ends with a null pointer as execvp() wants it. Comes back only when it fails.
void start(Words command)
{
    std::string name = command[0];
    execvp(command[0], command.data());
    int error_number = errno;
    std::string place = name.find('/') == std::string::npos ? " (looked for in PATH)" : "";
    std::fprintf(stderr, "mpicomposite: cannot start \"%s\"%s: %s%s%s\n", name.c_str(), place.c_str(),
                 std::strerror(error_number), hint_for(name).c_str(), expected.c_str());
}

volatile pid_t job;
// Not what the terminal sends, which the job gets as well.
void pass_on(int signal, siginfo_t *info, void *)
{
    if (job > 0 && info->si_code <= 0)
        kill(job, signal);
}

// Its exit status. What it prints goes to standard error when the table has standard output for itself.
int run(const Request &request)
{
    struct sigaction action = {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO;
    for (int signal : {SIGTERM, SIGHUP, SIGINT})
        sigaction(signal, &action, nullptr);
    pid_t parent = getpid();
    job = fork();
    if (job == 0) {
        if (request.descriptor == STDOUT_FILENO)
            dup2(STDERR_FILENO, STDOUT_FILENO);
        else if (request.descriptor > STDERR_FILENO)
            fcntl(request.descriptor, F_SETFD, FD_CLOEXEC);
        for (int signal : {SIGTERM, SIGHUP, SIGINT})
            std::signal(signal, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);  // a job does not outlive who waits for it
        if (getppid() == parent)
            start(request.command);
        _exit(failure);
    }
    int status = 0;
    while (job > 0 && waitpid(job, &status, 0) < 0)
        if (errno != EINTR)
            return failure;
    if (job < 0) {
        std::fprintf(stderr, "mpicomposite: cannot make a process: %s\n", std::strerror(errno));
        return failure;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Makes an empty file that rank 0 can write: in the directory that jobs usually share, or else for this host.
std::string make_file(const std::string &ending)
{
    std::error_code error;
    std::string here = std::filesystem::current_path(error).string();
    for (const std::string &directory : {here, std::filesystem::temp_directory_path(error).string()}) {
        std::string path = directory + "/.routes-XXXXXX" + ending;
        int file = directory.empty() ? -1 : mkostemps(path.data(), static_cast<int>(ending.size()), O_CLOEXEC);
        if (file < 0)
            continue;
        close(file);
        return path;
    }
    return "";
}

bool write_all(int descriptor, std::string_view text)
{
    while (!text.empty()) {
        ssize_t written = write(descriptor, text.data(), text.size());
        if (written < 0 && errno != EINTR)
            return false;
        text.remove_prefix(written < 0 ? 0 : static_cast<std::size_t>(written));
    }
    return true;
}

int run_and_copy(const Request &request)
{
    std::string path = make_file(ending_of(request.format));
    if (path.empty()) {
        std::fprintf(stderr, "mpicomposite: neither the current directory nor that of TMPDIR can be written, where the routes go first: %s\n",
                     std::strerror(errno));
        return failure;
    }
    setenv(variable, path.c_str(), 1);
    int status = run(request);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    unlink(path.c_str());
    if (text.str().empty() || (request.format == "json" && !text.str().ends_with("}\n"))) {
        std::fprintf(stderr, "mpicomposite: no routes were written: the program did not come to MPI_Finalize or belongs to another MPI, or rank 0 "
                             "runs on a host without this directory; then give a FILE%s of its own\n", ending_of(request.format).c_str());
        return status != success ? status : failure;
    }
    if (!write_all(request.descriptor, text.str())) {
        std::fprintf(stderr, "mpicomposite: writing the routes: %s\n", std::strerror(errno));
        return status != success ? status : failure;
    }
    return status;
}

// As a shell would be told it.
std::string text_of(Words command)
{
    std::string text;
    for (const char *word : command)
        text += (text.empty() ? "" : " ") + shell_word(word);
    return text;
}

}  // namespace

int routes(Words words)
{
    Request request = parse(words);
    if (!request.trouble.empty())
        return refuse(request.trouble);
    setenv("MPICOMPOSITE_COMMAND", text_of(request.command).c_str(), 1);
    if (request.descriptor >= 0)
        return run_and_copy(request);
    setenv(variable, request.value.c_str(), 1);
    start(request.command);
    return failure;
}

}  // namespace pm::inspector

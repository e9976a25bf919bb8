// mpicomposite: what transports ranks have, and which they use. See mpicomposite(1).
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

#include "inspector/commands.h"

namespace pm::inspector {
namespace {

const char *const help =
    R"(Usage: mpicomposite routes [--text [FILE.txt] | --json [FILE.json] | --html FILE.html | --init] [--fd N] [--] COMMAND...
       mpicomposite devices [--json]
       mpicomposite doctor [--json] [--launcher-exec PROGRAM] [--timeout SECONDS] [HOSTS | -f FILE]
       mpicomposite top [--interval SECONDS] [--count N] [--] COMMAND... | PID
       mpicomposite why [PID]
       mpicomposite collectives [-n RANKS] [-o FILE]
       mpicomposite --help | --version

routes   runs COMMAND, usually mpiexec, and shows which device and network each pair of ranks uses, and how much it carried
devices  shows what this host has for each device, and why something is not used
doctor   looks for what keeps jobs from running, or from running well, here and on the hosts of a job: a list such as alpha,beta:4, or
         a file as for mpiexec -f; reaches them as mpiexec does, by ssh or PROGRAM
top      shows what the ranks of this host do while they run: of COMMAND, or of a job by the number of its mpiexec or of a rank
why      asks a job that runs or hangs, by the number of its mpiexec or of a rank, what each rank waits for, and names the cause
collectives
         measures for a few seconds up to which length collectives of RANKS ranks of this host go better on the board than by memory, and
         writes the table that MPIR_CVAR_CH4_COMPOSITE_COLL_TABLE takes; RANKS: as many as there are cores

Without options the answer is text on standard output. Routes come when the job ends; with --init when it starts, as text.
With --json and no FILE they have standard output for themselves: what COMMAND prints there goes to standard error. With --fd
they go to descriptor N, alone.
Exit status: that of COMMAND, or 0; 1 when something failed or doctor found a problem; 2 when mpicomposite was called wrongly.

  mpicomposite routes -- mpiexec -n 4 ./program
  mpicomposite routes --html routes.html -- mpiexec -hosts alpha,beta -n 8 ./program
  mpicomposite routes --json -- mpiexec -n 4 ./program | jq '.ranks[].host'
  mpicomposite doctor -f hosts
)";

struct Command {
    std::string_view name;
    int (*run)(Words words);
};
constexpr Command commands[] = {{"routes", routes}, {"devices", devices}, {"doctor", doctor}, {"top", top}, {"why", why}, {"collectives", collectives}};

// "routes, devices or top", by the word before the last.
std::string names(const std::string &word)
{
    std::string list;
    for (const Command &command : commands)
        list += (&command == commands ? "" : &command + 1 == std::end(commands) ? " " + word + " " : ", ") + std::string(command.name);
    return list;
}

int dispatch(Words words)
{
    if (words.empty())
        return refuse("a command is missing: " + names("or"));
    std::string_view first = words[0];
    auto command = std::ranges::find(commands, first, &Command::name);
    bool asks_for_help = words.size() == 2 && std::string_view(words[1]) == "--help";
    if (first == "--help" || first == "-h" || (command != std::end(commands) && asks_for_help)) {
        std::fputs(help, stdout);
        return success;
    }
    if (first == "--version") {
        std::puts("mpicomposite " PACKAGE_VERSION);
        return success;
    }
    if (command != std::end(commands))
        return command->run(words.subspan(1));
    return refuse("\"" + std::string(first) + "\" is no command; there are " + names("and"));
}

}  // namespace

int refuse(const std::string &sentence)
{
    std::fprintf(stderr, "mpicomposite: %s (mpicomposite --help says more)\n", sentence.c_str());
    return misuse;
}

}  // namespace pm::inspector

int main(int count, char **words)
{
    using namespace pm::inspector;
    int status = dispatch(Words(words, static_cast<std::size_t>(count)).subspan(count > 0 ? 1 : 0));
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
        std::fprintf(stderr, "mpicomposite: writing the answer: %s\n", std::strerror(errno));
        return failure;
    }
    return status;
}

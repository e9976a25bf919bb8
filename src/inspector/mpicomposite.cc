// mpicomposite: what transports ranks have, and which they use. See mpicomposite(1).
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "inspector/commands.h"

namespace pm::inspector {
namespace {

const char *const help =
    R"(Usage: mpicomposite routes [--text [FILE.txt] | --json [FILE.json] | --html FILE.html | --init] [--fd N] [--] COMMAND...
       mpicomposite devices [--json]
       mpicomposite --help | --version

routes   runs COMMAND, usually mpiexec, and shows which device and network each pair of ranks uses, and how much it carried
devices  shows what this host has for each device, and why something is not used

Without options the answer is text on standard output. Routes come when the job ends; with --init when it starts, as text.
With --json and no FILE they have standard output for themselves: what COMMAND prints there goes to standard error. With --fd
they go to descriptor N, alone.
Exit status: that of COMMAND, or 0; 1 when something failed; 2 when mpicomposite was called wrongly.

  mpicomposite routes -- mpiexec -n 4 ./program
  mpicomposite routes --html routes.html -- mpiexec -hosts alpha,beta -n 8 ./program
  mpicomposite routes --json -- mpiexec -n 4 ./program | jq '.ranks[].host'
)";

int dispatch(Words words)
{
    if (words.empty())
        return refuse("a command is missing: routes or devices");
    std::string_view first = words[0];
    bool asks_for_help = words.size() == 2 && std::string_view(words[1]) == "--help";
    if (first == "--help" || first == "-h" || ((first == "routes" || first == "devices") && asks_for_help)) {
        std::fputs(help, stdout);
        return success;
    }
    if (first == "--version") {
        std::puts("mpicomposite " PACKAGE_VERSION);
        return success;
    }
    if (first == "routes")
        return routes(words.subspan(1));
    if (first == "devices")
        return devices(words.subspan(1));
    return refuse("\"" + std::string(first) + "\" is no command; there are routes and devices");
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

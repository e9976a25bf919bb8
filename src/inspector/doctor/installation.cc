#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/hash.h"
#include "base/joined.h"
#include "inspector/doctor/examination.h"

namespace pm::inspector {
namespace {

namespace fs = std::filesystem;

std::uint64_t checksum_of(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);
    std::uint64_t sum = file ? hash_seed : 0;
    std::vector<char> block(1 << 16);
    while (file) {
        file.read(block.data(), static_cast<std::streamsize>(block.size()));
        sum = hash_bytes(block.data(), static_cast<std::size_t>(file.gcount()), sum);
    }
    return sum;
}

std::vector<std::string> parts_of(const char *variable)
{
    std::vector<std::string> parts;
    const char *value = std::getenv(variable);
    std::istringstream text(value == nullptr ? "" : value);
    for (std::string part; std::getline(text, part, ':');)
        parts.push_back(part.empty() ? "." : part);
    return parts;
}

// The first file of that name on the way, or nothing.
std::string found_in(const std::vector<std::string> &directories, const std::string &name, int mode)
{
    for (const std::string &directory : directories)
        if (std::string path = directory + "/" + name; access(path.c_str(), mode) == 0)
            return path;
    return "";
}

bool same_place(const std::string &path, const std::string &directory)
{
    std::error_code error;
    return fs::equivalent(fs::path(path).parent_path(), directory, error) ||
           fs::equivalent(fs::canonical(path, error).parent_path(), directory, error);
}

// Whether a command is one of these programs, or a script that starts one, as packages have.
bool leads_to(const std::string &path, const std::string &programs)
{
    std::string start(4096, ' ');
    std::ifstream file(path, std::ios::binary);
    file.read(start.data(), static_cast<std::streamsize>(start.size()));
    start.resize(static_cast<std::size_t>(file.gcount()));
    return same_place(path, programs) || (start.starts_with("#!") && start.find(" " + programs + "/") != std::string::npos);
}

// The directory of our libraries: beside that of our programs, perhaps one deeper (lib/x86_64-linux-gnu).
std::string library_directory(const fs::path &prefix)
{
    std::error_code error;
    for (const char *name : {"lib", "lib64"}) {
        if (fs::exists(prefix / name / "libmpi.so.12", error))
            return (prefix / name).string();
        for (const auto &entry : fs::directory_iterator(prefix / name, error))
            if (fs::exists(entry.path() / "libmpi.so.12", error) && fs::exists(entry.path() / "mpich-composite", error))
                return entry.path().string();
    }
    return "";
}

}  // namespace

std::string own_program()
{
    std::error_code error;
    return fs::read_symlink("/proc/self/exe", error).string();
}

void examine_installation(Examination *examination)
{
    Facts &facts = examination->facts;
    Advices &advices = examination->advices;
    facts.version = PACKAGE_VERSION;
    facts.program = own_program();
    std::string programs = fs::path(facts.program).parent_path().string();
    std::string libraries = library_directory(fs::path(programs).parent_path());
    std::string ours = libraries.empty() ? "" : libraries + "/libmpi.so.12";
    facts.library = ours.empty() ? 0 : checksum_of(ours);
    advices.push_back({ours.empty() ? Level::problem : Level::ok, "installation", facts.version + " in " + programs + (ours.empty() ? ", without libmpi.so.12" : ""),
                       ours.empty() ? "Programs have no library to run with: install again." : ""});

    for (const char *name : {"mpiexec", "mpicc"}) {
        std::string found = found_in(parts_of("PATH"), name, X_OK);
        bool there = access((programs + "/" + name).c_str(), X_OK) == 0;
        if (found.empty())
            advices.push_back({there ? Level::warning : Level::ok, name, there ? "none in PATH" : "none, and needed only to compile",
                               there ? "Put " + programs + " into PATH, or call " + programs + "/" + name + "." : ""});
        else if (!leads_to(found, programs))
            advices.push_back({Level::warning, name, "PATH leads to " + found + ", of another MPI",
                               std::string(name) == "mpiexec" ? "Each rank that it starts would be a job of its own: put " + programs + " first into PATH."
                                                              : "It builds for that MPI: put " + programs + " first into PATH."});
        else
            advices.push_back({Level::ok, name, found, ""});
    }

    // LD_LIBRARY_PATH goes before the path that mpicc puts into a program.
    bool lead_elsewhere = false;
    std::vector<std::string> others;
    for (const std::string &directory : parts_of("LD_LIBRARY_PATH"))
        for (const char *name : {"libmpi.so.12", "libmpich.so.12", "libmpi.so.40"}) {
            std::string path = directory + "/" + name;
            if (access(path.c_str(), R_OK) != 0 || (!libraries.empty() && same_place(path, libraries)))
                continue;
            others.push_back(path);
            lead_elsewhere = lead_elsewhere || std::string_view(name) == "libmpi.so.12";
        }
    std::string first = found_in(parts_of("LD_LIBRARY_PATH"), "libmpi.so.12", R_OK);
    bool wrong = lead_elsewhere && !same_place(first, libraries) && checksum_of(first) != facts.library;
    if (wrong)
        advices.push_back({Level::problem, "library", "LD_LIBRARY_PATH leads to " + first + ", another build",
                           "Programs would load that one: take it out of LD_LIBRARY_PATH, or put " + libraries + " before it."});
    else
        advices.push_back({others.empty() ? Level::ok : Level::warning, "library",
                           others.empty() ? (ours.empty() ? "none" : ours) : "LD_LIBRARY_PATH also leads to " + joined(others, ", "),
                           others.empty() ? "" : "A program that needs both has two MPIs in one process: take what is not needed out of LD_LIBRARY_PATH."});
}

}  // namespace pm::inspector

#include "base/two_mpis.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <string>
#include <vector>

namespace {

// All that is loaded, by the names that dlopen() knows. The program itself has none.
std::vector<std::string> loaded_files()
{
    std::vector<std::string> files;
    dl_iterate_phdr(
        [](dl_phdr_info *info, size_t, void *files) {
            if (info->dlpi_name != nullptr && *info->dlpi_name != '\0')
                static_cast<std::vector<std::string> *>(files)->push_back(info->dlpi_name);
            return 0;
        },
        &files);
    return files;
}

// Where a call of PMPI_Init from this file ends: there, or in what it needs. Only an MPI library has that function, as tools replace
// MPI_Init and call it.
bool find_mpi_of(const std::string &file, Dl_info &found)
{
    void *handle = dlopen(file.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    if (handle == nullptr)
        return false;
    void *function = dlsym(handle, "PMPI_Init");
    dlclose(handle);
    return function != nullptr && dladdr(function, &found) != 0;
}

}  // namespace

const char *pm_two_mpis(void)
{
    static std::string sentence;
    Dl_info own{};
    if (dladdr(reinterpret_cast<void *>(&pm_two_mpis), &own) == 0)
        return nullptr;
    std::string other, user;
    const std::vector<std::string> files = loaded_files();
    for (const std::string &file : files) {
        Dl_info found{};
        if (!find_mpi_of(file, found) || found.dli_fbase == own.dli_fbase)
            continue;
        other = found.dli_fname;
        if (file != other && user.empty())
            user = file;
    }
    if (other.empty())
        return nullptr;
    std::string ours = own.dli_fname;
    bool in_the_program = std::find(files.begin(), files.end(), ours) == files.end();
    std::string advice = in_the_program ? "link the program without -static-mpi"
                                        : "set LD_LIBRARY_PATH=" + ours.substr(0, ours.rfind('/')) +
                                              ", where its names lead to the first one";
    sentence = "this process has two MPI libraries: " + ours + ", which runs now, and " + other +
               (user.empty() ? "" : ", which " + user + " needs") + "; what reaches the second one fails. If that is an MPICH, " + advice +
               "; if not, build what needs it with this MPI's mpicc.";
    return sentence.c_str();
}

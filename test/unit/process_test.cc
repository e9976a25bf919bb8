#include "base/process.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>

#include "base/two_mpis.h"
#include "support/processes.h"
#include "support/temporary_directory.h"

namespace pm {
namespace {

TEST(Process, LivesUntilItEnds)
{
    EXPECT_FALSE(process_has_ended(getpid()));
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        char byte;
        close(pipe_ends[1]);
        (void)!read(pipe_ends[0], &byte, 1);  // until the parent closes its end
        _exit(0);
    }
    EXPECT_FALSE(process_has_ended(child));
    close(pipe_ends[1]);
    siginfo_t information;
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &information, WEXITED | WNOWAIT), 0);
    EXPECT_TRUE(process_has_ended(child)) << "it is a zombie";
    EXPECT_TRUE(detail::read_process(child).ended) << "where a process has no descriptor, /proc says the same";
    EXPECT_FALSE(detail::read_process(getpid()).ended);
    ASSERT_EQ(waitpid(child, nullptr, 0), child);
    EXPECT_TRUE(process_has_ended(child));
    close(pipe_ends[0]);
}

TEST(Process, OneThatGotTheNumberOfAnotherIsNotTheOther)
{
    ProcessName self = this_process();
    ASSERT_NE(self.started, 0u);
    EXPECT_FALSE(process_has_ended(self));
    EXPECT_TRUE(process_has_ended(ProcessName{self.number, self.started - 1}));
    EXPECT_EQ(confirmed(self).started, self.started);
    EXPECT_EQ(confirmed({self.number, self.started - 1}).started, 0u) << "where /proc tells us otherwise, only the number counts";
}

TEST(Process, LivesAlsoWhereNoDescriptorIsLeft)
{
    pm::test::in_a_process(60, [] {
        ProcessName self = this_process();
        pid_t child = fork();
        ASSERT_GE(child, 0);
        if (child == 0)
            _exit(0);
        ASSERT_EQ(waitpid(child, nullptr, 0), child);
        rlimit none{};
        ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
        EXPECT_FALSE(process_has_ended(self));
        EXPECT_TRUE(process_has_ended(child));
    });
}

// A library that has one name and nothing else; the name leads to a place that nobody calls.
class Library {
  public:
    explicit Library(const std::string &name)
    {
        std::ifstream("/proc/self/exe", std::ios::binary).read(reinterpret_cast<char *>(&file), sizeof file);  // for this machine
        file.e_type = ET_DYN;
        file.e_entry = file.e_shoff = file.e_shnum = file.e_shstrndx = 0;
        file.e_phoff = offsetof(Library, parts);
        file.e_phnum = std::size(parts);
        name.copy(names + 1, sizeof names - 2);
    }
    void write(const std::string &path) const { std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char *>(this), sizeof *this); }

  private:
    static ElfW(Phdr) part(unsigned type, std::size_t begin, std::size_t size)
    {
        ElfW(Phdr) part{};
        part.p_type = type;
        part.p_flags = PF_R | PF_W;
        part.p_offset = part.p_vaddr = part.p_paddr = begin;
        part.p_filesz = part.p_memsz = size;
        part.p_align = type == PT_LOAD ? 65536 : 16;
        return part;
    }
    static ElfW(Sym) symbol(std::size_t at)
    {
        ElfW(Sym) symbol{};
        symbol.st_name = 1;
        symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
        symbol.st_shndx = 1;
        symbol.st_value = at;
        return symbol;
    }

    ElfW(Ehdr) file{};
    ElfW(Phdr) parts[3] = {part(PT_LOAD, 0, sizeof(Library)), part(PT_DYNAMIC, offsetof(Library, dynamic), sizeof dynamic), part(PT_GNU_STACK, 0, 0)};
    ElfW(Dyn) dynamic[6] = {
        {DT_HASH, {offsetof(Library, hash)}},
        {DT_SYMTAB, {offsetof(Library, symbols)}},
        {DT_STRTAB, {offsetof(Library, names)}},
        {DT_STRSZ, {sizeof names}},
        {DT_SYMENT, {sizeof(ElfW(Sym))}},
        {DT_NULL, {0}},
    };
    ElfW(Sym) symbols[2] = {{}, symbol(offsetof(Library, names))};
    std::uint32_t hash[5] = {1, 2, 1, 0, 0};  // one chain, of the second of two symbols
    char names[64] = {};
};

TEST(TwoMpis, TheOtherOneIsNamedWhileItIsLoaded)
{
    test::TemporaryDirectory directory;
    for (const std::string name : {"MPI_Init", "PMPI_Init"}) {
        EXPECT_EQ(pm_two_mpis(), nullptr);
        const std::string path = directory.path() + "/lib" + name + ".so";
        Library(name).write(path);
        void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(library, nullptr) << dlerror();
        const char *sentence = pm_two_mpis();
        bool is_named = sentence != nullptr && std::string(sentence).find(path) != std::string::npos;
        EXPECT_EQ(is_named, name == "PMPI_Init") << "a tool has only the other one";
        dlclose(library);
    }
    EXPECT_EQ(pm_two_mpis(), nullptr);
}

}  // namespace
}  // namespace pm

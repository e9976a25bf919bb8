// The page on which other processes ask what this one does.
#include "netmod/core/question.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/processes.h"

namespace {

// As who asks finds it: by its name among the open files.
std::string path_of_page()
{
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd", error))
        if (std::filesystem::read_symlink(entry.path(), error).string().find(PM_QUESTION_NAME) != std::string::npos)
            return entry.path();
    return "";
}

TEST(Question, IsAnsweredOnThePageThatOthersFind)
{
    pm::test::in_a_process(60, [] {
        EXPECT_EQ(pm_question_asked(), 0u) << "nobody can ask yet";
        pm_question_answer(1, "lost", 4);
        ASSERT_EQ(path_of_page(), "");
        ASSERT_EQ(pm_question_open(3, 8), PM_OK);
        EXPECT_EQ(pm_question_open(4, 9), PM_OK) << "it is open";
        const std::string path = path_of_page();
        ASSERT_NE(path, "");
        const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
        ASSERT_GE(file, 0);
        void *memory = mmap(nullptr, PM_QUESTION_TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        ASSERT_NE(memory, MAP_FAILED);
        auto page = static_cast<volatile pm_question_page *>(memory);
        EXPECT_EQ(page->magic, PM_QUESTION_MAGIC);
        EXPECT_EQ(page->rank, 3);
        EXPECT_EQ(page->size, 8);
        pm_question_phase(PM_PHASE_FINALIZE);
        EXPECT_EQ(page->phase, static_cast<std::uint32_t>(PM_PHASE_FINALIZE));
        EXPECT_EQ(pm_question_asked(), 0u);
        for (std::uint32_t question : {7u, 8u}) {
            page->asked = question;
            EXPECT_EQ(pm_question_asked(), question);
            const std::string text = "answer " + std::to_string(question);
            const std::uint32_t version = page->version;
            pm_question_answer(question, text.data(), text.size());
            EXPECT_EQ(pm_question_asked(), 0u);
            EXPECT_EQ(page->answered, question);
            EXPECT_EQ(page->version, version + 2) << "even: it is not being written";
            ASSERT_EQ(page->length, text.size());
            std::string read(text.size(), '.');
            EXPECT_EQ(pread(file, read.data(), read.size(), PM_QUESTION_TEXT), static_cast<ssize_t>(read.size()));
            EXPECT_EQ(read, text);
        }
        EXPECT_NE(ftruncate(file, 0), 0) << "it never becomes shorter under who reads it";
    });
}

TEST(Question, NoAnswerIsSaidInWords)
{
    char *words = pm_state_in_words("no such thing", 13);
    EXPECT_STREQ(words, "(no answer)\n");
    std::free(words);
}

}  // namespace

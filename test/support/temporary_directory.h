// A directory that is there as long as the test.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pm::test {

class TemporaryDirectory {
  public:
    TemporaryDirectory() : path_(testing::TempDir() + "composite-test-XXXXXX")
    {
        EXPECT_NE(mkdtemp(path_.data()), nullptr) << path_;
    }

    ~TemporaryDirectory()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    TemporaryDirectory(const TemporaryDirectory &) = delete;
    TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;

    const std::string &path() const { return path_; }

    // Makes the directories on the way, too.
    void write(const std::string &name, const std::string &text) const
    {
        std::filesystem::path file = path_ + "/" + name;
        std::error_code error;
        std::filesystem::create_directories(file.parent_path(), error);
        std::ofstream(file) << text;
    }

  private:
    std::string path_;
};

}  // namespace pm::test

// Status, Error and Result: what a call that can fail answers.
#include "base/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>

namespace pm {
namespace {

TEST(Status, ErrorIsTrueOnlyWhenSomethingWentWrong)
{
    EXPECT_FALSE(Error{});
    EXPECT_TRUE((Error{Status::failed, "text"}));
    EXPECT_TRUE((Error{Status::again, ""}));
}

TEST(Status, ResultHoldsAValueOrAnError)
{
    Result<std::unique_ptr<int>> value(std::make_unique<int>(7));
    ASSERT_TRUE(value.ok());
    EXPECT_EQ(*value.value(), 7);
    EXPECT_FALSE(value.error());

    Result<std::unique_ptr<int>> error(Error{Status::invalid, "no such thing"});
    EXPECT_FALSE(error.ok());
    EXPECT_EQ(error.error().status, Status::invalid);
    EXPECT_EQ(error.error().text, "no such thing");
}

TEST(Status, SystemErrorSaysWhatWasTriedAndWhatTheSystemSaid)
{
    Error error = system_error("opening the moon", ENOENT);
    EXPECT_EQ(error.status, Status::failed);
    EXPECT_EQ(error.text, "opening the moon: No such file or directory");
}

TEST(Status, SystemErrorTellsMemoryThatIsUsedUpFromOtherTrouble)
{
    EXPECT_EQ(system_error("", ENOMEM).status, Status::no_memory);
    EXPECT_EQ(system_error("", ENOSPC).status, Status::no_memory);
    EXPECT_EQ(system_error("", EPERM).status, Status::failed);
}

}  // namespace
}  // namespace pm

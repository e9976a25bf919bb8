// What a user may set: known words are understood, unknown ones are errors that list the known ones.
#include "netmod/composite/settings.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shmmod/segment.h"

namespace pm {
namespace {

template <class T>
void expect_error_with(const Result<T> &result, const std::vector<std::string> &words)
{
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().status, Status::invalid);
    for (const std::string &word : words)
        EXPECT_NE(result.error().text.find(word), std::string::npos) << "\"" << word << "\" is not in: " << result.error().text;
}

TEST(Settings, AutoMeansEveryDevice)
{
    auto devices = parse_devices("auto");
    ASSERT_TRUE(devices.ok());
    EXPECT_EQ(devices.value(), known_devices());
    EXPECT_FALSE(known_devices().empty());
}

TEST(Settings, AListOfDevicesKeepsItsOrder)
{
    auto one = parse_devices("shmem");
    ASSERT_TRUE(one.ok());
    EXPECT_EQ(one.value(), std::vector<std::string>{"shmem"});

    // All that are known, worst first.
    std::vector<std::string> reversed(known_devices().rbegin(), known_devices().rend());
    std::string text;
    for (const std::string &device : reversed)
        text += (text.empty() ? "" : ",") + device;
    auto all = parse_devices(text);
    ASSERT_TRUE(all.ok()) << all.error().text;
    EXPECT_EQ(all.value(), reversed);
}

TEST(Settings, AnUnknownDeviceIsAnErrorThatNamesItAndListsTheKnownOnes)
{
    std::vector<std::string> known = known_devices();
    known.insert(known.end(), {"auto", "MPIR_CVAR_CH4_COMPOSITE_DEVICES"});
    for (const char *text : {"", "ethernet", "shmem,ethernet", "shmem,", ",shmem", "shmem, shmem", "SHMEM"}) {
        SCOPED_TRACE(text);
        expect_error_with(parse_devices(text), known);
    }
    expect_error_with(parse_devices("shmem,ethernet"), {"\"ethernet\""});
}

TEST(Settings, ADeviceNamedTwiceIsAnError)
{
    expect_error_with(parse_devices("shmem,shmem"), {"\"shmem\"", "twice"});
}

TEST(Settings, KnowsTheRendezvousByName)
{
    EXPECT_EQ(parse_rendezvous("auto").value(), Rendezvous::automatic);
    EXPECT_EQ(parse_rendezvous("pipeline").value(), Rendezvous::pipeline);
    EXPECT_EQ(parse_rendezvous("cma").value(), Rendezvous::pull);
    expect_error_with(parse_rendezvous("pull"), {"\"pull\"", "auto", "pipeline", "cma", "MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV"});
    expect_error_with(parse_rendezvous(""), {"\"\"", "auto", "pipeline", "cma"});
}

TEST(Settings, KnowsTheBackingsByName)
{
    EXPECT_EQ(shmem::parse_backing("auto").value(), shmem::Backing::automatic);
    EXPECT_EQ(shmem::parse_backing("memfd").value(), shmem::Backing::memfd);
    EXPECT_EQ(shmem::parse_backing("devshm").value(), shmem::Backing::devshm);
    expect_error_with(shmem::parse_backing("/dev/shm"), {"\"/dev/shm\"", "auto", "memfd", "devshm"});
    expect_error_with(shmem::parse_backing(""), {"auto", "memfd", "devshm"});
}

}  // namespace
}  // namespace pm

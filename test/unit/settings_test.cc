// What a user may set: known words are understood, unknown ones are errors that list the known ones.
#include "netmod/routing/settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/tuning.h"
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

void expect_error_with(const Error &error, const std::vector<std::string> &words)
{
    expect_error_with(Result<int>(error), words);
}

const std::string prefix = "MPIR_CVAR_CH4_COMPOSITE_";

TEST(Settings, AMisspeltNameIsAnErrorThatNamesItAndTheNearestOne)
{
    expect_error_with(check_variable(prefix + "UDP_SILENCE_LIMT=3"),
                      {prefix + "UDP_SILENCE_LIMT ", "did you mean " + prefix + "UDP_SILENCE_LIMIT?", "man 7 mpich-composite"});
    expect_error_with(check_variable(prefix + "DEVICE=udp"), {"did you mean " + prefix + "DEVICES?"});
    expect_error_with(check_variable("MPICH_CH4_COMPOSITE_REPROT=1"), {"did you mean MPICH_CH4_COMPOSITE_REPORT?"});
    expect_error_with(check_variable("MPIR_PARAM_CH4_COMPOSITE_WIAT=spin"), {"did you mean MPIR_PARAM_CH4_COMPOSITE_WAIT?"});
    // Where nothing is near nothing is guessed.
    Error far = check_variable(prefix + "QUANTUM_TELEPORTER=1");
    expect_error_with(far, {"QUANTUM_TELEPORTER", "man 7 mpich-composite"});
    EXPECT_EQ(far.text.find("did you mean"), std::string::npos) << far.text;
}

TEST(Settings, NumbersAreNumbersInTheirRange)
{
    for (const char *right : {"UDP_SILENCE_LIMIT=0", "UDP_SILENCE_LIMIT=0.5", "UDP_SILENCE_LIMIT=30", "MCAST_PIECE=1024", "MCAST_PIECE=2147483647",
                              "MCAST_TREE_LIMIT=0", "MCAST_FANOUT=1", "REPORT=1", "REPORT=yes", "REPORT=OFF"})
        EXPECT_FALSE(check_variable(prefix + right)) << check_variable(prefix + right).text;
    for (const char *wrong : {"UDP_SILENCE_LIMIT=abc", "UDP_SILENCE_LIMIT=-1", "UDP_SILENCE_LIMIT=3s", "UDP_SILENCE_LIMIT=", "UDP_SILENCE_LIMIT=nan",
                              "UDP_SILENCE_LIMIT=inf", "UDP_SILENCE_LIMIT= 3", "UDP_SILENCE_LIMIT=1e99"})
        expect_error_with(check_variable(prefix + wrong), {prefix + "UDP_SILENCE_LIMIT", "seconds from 0 to", "0 means never"});
    for (const char *wrong : {"MCAST_PIECE=12x", "MCAST_PIECE=-5", "MCAST_PIECE=1023", "MCAST_PIECE=4.5", "MCAST_PIECE=3000000000"})
        expect_error_with(check_variable(prefix + wrong), {prefix + "MCAST_PIECE", "a whole number from 1024 to 2147483647"});
    for (const char *right : {"0", "1", "yes", "OFF", "profile", "profile:text", "profile:json", "profile:a.txt", "profile:/b/c.html"})
        EXPECT_FALSE(check_report(right)) << right;
    for (const char *wrong : {"", "maybe", "profile:", "profile:xml", "profile:.html", "profiles"})
        expect_error_with(check_report(wrong), {"\"" + std::string(wrong) + "\"", "REPORT", "profile:FILE"});
}

TEST(Settings, WhatIsNotOursIsNotLookedAt)
{
    for (const char *other : {"HOME=/root", "MPIR_CVAR_CH4_NETMOD=composite", "MPICH_CH4_COMPOSITE", "", "=", "MPIR_CVAR_CH4_COMPOSITE_DEVICES=pigeon"})
        EXPECT_FALSE(check_variable(other)) << other;
}

// A file of the source tree.
std::string contents(const char *name)
{
    // As the compiler knew it, which may be from the build directory, or from where tests run.
    std::filesystem::path top = std::filesystem::path(__FILE__).parent_path().parent_path().parent_path();
    std::ifstream file(top / name);
    if (!file)
        file.open(name);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
}

// The table, what MPICH is told, and what users are told.
TEST(Settings, TheTableIsThatOfTheDocumentsAndOfTheVariables)
{
    std::string variables = contents("src/ch4/netmod/composite_cvars.c"), manual = contents("man/man7/mpich-composite.7"), readme = contents("README.md");
    std::vector<std::string> known, declared;
    for (const Setting &each : known_settings()) {
        known.push_back(each.name);
        // Some are named by what sets them apart from the one before.
        std::string name = each.name, end = name.substr(name.starts_with("MCAST_") ? 5 : name.starts_with("COLL_") ? 4 : 0);
        EXPECT_NE(manual.find(end), std::string::npos) << each.name;
        EXPECT_NE(readme.find(end + "`"), std::string::npos) << each.name;
    }
    const std::string line = "- name        : " + prefix;
    for (std::size_t at = variables.find(line); at != std::string::npos; at = variables.find(line, at + 1))
        declared.push_back(variables.substr(at + line.size(), variables.find('\n', at) - at - line.size()));
    std::ranges::sort(known);
    std::ranges::sort(declared);
    EXPECT_EQ(known, declared);
}

TEST(Settings, DefaultsAreThoseThatWereMeasured)
{
    std::string variables = contents("src/ch4/netmod/composite_cvars.c");
    auto default_of = [&](const std::string &name) {
        std::size_t at = variables.find("default     : ", variables.find("- name        : " + prefix + name + "\n"));
        return at == std::string::npos ? -1 : std::strtol(variables.c_str() + at + 14, nullptr, 10);
    };
    EXPECT_EQ(default_of("MCAST_TREE_LIMIT"), PM_MCAST_TREE_LIMIT);
    EXPECT_EQ(default_of("MCAST_DOUBLING_LIMIT"), PM_MCAST_DOUBLING_LIMIT);
    EXPECT_EQ(default_of("MCAST_CHAIN_LIMIT"), PM_MCAST_CHAIN_LIMIT);
    EXPECT_EQ(default_of("MCAST_SHARED_LIMIT"), PM_MCAST_SHARED_LIMIT);
    EXPECT_EQ(default_of("MCAST_PIECE"), PM_MCAST_PIECE);
    EXPECT_EQ(default_of("MCAST_FANOUT"), PM_MCAST_FANOUT);
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
    EXPECT_EQ(parse_rendezvous("both").value(), Rendezvous::joint);
    expect_error_with(parse_rendezvous("pull"), {"\"pull\"", "auto", "pipeline", "cma", "both", "MPIR_CVAR_CH4_COMPOSITE_SHMEM_RNDV"});
    expect_error_with(parse_rendezvous(""), {"\"\"", "auto", "pipeline", "cma"});
}

TEST(Settings, KnowsTheBackingsByName)
{
    EXPECT_EQ(shmem::parse_backing("auto").value(), shmem::Backing::automatic);
    EXPECT_EQ(shmem::parse_backing("memfd").value(), shmem::Backing::memfd);
    EXPECT_EQ(shmem::parse_backing("devshm").value(), shmem::Backing::devshm);
    expect_error_with(shmem::parse_backing("/dev/shm"), {"\"/dev/shm\"", "auto", "memfd", "devshm", "MPIR_CVAR_CH4_COMPOSITE_SHMEM_BACKING"});
    expect_error_with(shmem::parse_backing(""), {"auto", "memfd", "devshm"});
}

}  // namespace
}  // namespace pm

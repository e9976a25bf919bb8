// How many cores a process may use: the affinity mask and the quotas of its cgroups count. The cgroup file system is a fake, but for one
// test, which makes a group of the kernel's.
#include "base/cpus.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "support/temporary_directory.h"

namespace pm {
namespace {

using test::TemporaryDirectory;

// The calling thread, to the first CPU it may use.
void bind_to_one_cpu()
{
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    int cpu = 0;
    while (cpu < CPU_SETSIZE - 1 && !CPU_ISSET(cpu, &allowed))
        ++cpu;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
}

TEST(Cpus, WithoutAQuotaTheAffinityCounts)
{
    EXPECT_EQ(cores_from(8, 0, 100'000), 8);
    EXPECT_EQ(cores_from(8, -1, 100'000), 8);
    EXPECT_EQ(cores_from(8, 100'000, 0), 8);
}

TEST(Cpus, AQuotaIsRoundedUpToWholeCores)
{
    EXPECT_EQ(cores_from(8, 100'000, 100'000), 1);
    EXPECT_EQ(cores_from(8, 150'000, 100'000), 2);
    EXPECT_EQ(cores_from(8, 200'000, 100'000), 2);
    EXPECT_EQ(cores_from(8, 1'000, 100'000), 1);
}

TEST(Cpus, TheSmallerOfAffinityAndQuotaCounts)
{
    EXPECT_EQ(cores_from(2, 800'000, 100'000), 2);
    EXPECT_EQ(cores_from(2, 1'000'000'000'000'000, 1), 2);
}

TEST(Cpus, ThereIsAlwaysOneCore)
{
    EXPECT_EQ(cores_from(0, 0, 0), 1);
    EXPECT_EQ(cores_from(0, 100, 100'000), 1);
    EXPECT_GE(available_cores(), 1);
}

class CgroupTree : public testing::Test {
  protected:
    int cores(const std::string &self) const { return cgroup_quota_cores(tree.path(), self); }
    TemporaryDirectory tree;
};

TEST_F(CgroupTree, VersionTwoQuotaOfTheOwnGroup)
{
    tree.write("job/cpu.max", "250000 100000\n");
    EXPECT_EQ(cores("0::/job\n"), 3);
}

TEST_F(CgroupTree, VersionTwoWithoutALimit)
{
    tree.write("job/cpu.max", "max 100000\n");
    EXPECT_EQ(cores("0::/job\n"), 0);
    EXPECT_EQ(cores("0::/\n"), 0);
}

TEST_F(CgroupTree, VersionTwoLimitOfAnOuterGroupCounts)
{
    tree.write("slice/job/step/cpu.max", "800000 100000\n");
    tree.write("slice/job/cpu.max", "max 100000\n");
    tree.write("slice/cpu.max", "200000 100000\n");
    EXPECT_EQ(cores("0::/slice/job/step\n"), 2);
}

TEST_F(CgroupTree, VersionTwoTheInnerLimitCountsWhenItIsSmaller)
{
    tree.write("slice/job/cpu.max", "100000 100000\n");
    tree.write("slice/cpu.max", "400000 100000\n");
    EXPECT_EQ(cores("0::/slice/job\n"), 1);
}

TEST_F(CgroupTree, VersionTwoRootOfAContainer)
{
    tree.write("cpu.max", "150000 100000\n");
    EXPECT_EQ(cores("0::/\n"), 2);
    EXPECT_EQ(cores("0::/not/mounted/here\n"), 2) << "the path is the host's; the mount is the container's";
    EXPECT_EQ(cores("0::/../..\n"), 2) << "a process moved in from outside its namespace";
}

TEST_F(CgroupTree, VersionOneQuota)
{
    tree.write("cpu,cpuacct/job/cpu.cfs_quota_us", "350000\n");
    tree.write("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cores("4:cpu,cpuacct:/job\n3:memory:/job\n"), 4);
}

TEST_F(CgroupTree, VersionOneWithoutALimit)
{
    tree.write("cpu/job/cpu.cfs_quota_us", "-1\n");
    tree.write("cpu/job/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cores("4:cpu:/job\n"), 0);
}

TEST_F(CgroupTree, VersionOneLimitOfAnOuterGroupCounts)
{
    tree.write("cpu/slice/job/cpu.cfs_quota_us", "-1\n");
    tree.write("cpu/slice/job/cpu.cfs_period_us", "100000\n");
    tree.write("cpu/slice/cpu.cfs_quota_us", "50000\n");
    tree.write("cpu/slice/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cores("4:cpu:/slice/job\n"), 1);
}

TEST_F(CgroupTree, VersionOneRootOfAContainer)
{
    tree.write("cpu/cpu.cfs_quota_us", "150000\n");
    tree.write("cpu/cpu.cfs_period_us", "50000\n");
    EXPECT_EQ(cores("4:cpu:/docker/0123456789ab\n"), 3);
}

TEST_F(CgroupTree, VersionOneOnlyTheCpuControllerCounts)
{
    for (const char *other : {"cpuset", "cpuacct"}) {
        tree.write(std::string(other) + "/job/cpu.cfs_quota_us", "100000\n");
        tree.write(std::string(other) + "/job/cpu.cfs_period_us", "100000\n");
    }
    EXPECT_EQ(cores("4:cpuset:/job\n3:cpuacct:/job\n"), 0);
}

TEST_F(CgroupTree, BothVersionsAtOnceTheSmallestCounts)
{
    tree.write("cpu/job/cpu.cfs_quota_us", "400000\n");
    tree.write("cpu/job/cpu.cfs_period_us", "100000\n");
    tree.write("job/cpu.max", "300000 100000\n");
    EXPECT_EQ(cores("4:cpu:/job\n0::/job\n"), 3);
}

TEST_F(CgroupTree, TextThatMakesNoSenseIsNoLimit)
{
    tree.write("job/cpu.max", "plenty\n");
    tree.write("other/cpu.max", "-5 100000\n");
    tree.write("zero/cpu.max", "100000 0\n");
    for (const char *self : {"", "\n", "0", "0:", "0::", "::", "0::job", "nonsense", "0::/job", "0::/other", "0::/zero",
                             "1:cpu"})
        EXPECT_EQ(cores(self), 0) << self;
}

// ---- ranks of one host together ---------------------------------------------------------------------------------------

TEST(CoresOfAll, RanksWithTheSameMaskShareItsCores)
{
    EXPECT_EQ(cores_of_all({{1, 4, 0}}), 4);
    EXPECT_EQ(cores_of_all({{1, 4, 0}, {1, 4, 0}, {1, 4, 0}}), 4);
}

TEST(CoresOfAll, RanksBoundToCoresOfTheirOwnHaveThemAll)
{
    EXPECT_EQ(cores_of_all({{1, 1, 0}, {2, 1, 0}, {3, 2, 0}}), 4);
}

TEST(CoresOfAll, AQuotaLimitsThemTogether)
{
    EXPECT_EQ(cores_of_all({{1, 1, 2}, {2, 1, 2}, {3, 1, 2}}), 2);
    EXPECT_EQ(cores_of_all({{1, 8, 0}, {1, 8, 3}}), 3);
    EXPECT_EQ(cores_of_all({{1, 2, 16}}), 2);
}

TEST(CoresOfAll, ThereIsAlwaysOneCore)
{
    EXPECT_EQ(cores_of_all({}), 1);
    EXPECT_EQ(cores_of_all({{1, 0, 0}}), 1);
}

// Every rank lists the ranks in an order of its own.
TEST(CoresOfAll, TheOrderDoesNotMatter)
{
    std::vector<CoreGrant> grants{{5, 1, 0}, {2, 3, 7}, {5, 1, 4}, {9, 2, 0}};
    int cores = cores_of_all(grants);
    for (std::size_t i = 0; i < grants.size(); ++i) {
        std::rotate(grants.begin(), grants.begin() + 1, grants.end());
        EXPECT_EQ(cores_of_all(grants), cores);
    }
}

TEST(CoreGrant, EqualMasksHaveEqualValuesAndOthersDoNot)
{
    CoreGrant here = core_grant();
    EXPECT_GE(here.cores, 1);
    CoreGrant same{}, bound{};
    std::thread([&] {
        same = core_grant();
        bind_to_one_cpu();
        bound = core_grant();
    }).join();
    EXPECT_EQ(same.mask, here.mask);
    EXPECT_EQ(bound.cores, 1);
    EXPECT_EQ(bound.mask == here.mask, here.cores == 1);
}

// The mask belongs to the thread, so it ends with it.
TEST(Cpus, AffinityToOneCpuLeavesOneCore)
{
    int cores = 0;
    std::thread([&] {
        bind_to_one_cpu();
        cores = available_cores();
    }).join();
    EXPECT_EQ(cores, 1);
}

TEST(Cpus, NoMoreCoresThanTheAffinityMaskHas)
{
    cpu_set_t allowed;
    ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    EXPECT_LE(available_cores(), CPU_COUNT(&allowed));
}

// Only where the file is there: it is the kernel's.
bool write_to(const std::string &path, const std::string &text)
{
    int file = open(path.c_str(), O_WRONLY);
    if (file < 0)
        return false;
    bool whole = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    return whole;
}

// A group of the kernel's own for one process, with a quota of `cores` cores; version 1 or 2, whichever this machine has.
class RealGroup {
  public:
    explicit RealGroup(int cores)
    {
        std::string name = "/pm-test-" + std::to_string(getpid()), quota = std::to_string(cores * 100'000);
        for (const char *root : {"/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
            folder_ = root + name;
            if (mkdir(folder_.c_str(), 0700) != 0)
                continue;
            if (write_to(folder_ + "/cpu.max", quota + " 100000") || write_to(folder_ + "/cpu.cfs_quota_us", quota))
                return;
            rmdir(folder_.c_str());
        }
        folder_.clear();
    }
    ~RealGroup() { rmdir(folder_.c_str()); }
    bool is_there() const { return !folder_.empty(); }
    bool enter() const { return write_to(folder_ + "/cgroup.procs", std::to_string(getpid())); }

  private:
    std::string folder_;
};

TEST(Cpus, AQuotaOfTheKernelCounts)
{
    RealGroup group(1);
    if (!group.is_there())
        GTEST_SKIP() << "no cgroup with a quota of processor time can be made here";
    pid_t child = fork();
    if (child == 0)
        _exit(!group.enter() ? 100 : core_grant().quota * 10 + available_cores());
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_NE(WEXITSTATUS(status), 100) << "the process may not enter the group it has made";
    EXPECT_EQ(WEXITSTATUS(status), 11);
}

}  // namespace
}  // namespace pm

#include "hal/cpu/memory_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

namespace snug {
namespace {

namespace fs = std::filesystem;

// A tree with the files that the kernel would show.
class MemoryLimit : public ::testing::Test {
 protected:
  MemoryLimit()
      : root_(fs::path(::testing::TempDir()) / ("snug-limits-" + std::to_string(getpid()))) {}
  void TearDown() override { fs::remove_all(root_); }

  void write(const fs::path& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<int64_t> left() const { return memory_limit_left(root_); }

  fs::path root_;
};

TEST_F(MemoryLimit, NoneWithoutSetting) {
  EXPECT_EQ(left(), std::nullopt);
  write("proc/self/cgroup", "0::/\n");
  EXPECT_EQ(left(), std::nullopt);
  write("sys/fs/cgroup/memory.max", "max\n");
  write("sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(left(), std::nullopt);
}

TEST_F(MemoryLimit, IsLimitPlusReclaimableBytes) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", "10000\n");
  write("sys/fs/cgroup/memory.current", "4000\n");
  EXPECT_EQ(left(), 6000);
  write("sys/fs/cgroup/memory.stat", "anon 3000\nactive_file 5\ninactive_file 500\n");
  EXPECT_EQ(left(), 6500);
  write("sys/fs/cgroup/memory.current", "12000\n");
  EXPECT_EQ(left(), 0) << "over the limit";
}

TEST_F(MemoryLimit, EveryGroupAboveCounts) {
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/user/memory.max", "3000\n");
  write("sys/fs/cgroup/user/memory.current", "1000\n");
  write("sys/fs/cgroup/user/job/memory.max", "9000\n");
  write("sys/fs/cgroup/user/job/memory.current", "1000\n");
  EXPECT_EQ(left(), 2000);
}

TEST_F(MemoryLimit, ReadsTheFirstVersionToo) {
  write("proc/self/cgroup", "9:cpu:/a\n4:memory,hugetlb:/docker/7\n0::/\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "8000\n");
  write("sys/fs/cgroup/memory/docker/7/memory.usage_in_bytes", "5000\n");
  write("sys/fs/cgroup/memory/docker/7/memory.stat", "total_inactive_file 1000\n");
  EXPECT_EQ(left(), 4000);
}

TEST(LockableBytes, EqualProcessLimit) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = std::min<rlim_t>(before.rlim_max, 32 << 10);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &lower), 0);
  EXPECT_EQ(lockable_bytes(), static_cast<int64_t>(lower.rlim_cur));
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
}

}  // namespace
}  // namespace snug

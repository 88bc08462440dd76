#include "hal/disk_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "base/error.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Next to the tests, on whatever disk they are on; removed at the end.
class DiskFileTest : public ::testing::Test {
 protected:
  DiskFileTest() {
    std::string name = (fs::temp_directory_path() / "snug-disk-XXXXXX").string();
    dir_ = mkdtemp(name.data());
  }
  void TearDown() override {
    chmod(dir_.c_str(), 0700);
    fs::remove_all(dir_);
  }
  static std::vector<std::byte> noise(size_t bytes, unsigned seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> out(bytes);
    for (std::byte& b : out) b = static_cast<std::byte>(random());
    return out;
  }
  template <typename Fn>
  static std::string why(ExitCode code, const Fn& fn) {
    try {
      fn();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), code) << e.what();
      return std::string(e.what()) + " | " + e.hint();
    }
    return "done";
  }
  std::vector<std::string> names_in_dir() const {
    std::vector<std::string> out;
    for (const auto& entry : fs::directory_iterator(dir_)) out.push_back(entry.path().filename());
    return out;
  }

  std::string dir_;
};

// As many bytes at an address that is a multiple of kGrain, and so many more.
class Placed {
 public:
  Placed(int64_t bytes, int64_t more) : all_(static_cast<size_t>(bytes + more) + DiskFile::kGrain) {
    void* at = all_.data();
    size_t room = all_.size();
    std::align(DiskFile::kGrain, static_cast<size_t>(bytes + more), at, room);
    bytes_ = {static_cast<std::byte*>(at) + more, static_cast<size_t>(bytes)};
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> all_;
  std::span<std::byte> bytes_;
};

// Memory at any address, places and lengths that are no multiple of anything, several blocks: what
// a plain array holds is what the file holds.
TEST_F(DiskFileTest, MatchesAnArray) {
  constexpr int64_t kBytes = 5 * DiskFile::kBlock + 777;
  DiskFile::Calls threads = DiskFile::system_calls();
  threads.ring = false;
  for (const auto& [dir, calls] : {std::pair(dir_, DiskFile::system_calls()),
                                   {dir_, threads},
                                   {std::string("/dev/shm"), DiskFile::system_calls()}}) {
    DiskFile file(dir, kBytes, calls);
    EXPECT_LE(file.by_ring(), calls.ring);
    file.fill(0, kBytes, 0);
    std::vector<std::byte> want(kBytes);
    std::mt19937_64 random(3);
    for (unsigned i = 0; i < 60; ++i) {
      const auto begin = static_cast<int64_t>(random() % kBytes);
      const uint64_t most = i % 3 == 0 ? kBytes : 3 * DiskFile::kGrain;
      const int64_t n = std::min<int64_t>(kBytes - begin, static_cast<int64_t>(random() % most));
      // Every other one as direct I/O wants it.
      const auto shift = [&](int64_t offset) {
        return i % 2 == 0 ? offset % DiskFile::kGrain : int64_t{1};
      };
      const Placed from(n, shift(begin));
      std::ranges::copy(noise(static_cast<size_t>(n), i), from.bytes().begin());
      file.write(begin, from.bytes());
      std::ranges::copy(from.bytes(), want.begin() + begin);
      const auto at = static_cast<int64_t>(random() % kBytes);
      const Placed got(kBytes - at, shift(at));
      file.read(at, got.bytes());
      ASSERT_TRUE(std::ranges::equal(got.bytes(), std::span(want).subspan(static_cast<size_t>(at))))
          << "write " << i;
    }
    file.fill(5000, 100'000, 0xAB);
    std::ranges::fill(std::span(want).subspan(5000, 100'000), std::byte{0xAB});
    std::vector<std::byte> got(kBytes);
    file.read(0, got);
    EXPECT_EQ(got, want);
    EXPECT_EQ(file.high_water_mark(), kBytes);
    EXPECT_EQ(file.bytes(), kBytes);
  }
}

// No other value has the rest of the last grain: nothing has to be read for it.
TEST_F(DiskFileTest, DoesNotReadPastEndOfStorage) {
  static std::atomic<int> reads;
  DiskFile::Calls calls = DiskFile::system_calls();
  calls.ring = false;
  calls.read = [](int fd, void* to, size_t n, off_t at) {
    ++reads;
    return ::pread(fd, to, n, at);
  };
  DiskFile file(dir_, 3 * DiskFile::kGrain, calls);
  if (!file.direct()) GTEST_SKIP() << "no direct I/O in " << dir_;
  const std::vector<std::byte> from = noise(5000, 1);
  reads = 0;
  file.write(0, from, /*rest_is_free=*/true);
  EXPECT_EQ(reads, 0);
  file.write(0, from);
  EXPECT_EQ(reads, 1) << "the bytes after it stay";
  std::vector<std::byte> got(from.size());
  file.read(0, got);
  EXPECT_EQ(got, from);
}

TEST_F(DiskFileTest, TransfersBlocksOfSeveralRequests) {
  constexpr int64_t kPart = 7 * DiskFile::kBlock;
  constexpr size_t kParts = 6;
  DiskFile file(dir_, kPart * kParts);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (size_t t = 0; t < kParts; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<std::byte> from = noise(kPart, static_cast<unsigned>(t));
      file.write(static_cast<int64_t>(t) * kPart, from);
      std::vector<std::byte> got(kPart);
      file.read(static_cast<int64_t>(t) * kPart, got);
      wrong += got != from;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file.writes().bytes, kPart * static_cast<int64_t>(kParts));
  EXPECT_EQ(file.reads().bytes, kPart * static_cast<int64_t>(kParts));
  EXPECT_GT(file.reads().bytes_per_s(), 0);
}

// The system may transfer less than it was asked for, and be interrupted.
TEST_F(DiskFileTest, ContinuesAfterPartialTransfer) {
  static std::atomic<int> calls_made;
  const DiskFile::Calls calls{
      [](int fd, void* to, size_t n, off_t at) -> ssize_t {
        if (++calls_made % 5 == 0) return errno = EINTR, -1;
        return ::pread(fd, to, std::min<size_t>(n, 3 * DiskFile::kGrain), at);
      },
      [](int fd, const void* from, size_t n, off_t at) -> ssize_t {
        if (++calls_made % 7 == 0) return errno = EINTR, -1;
        // A part of a grain is lost for direct I/O, and written again.
        const ssize_t done = ::pwrite(fd, from, std::min<size_t>(n, 5 * DiskFile::kGrain), at);
        return done > 2 * DiskFile::kGrain ? done - 512 : done;
      },
      /*ring=*/false};
  DiskFile file(dir_, 3 * DiskFile::kBlock + 5, calls);
  const std::vector<std::byte> from = noise(3 * DiskFile::kBlock + 5, 8);
  file.write(0, from);
  std::vector<std::byte> got(from.size());
  file.read(0, got);
  EXPECT_EQ(got, from);
}

TEST_F(DiskFileTest, NamesFailureDuringRun) {
  DiskFile::Calls calls = DiskFile::system_calls();
  calls.ring = false;
  calls.write = [](int fd, const void* from, size_t n, off_t at) -> ssize_t {
    return at >= 2 * DiskFile::kBlock ? (errno = ENOSPC, -1) : ::pwrite(fd, from, n, at);
  };
  calls.read = [](int, void*, size_t, off_t) -> ssize_t { return 0; };
  DiskFile file(dir_, 8 * DiskFile::kBlock, calls);
  const std::vector<std::byte> from = noise(8 * DiskFile::kBlock, 9);
  const std::string full = why(ExitCode::device, [&] { file.write(0, from); });
  EXPECT_THAT(full, HasSubstr("the offload file in " + dir_ + ": writing "));
  EXPECT_THAT(full, HasSubstr(" bytes at byte "));
  EXPECT_THAT(full, HasSubstr("No space left on device | the disk is full, although"));
  std::vector<std::byte> to(10);
  EXPECT_THAT(why(ExitCode::device, [&] { file.read(0, to); }),
              HasSubstr("reading 4,096 bytes at byte 0: nothing was transferred"));
  EXPECT_THAT(why(ExitCode::internal, [&] { file.fill(0, file.bytes() + 1, 0); }),
              HasSubstr("of an offload file that has 8388608"));
}

TEST_F(DiskFileTest, RefusesOversizedFile) {
  const int64_t free = free_disk_bytes(dir_);
  const std::string text = why(ExitCode::does_not_fit, [&] { DiskFile(dir_, 2 * free); });
  EXPECT_THAT(text, HasSubstr("the offload file in " + dir_ + " needs "));
  EXPECT_THAT(text, HasSubstr("bytes) are free | --disk-budget "));
  EXPECT_THAT(names_in_dir(), IsEmpty());
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small{1 << 20, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  EXPECT_THAT(why(ExitCode::does_not_fit, [&] { DiskFile(dir_, (1 << 20) + 1); }),
              HasSubstr("`ulimit -f` allows 1,048,576 bytes"));
  setrlimit(RLIMIT_FSIZE, &old);
}

TEST_F(DiskFileTest, RefusesUnusableDirectory) {
  EXPECT_THAT(why(ExitCode::bad_input, [&] { DiskFile(dir_ + "/none", 10); }),
              HasSubstr("--offload-dir " + dir_ + "/none: No such file or directory"));
  EXPECT_THAT(why(ExitCode::bad_input, [&] { DiskFile("/proc", 0); }),
              HasSubstr("--offload-dir /proc: no file can be made there: "));
  chmod(dir_.c_str(), 0500);
  if (geteuid() != 0) {  // root may write everywhere
    EXPECT_THAT(why(ExitCode::bad_input, [&] { DiskFile(dir_, 10); }),
                HasSubstr("no file can be made there: Permission denied"));
  }
}

TEST_F(DiskFileTest, ReportsTmpfsAsMemory) {
  EXPECT_THAT(DiskFile(dir_, 10).notes(), IsEmpty());
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no tmpfs";
  EXPECT_THAT(DiskFile("/dev/shm", 10).notes(),
              ::testing::ElementsAre(HasSubstr("/dev/shm is on tmpfs: its files take host")));
}

// Not even when the process is killed.
TEST_F(DiskFileTest, LeavesNoFiles) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    DiskFile file(dir_, 3 * DiskFile::kGrain);
    file.fill(0, file.bytes(), 1);
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char c = 0;
  ASSERT_EQ(read(ready[0], &c, 1), 1);
  EXPECT_THAT(names_in_dir(), IsEmpty());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_THAT(names_in_dir(), IsEmpty());
  close(ready[0]);
  close(ready[1]);
}

// It is open and nameless: it does not need the directory.
TEST_F(DiskFileTest, SurvivesItsDirectory) {
  DiskFile file(dir_, 100);
  fs::remove_all(dir_);
  const std::vector<std::byte> from = noise(100, 4);
  file.write(0, from);
  std::vector<std::byte> got(100);
  file.read(0, got);
  EXPECT_EQ(got, from);
}

}  // namespace
}  // namespace snug

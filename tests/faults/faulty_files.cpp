#include "support/faulty_files.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <random>
#include <set>

#include "base/error.h"
#include "base/testing.h"
#include "faults/disk_model.h"
#include "faults/watched_calls.h"
#include "formats/testing.h"

namespace snug::testing {
namespace {

namespace fs = std::filesystem;

// Thousands of folders: in memory, where there is such a file system.
const Environment in_memory("TMPDIR", ::access("/dev/shm", W_OK | X_OK) == 0
                                          ? "/dev/shm"
                                          : fs::temp_directory_path().string());

// A folder's content, kept in another one.
class FirstState {
 public:
  explicit FirstState(const fs::path& folder) : folder_(fs::canonical(folder)) {
    copy(folder_, kept_ / "first");
  }
  ~FirstState() { put_back(); }
  FirstState(const FirstState&) = delete;
  FirstState& operator=(const FirstState&) = delete;

  const fs::path& folder() const { return folder_; }
  void put_back() const {
    fs::remove_all(folder_);
    copy(kept_ / "first", folder_);
  }

 private:
  static void copy(const fs::path& from, const fs::path& to) {
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks);
  }

  fs::path folder_;
  TempDir kept_;
};

// Whether the check holds; says where it was the first that does not.
bool holds(const std::function<void()>& check, const std::string& when) {
  try {
    check();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  if (!::testing::Test::HasFailure()) return true;
  ADD_FAILURE() << "... " << when;
  return false;
}

int exit_code_of(const std::function<void()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      action();
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct Fault {
  int with;        // 0: a write writes half
  int next_write;  // 0: it works
};
constexpr Fault kFaults[] = {{ENOSPC, 0}, {EIO, 0}, {0, 0}, {0, ENOSPC}};

std::string text_of(const std::string& call, const Fault& fault) {
  if (fault.with != 0) return fmt::format("{}: {}", call, std::strerror(fault.with));
  return fmt::format("{}: half of it{}", call, fault.next_write != 0 ? ", then a full disk" : "");
}

// Ways to lose some of what is pending; the disk asks by the number of a change.
std::vector<DiskModel::Keep> ways_to_lose(const std::vector<size_t>& pending, uint64_t seed) {
  using Kept = DiskModel::Kept;
  constexpr int kDrawn = 8;
  std::vector<DiskModel::Keep> ways{[](size_t) { return Kept::no; },
                                    [](size_t) { return Kept::yes; }};
  for (const size_t one : pending) {
    ways.emplace_back([one](size_t i) { return i == one ? Kept::yes : Kept::no; });
    ways.emplace_back([one](size_t i) { return i == one ? Kept::no : Kept::yes; });
  }
  for (int i = 0; i < kDrawn; ++i) {
    ways.emplace_back([random = std::mt19937_64(seed + static_cast<uint64_t>(i))](size_t) mutable {
      return static_cast<Kept>(random() % 3);
    });
  }
  return ways;
}

}  // namespace

std::vector<std::string> calls_of(const fs::path& folder, const Save& save) {
  const FirstState first(folder);
  const Watch watch(folder, {});
  save();
  return watch.calls();
}

int64_t for_each_last_call(const fs::path& folder, const Save& save, const CheckFolder& check) {
  const std::vector<std::string> calls = calls_of(folder, save);
  const FirstState first(folder);
  for (size_t i = 0; i <= calls.size(); ++i) {
    first.put_back();
    const int code = exit_code_of([&] {
      const Watch watch(folder, {.last = static_cast<int64_t>(i) + 1});
      save();
    });
    EXPECT_EQ(code, i == calls.size() ? 0 : kKilled) << "a save does not always do the same";
    const std::string when = i == calls.size() ? "the save" : "the last call, " + calls[i];
    if (!holds([&] { check(first.folder()); }, "after " + when)) break;
  }
  return static_cast<int64_t>(calls.size());
}

int64_t for_each_failing_call(const fs::path& folder, const Save& save, const CheckFailure& check) {
  const std::vector<std::string> calls = calls_of(folder, save);
  const FirstState first(folder);
  for (size_t i = 0; i < calls.size(); ++i) {
    for (const Fault& fault : kFaults) {
      if (fault.with == 0 && !calls[i].starts_with("write ")) continue;
      first.put_back();
      FailedCall failed{.call = text_of(calls[i], fault)};
      try {
        const Watch watch(folder, {.failing = static_cast<int64_t>(i) + 1,
                                   .with = fault.with,
                                   .next_write = fault.next_write});
        save();
      } catch (const std::exception& error) {
        failed.error = error.what();
      }
      if (!holds([&] { check(first.folder(), failed); }, "where this failed: " + failed.call))
        return static_cast<int64_t>(calls.size());
    }
  }
  return static_cast<int64_t>(calls.size());
}

int64_t for_each_power_loss(const fs::path& folder, const Save& save, const CheckFolder& check) {
  const FirstState first(folder);
  DiskModel disk(first.folder());
  {
    const Watch watch(folder, {.disk = &disk});
    save();
  }
  std::set<FolderTree> seen;
  for (size_t count = 0; count <= disk.changes(); ++count) {
    const std::vector<size_t> pending = disk.pending(count);
    for (const DiskModel::Keep& keep : ways_to_lose(pending, count)) {
      const auto [tree, is_new] = seen.insert(disk.after_power_loss(count, keep));
      if (!is_new) continue;
      const TempDir dir;
      tree->write(dir / "after");
      if (holds([&] { check(dir / "after"); },
                fmt::format("after a power loss following change {} of {}, which left:{}", count,
                            disk.changes(), tree->text())))
        continue;
      return static_cast<int64_t>(seen.size());
    }
  }
  return static_cast<int64_t>(seen.size());
}

}  // namespace snug::testing

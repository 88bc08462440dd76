// The faults themselves: writers that are known to be wrong are found out, and a right one is not.
#include "support/faulty_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "faults/watched_calls.h"
#include "formats/testing.h"

namespace snug::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;

class FaultyFiles : public ::testing::Test {
 protected:
  FaultyFiles() { write_bytes(dir_ / "box/a", "old"); }

  // What the file held, over all ways; "-": it was not there.
  CheckFolder note_into(std::set<std::string>& found) const {
    return [&found](const std::filesystem::path& box) {
      found.insert(std::filesystem::exists(box / "a") ? read_file(box / "a") : "-");
    };
  }

  std::filesystem::path file() const { return dir_ / "box/a"; }
  std::filesystem::path box() const { return dir_ / "box"; }

  // Writes "new" and may leave out what makes it safe.
  void save(bool part_first, bool sync_file, bool sync_folder) const {
    const std::filesystem::path part = part_first ? box() / "part" : file();
    const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) throw bad_input("cannot open");
    if (::write(fd, "ne", 2) != 2 || ::write(fd, "w", 1) != 1) throw bad_input("cannot write");
    if (sync_file) ::fsync(fd);
    ::close(fd);
    if (part_first) std::filesystem::rename(part, file());
    if (sync_folder) sync_directory(box());
  }

  TempDir dir_;
};

using Contents = std::set<std::string>;

TEST_F(FaultyFiles, CallsAreInsideFolder) {
  const auto calls = calls_of(box(), [&] {
    save(true, true, true);
    write_file_atomically(dir_ / "outside", "x");
    std::filesystem::create_directory(box() / "b");
    std::filesystem::copy_file(file(), box() / "b/c");
    std::filesystem::create_hard_link(file(), box() / "d");
    std::filesystem::remove(box() / "d");
    std::filesystem::remove_all(box() / "b");
  });
  for (const char* call : {"create part", "write part", "fsync part", "close part", "rename part a",
                           "open .", "fsync .", "mkdir b", "create b/c", "write b/c", "link a d",
                           "unlink d", "unlink b/c", "rmdir b"})
    EXPECT_THAT(calls, Contains(call));
  EXPECT_THAT(calls, ::testing::Not(Contains(::testing::HasSubstr("outside"))));
  EXPECT_EQ(read_file(file()), "old") << "the folder was restored";
}

TEST_F(FaultyFiles, KillVisitsEveryState) {
  Contents found;
  for_each_last_call(
      box(), [&] { save(false, true, true); }, note_into(found));
  EXPECT_EQ(found, (Contents{"", "ne", "new"}));
  found.clear();
  for_each_last_call(
      box(), [&] { save(true, true, true); }, note_into(found));
  EXPECT_EQ(found, (Contents{"old", "new"}));
}

TEST_F(FaultyFiles, PowerLossLosesUnsyncedWrites) {
  Contents found;
  for_each_power_loss(
      box(), [&] { save(true, true, true); }, note_into(found));
  EXPECT_EQ(found, (Contents{"old", "new"}));
  found.clear();
  for_each_power_loss(
      box(), [&] { save(true, false, true); }, note_into(found));
  EXPECT_THAT(found, ::testing::IsSupersetOf({"", "old", "ne", "new"})) << "rename before bytes";
  EXPECT_TRUE(found.contains(std::string("\0\0w", 3))) << "writes in another order";
}

// After the save returned: only what was synced is sure to be there.
TEST_F(FaultyFiles, NameIsDurableAfterFolderSync) {
  const auto after_all = [&](bool sync_folder) {
    Contents found;
    for_each_power_loss(
        box(),
        [&] {
          save(true, true, sync_folder);
          save(true, true, sync_folder);
          std::filesystem::create_directory(box() / "saved");
          sync_directory(box());
        },
        [&](const std::filesystem::path& at) {
          if (std::filesystem::exists(at / "saved")) note_into(found)(at);
        });
    return found;
  };
  EXPECT_EQ(after_all(true), (Contents{"new"}));
  EXPECT_EQ(after_all(false), (Contents{"new", "old"}));
}

TEST_F(FaultyFiles, EveryCallFailsInTurn) {
  std::set<std::string> failed;
  for_each_failing_call(
      box(), [&] { write_file_atomically(file(), "new"); },
      [&](const std::filesystem::path& at, const FailedCall& call) {
        failed.insert(call.call.substr(call.call.rfind(':') + 2));
        const bool short_only = call.call.ends_with("half of it");
        EXPECT_EQ(call.error.has_value(), !short_only && !call.call.starts_with("close ."));
        EXPECT_THAT(read_file(at / "a"), AnyOf("old", "new"));
        EXPECT_TRUE(call.error || read_file(at / "a") == "new");
      });
  EXPECT_EQ(failed, (std::set<std::string>{"Input/output error", "No space left on device",
                                           "half of it", "half of it, then a full disk"}));
}

TEST_F(FaultyFiles, ExchangeIsAtomic) {
  write_bytes(dir_ / "box/old/a", "1");
  write_bytes(dir_ / "box/new/a", "2");
  Contents found;
  for_each_power_loss(
      box(),
      [&] {
        ASSERT_EQ(::renameat2(AT_FDCWD, (box() / "old").c_str(), AT_FDCWD, (box() / "new").c_str(),
                              RENAME_EXCHANGE),
                  0);
      },
      [&](const std::filesystem::path& at) {
        found.insert(read_file(at / "old/a") + read_file(at / "new/a"));
      });
  EXPECT_EQ(found, (Contents{"12", "21"}));
}

// Windows of a large file go to the disk while the next are written. Only the first wait for a
// window reports a failure: the caller must not ignore it.
TEST_F(FaultyFiles, FailedWritebackIsError) {
  const std::vector<std::byte> window(size_t{StagedFile::kWindow});
  const auto save_large = [&] {
    StagedFile part(file());
    for (int i = 0; i < 4; ++i) part.write(window);
    part.commit();
  };
  const std::vector<std::string> calls = calls_of(box(), save_large);
  int waits = 0;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool wait = calls[i].starts_with("wait_for_range");
    if (!wait && !calls[i].starts_with("send_range")) continue;
    waits += wait ? 1 : 0;
    write_bytes(file(), "old");
    const Watch watch(box(), {.failing = static_cast<int64_t>(i) + 1, .with = EIO});
    if (wait) {
      expect_error(ExitCode::bad_input, "Input/output error", save_large);
      EXPECT_EQ(read_file(file()), "old");
    } else {  // fsync sends it, too
      save_large();
      EXPECT_EQ(std::filesystem::file_size(file()), 4 * window.size());
    }
  }
  EXPECT_EQ(waits, 2);
}

}  // namespace
}  // namespace snug::testing

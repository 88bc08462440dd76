#include "checkpoint/output_directory.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::names_in;
using testing::TempDir;
using testing::write_bytes;

TEST(OutputDirectory, UnusedDirectoryIsRemoved) {
  TempDir dir;
  {
    const OutputDirectory out(dir / "a/b/c");
    EXPECT_TRUE(std::filesystem::is_directory(dir / "a/b/c"));
  }
  EXPECT_TRUE(names_in(dir.path()).empty());
  {
    const OutputDirectory out(dir / "a/b/");
    write_bytes(dir / "a/b/model", "x");
  }
  EXPECT_EQ(names_in(dir / "a/b"), (std::vector<std::string>{"model"}));
}

TEST(OutputDirectory, IsForOneAtATime) {
  TempDir dir;
  {
    const OutputDirectory first(dir / "a");
    expect_error(ExitCode::usage, "another training (process " + std::to_string(::getpid()),
                 [&] { OutputDirectory(dir / "a"); });
    const OutputDirectory sibling(dir / "b");
  }
  EXPECT_NO_THROW(OutputDirectory(dir / "a"));
}

TEST(OutputDirectory, LockDiesWithProcess) {
  TempDir dir;
  const pid_t child = ::fork();
  if (child == 0) {
    const OutputDirectory out(dir / "a");
    write_bytes(dir / "a/.saving-x/part", "half");
    ::_exit(0);  // as a killed process: no destructor runs
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  EXPECT_EQ(names_in(dir / "a").size(), 2U);
  { const OutputDirectory again(dir / "a"); }
  EXPECT_TRUE(names_in(dir / "a").empty()) << "the lock and the interrupted save are gone";
}

TEST(OutputDirectory, RemovesOnlyFilesOfSaves) {
  TempDir dir;
  for (const char* left : {"a/.saving-0123abcd/x", "a/model-0123abcd-00001-of-00002.safetensors",
                           ".saving-a-0123abcd/model.safetensors"})
    write_bytes(dir / left, "left");
  write_bytes(dir / ".saving-a-0123abcd/deep/state", "not carried over yet");
  for (const char* other : {"a/model-00001-of-00002.safetensors", "a/model-mine-1.safetensors",
                            ".saving-a-b-0123abcd/x", ".saving-a-mine/x", "outside/x"})
    write_bytes(dir / other, "of others");
  std::filesystem::create_directory_symlink("outside", dir / ".saving-a-00000000");
  { const OutputDirectory out(dir / "a"); }
  EXPECT_EQ(names_in(dir / "a"),
            (std::vector<std::string>{"deep", "model-00001-of-00002.safetensors",
                                      "model-mine-1.safetensors"}));
  EXPECT_TRUE(std::filesystem::exists(dir / "a/deep/state"));
  EXPECT_EQ(names_in(dir.path()),
            (std::vector<std::string>{".saving-a-00000000", ".saving-a-b-0123abcd",
                                      ".saving-a-mine", "a", "outside"}));
  EXPECT_EQ(names_in(dir / "outside"), std::vector<std::string>{"x"});
}

TEST(OutputDirectory, RefusesOtherPaths) {
  TempDir dir;
  const auto refused = [&](const std::filesystem::path& path, const std::string& part) {
    const auto before = names_in(dir.path());
    expect_error(ExitCode::usage, part, [&] { OutputDirectory out(path); });
    EXPECT_EQ(names_in(dir.path()), before);
  };
  write_bytes(dir / "file", "x");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  std::filesystem::create_symlink("loop", dir / "loop");
  refused(dir / "file", "file is not a directory");
  refused(dir / "file/below", "--out");
  refused(dir / "dangling", "dangling is a link to nothing");
  refused(dir / "dangling/below", "dangling");
  refused(dir / "loop", "Too many levels of symbolic links");
  refused(dir / std::string(300, 'n'), "File name too long");
  refused(dir / "new" / std::string(300, 'n'), "File name too long");
}

TEST(OutputDirectory, LinkToDirectoryIsAccepted) {
  TempDir dir;
  std::filesystem::create_directory(dir / "real");
  std::filesystem::create_directory_symlink("real", dir / "link");
  EXPECT_NO_THROW(OutputDirectory(dir / "link/new"));
}

TEST(OutputDirectory, DetectsFullDisk) {
  TempDir dir;
  const OutputDirectory out(dir / "a");
  EXPECT_NO_THROW(out.require_space(1));
  expect_error(ExitCode::bad_input, "model and checkpoints take 4.00 PiB, and its file system has",
               [&] { out.require_space(int64_t{1} << 52); });
}

}  // namespace
}  // namespace snug

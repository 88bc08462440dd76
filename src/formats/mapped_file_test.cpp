#include "formats/mapped_file.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

TEST(MappedFile, GivesTheBytesAndKeepsThemWhenMoved) {
  TempDir dir;
  write_bytes(dir / "a", "hello");
  MappedFile first(dir / "a");
  const std::byte* at = first.bytes().data();
  MappedFile second(std::move(first));
  ASSERT_EQ(second.size(), 5);
  EXPECT_EQ(second.bytes().data(), at);
  EXPECT_EQ(second.bytes()[4], std::byte{'o'});
  EXPECT_EQ(first.size(), 0);  // NOLINT: moved from on purpose
}

TEST(MappedFile, AnEmptyFileHasNoBytes) {
  TempDir dir;
  write_bytes(dir / "empty", "");
  EXPECT_TRUE(MappedFile(dir / "empty").bytes().empty());
}

TEST(MappedFile, SaysWhyItCannotRead) {
  TempDir dir;
  expect_error(ExitCode::bad_input, "none: No such file", [&] { MappedFile(dir / "none"); });
  expect_error(ExitCode::bad_input, "is a directory", [&] { MappedFile(dir.path()); });
  expect_error(ExitCode::bad_input, "not a regular file", [] { MappedFile("/dev/null"); });
}

TEST(MappedFile, SaysThatItMayNotRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  TempDir dir;
  write_bytes(dir / "secret", "x");
  std::filesystem::permissions(dir / "secret", std::filesystem::perms::none);
  expect_error(ExitCode::bad_input, "Permission denied", [&] { MappedFile(dir / "secret"); });
}

}  // namespace
}  // namespace snug

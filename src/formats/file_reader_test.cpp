#include "formats/file_reader.h"

#include <unistd.h>

#include <utility>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

std::string text_at(const FileReader& file, int64_t offset, size_t bytes) {
  std::string out(bytes, '\0');
  file.read(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

TEST(FileReader, ReadsByPositionAndSurvivesAMove) {
  TempDir dir;
  write_bytes(dir / "a", "hello");
  FileReader first(dir / "a");
  EXPECT_EQ(first.size(), 5);
  EXPECT_EQ(text_at(first, 1, 3), "ell");
  const FileReader second(std::move(first));
  EXPECT_EQ(second.size(), 5);
  EXPECT_EQ(text_at(second, 4, 1), "o");
}

TEST(FileReader, EmptyFileHasNoBytes) {
  TempDir dir;
  write_bytes(dir / "empty", "");
  EXPECT_EQ(FileReader(dir / "empty").size(), 0);
}

TEST(FileReader, ReportsMissingBytesAtEnd) {
  TempDir dir;
  write_bytes(dir / "a", "hello");
  const FileReader file(dir / "a");
  expect_error(ExitCode::bad_input, "had 5 bytes when it was opened and now ends before byte 6",
               [&] { text_at(file, 4, 2); });
}

TEST(FileReader, ReportsReadFailure) {
  TempDir dir;
  expect_error(ExitCode::bad_input, "none: No such file", [&] { FileReader(dir / "none"); });
  expect_error(ExitCode::bad_input, "is a directory", [&] { FileReader(dir.path()); });
  expect_error(ExitCode::bad_input, "not a regular file", [] { FileReader("/dev/null"); });
}

TEST(FileReader, ReportsMissingPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may read everything";
  TempDir dir;
  write_bytes(dir / "secret", "x");
  std::filesystem::permissions(dir / "secret", std::filesystem::perms::none);
  expect_error(ExitCode::bad_input, "Permission denied", [&] { FileReader(dir / "secret"); });
}

}  // namespace
}  // namespace snug

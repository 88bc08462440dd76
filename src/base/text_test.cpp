#include "base/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace snug {
namespace {

TEST(Text, PrintableEscapesTheRest) {
  EXPECT_EQ(printable("Qwen/größe 漢字 🙂"), "Qwen/größe 漢字 🙂");
  EXPECT_EQ(printable("a\x1b[31mb\r\nc\td\x7f"), "a\\x1b[31mb\\x0d\\x0ac\\x09d\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "the 8-bit escape";
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "not UTF-8, and cut off";
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80\xf5"), "\\xc0\\xaf\\xed\\xa0\\x80\\xf5");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
}

TEST(Text, FileIsReplacedAtomically) {
  const std::filesystem::path path =
      std::filesystem::path(::testing::TempDir()) / "snug-text-test" / "a.txt";
  std::filesystem::remove_all(path.parent_path());
  std::filesystem::create_directory(path.parent_path());
  write_file_atomically(path, "one");
  write_file_atomically(path, "two");
  EXPECT_EQ(read_file(path), "two");
  const std::filesystem::directory_iterator files(path.parent_path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "no temporary file is left";
  std::filesystem::remove_all(path.parent_path());
}

}  // namespace
}  // namespace snug

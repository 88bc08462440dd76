#include "train/token_stream.h"

#include <vector>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

std::string tokens16(const std::vector<uint16_t>& tokens) {
  return {reinterpret_cast<const char*>(tokens.data()), tokens.size() * 2};
}

std::vector<int32_t> read(const TokenStream& stream, int64_t begin, size_t n) {
  std::vector<int32_t> out(n);
  stream.copy(begin, out);
  return out;
}

std::string as_text(const TokenStream& stream) {
  const std::vector<int32_t> tokens = read(stream, 0, static_cast<size_t>(stream.size()));
  return {tokens.begin(), tokens.end()};
}

TEST(TokenStream, ATextFileIsItsBytes) {
  TempDir dir;
  write_bytes(dir / "a.txt", "hi \xff");
  const auto stream = open_tokens(dir / "a.txt", 256);
  EXPECT_EQ(read(*stream, 1, 3), (std::vector<int32_t>{'i', ' ', 255}));
  EXPECT_EQ(stream->text(),
            (dir / "a.txt").string() + " (1 file, 4 bytes of text, one token per byte)");
}

TEST(TokenStream, ADirectoryIsItsTextInTheOrderOfPaths) {
  TempDir dir;
  write_bytes(dir / "b.txt", "second");
  write_bytes(dir / "a/z.txt", "first");
  write_bytes(dir / "c/picture", std::string("x\0y", 3));
  write_bytes(dir / "c/empty", "");
  write_bytes(dir / ".git/config", "hidden");
  write_bytes(dir / "c/.hidden", "hidden");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  const auto stream = open_tokens(dir.path(), 256);
  EXPECT_EQ(as_text(*stream), std::string("first\0second", 12));
  EXPECT_EQ(stream->text(),
            dir.path().string() + " (2 files, 12 bytes of text, one token per byte)");
}

TEST(TokenStream, TokenFilesOfADirectoryFollowEachOther) {
  TempDir dir;
  write_bytes(dir / "shard_2.bin", tokens16({5, 6, 7}));
  write_bytes(dir / "shard_1.bin", tokens16({1, 2}));
  write_bytes(dir / "shard_3.bin", tokens16({8}));
  write_bytes(dir / "README.md", "text");
  const auto stream = open_tokens(dir.path(), 10);
  EXPECT_EQ(read(*stream, 0, 6), (std::vector<int32_t>{1, 2, 5, 6, 7, 8}));
  EXPECT_EQ(read(*stream, 1, 3), (std::vector<int32_t>{2, 5, 6}));
  EXPECT_EQ(read(*stream, 5, 1), (std::vector<int32_t>{8}));
  EXPECT_EQ(stream->text(), dir.path().string() + " (3 nanogpt files, 6 tokens)");
}

TEST(TokenStream, LeavesValidationFilesAlone) {
  TempDir dir;
  write_bytes(dir / "train.bin", tokens16({1, 2}));
  write_bytes(dir / "val.bin", tokens16({3}));
  EXPECT_EQ(open_tokens(dir.path(), 10)->size(), 2);
}

TEST(TokenStream, RefusesATokenBeyondTheVocabulary) {
  TempDir dir;
  write_bytes(dir / "a.bin", tokens16({1, 2, 50257}));
  EXPECT_NO_THROW(open_tokens(dir / "a.bin", 50258));
  expect_error(ExitCode::bad_input,
               "a.bin: token 50257 at position 2 is beyond the vocabulary of 50257",
               [&] { open_tokens(dir / "a.bin", 50257); });
  write_bytes(dir / "a.txt", "ab\x7f");
  EXPECT_NO_THROW(open_tokens(dir / "a.txt", 128));
  expect_error(ExitCode::bad_input, "token 127 at position 2 is beyond the vocabulary of 127",
               [&] { open_tokens(dir / "a.txt", 127); });
}

TEST(TokenStream, RefusesNothing) {
  TempDir dir;
  expect_error(ExitCode::bad_input, "holds no files of text",
               [&] { open_tokens(dir.path(), 256); });
  expect_error(ExitCode::bad_input, "No such file", [&] { open_tokens(dir / "none", 256); });
  write_bytes(dir / "a.txt", "");
  expect_error(ExitCode::bad_input, "a.txt is empty", [&] { open_tokens(dir / "a.txt", 256); });
}

TEST(TokenStream, SyntheticTokensDependOnSeedAndPositionOnly) {
  const auto stream = synthetic_tokens(7, 1000);
  const std::vector<int32_t> whole = read(*stream, 1000, 4000);
  EXPECT_EQ(read(*stream, 1003, 5), std::vector<int32_t>(whole.begin() + 3, whole.begin() + 8));
  EXPECT_NE(read(*synthetic_tokens(8, 1000), 1000, 4000), whole);
  int64_t small = 0;
  for (const int32_t token : whole) {
    ASSERT_GE(token, 0);
    ASSERT_LT(token, 1000);
    small += token < 125;
  }
  EXPECT_NEAR(static_cast<double>(small) / 4000, 0.5, 0.05);  // 0.5 cubed is 0.125
}

}  // namespace
}  // namespace snug

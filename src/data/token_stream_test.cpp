#include "data/token_stream.h"

#include <vector>

#include "base/testing.h"
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

TEST(TokenStream, TextFileIsReadAsBytes) {
  TempDir dir;
  write_bytes(dir / "a.txt", "hi \xff");
  const auto stream = open_tokens(dir / "a.txt", {.V = 256});
  EXPECT_EQ(read(*stream, 1, 3), (std::vector<int32_t>{'i', ' ', 255}));
  EXPECT_EQ(stream->text(),
            (dir / "a.txt").string() + " (1 file, 4 bytes of text, one token per byte)");
}

TEST(TokenStream, DirectoryIsReadInPathOrder) {
  TempDir dir;
  write_bytes(dir / "b.txt", "second");
  write_bytes(dir / "a/z.txt", "first");
  write_bytes(dir / "c/picture", std::string("x\0y", 3));
  write_bytes(dir / "c/empty", "");
  write_bytes(dir / ".git/config", "hidden");
  write_bytes(dir / "c/.hidden", "hidden");
  std::filesystem::create_symlink("nowhere", dir / "dangling");
  const auto stream = open_tokens(dir.path(), {.V = 256});
  EXPECT_EQ(as_text(*stream), std::string("first\0second", 12));
  EXPECT_EQ(stream->text(),
            dir.path().string() + " (2 files, 12 bytes of text, one token per byte)");
}

TEST(TokenStream, ReadsADirectoryFromAnyPlace) {
  TempDir dir;
  std::string whole;
  for (const char* text : {"a", "bcd", "ef", "ghijkl"}) {
    write_bytes(dir / text, text);
    whole += (whole.empty() ? std::string() : std::string(1, '\0')) + text;
  }
  const auto stream = open_tokens(dir.path(), {.V = 256});
  ASSERT_EQ(stream->size(), static_cast<int64_t>(whole.size()));
  for (size_t begin = 0; begin < whole.size(); ++begin) {
    for (size_t n = 1; begin + n <= whole.size(); ++n) {
      const std::vector<int32_t> tokens = read(*stream, static_cast<int64_t>(begin), n);
      EXPECT_EQ(std::string(tokens.begin(), tokens.end()), whole.substr(begin, n));
    }
  }
}

TEST(TokenStream, LargeTextDirectoryIsNotHeldInMemory) {
  TempDir dir;
  const std::string text(8 << 20, 'x');
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g", "h"}) write_bytes(dir / name, text);
  const int64_t before = testing::status_bytes("RssAnon:");
  if (before < 0) GTEST_SKIP() << "needs RssAnon in /proc";
  const auto stream = open_tokens(dir.path(), {.V = 256});
  EXPECT_EQ(stream->size(), 8 * (8 << 20) + 7);
  EXPECT_EQ(read(*stream, 8 << 20, 2), (std::vector<int32_t>{0, 'x'}));
  EXPECT_LT(testing::status_bytes("RssAnon:") - before, 16 << 20)
      << "of 64 MiB of text, with the sanitizer's own";
}

TEST(TokenStream, ChangedFileIsRefused) {
  TempDir dir;
  write_bytes(dir / "a.txt", std::string(1000, 'a'));
  write_bytes(dir / "b.bin", tokens16(std::vector<uint16_t>(500, 9)));
  const auto text = open_tokens(dir / "a.txt", {.V = 256});
  const auto tokens = open_tokens(dir / "b.bin", {.V = 256});
  std::filesystem::resize_file(dir / "a.txt", 10);
  std::filesystem::resize_file(dir / "b.bin", 10);
  expect_error(ExitCode::bad_input, "a.txt had 1000 bytes when it was opened and now has 10",
               [&] { read(*text, 100, 10); });
  expect_error(ExitCode::bad_input, "b.bin had 1000 bytes when it was opened and now ends",
               [&] { read(*tokens, 100, 10); });
}

TEST(TokenStream, TextIsRefusedForModelWithTokenizer) {
  TempDir dir;
  write_bytes(dir / "a.txt", "text");
  write_bytes(dir / "a.bin", tokens16({1, 2}));
  expect_error(ExitCode::usage, "a.txt is text, and the model has a tokenizer",
               [&] { open_tokens(dir / "a.txt", {.V = 256, .has_tokenizer = true}); });
  EXPECT_EQ(open_tokens(dir / "a.bin", {.V = 256, .has_tokenizer = true})->size(), 2);
  expect_error(ExitCode::usage, "--token-bytes 4: ", [&] {
    open_tokens(dir / "a.txt", {.V = 256, .token_bytes = 4});
  });
  EXPECT_EQ(open_tokens(dir / "a.bin", {.V = 1 << 20, .token_bytes = 4})->size(), 1);
}

TEST(TokenStream, TokenFilesOfADirectoryFollowEachOther) {
  TempDir dir;
  write_bytes(dir / "shard_2.bin", tokens16({5, 6, 7}));
  write_bytes(dir / "shard_1.bin", tokens16({1, 2}));
  write_bytes(dir / "shard_3.bin", tokens16({8}));
  write_bytes(dir / "README.md", "text");
  const auto stream = open_tokens(dir.path(), {.V = 10});
  EXPECT_EQ(read(*stream, 0, 6), (std::vector<int32_t>{1, 2, 5, 6, 7, 8}));
  EXPECT_EQ(read(*stream, 1, 3), (std::vector<int32_t>{2, 5, 6}));
  EXPECT_EQ(read(*stream, 5, 1), (std::vector<int32_t>{8}));
  EXPECT_EQ(stream->text(), dir.path().string() + " (3 nanogpt files, 6 tokens)");
}

TEST(TokenStream, LeavesValidationFilesAlone) {
  TempDir dir;
  write_bytes(dir / "train.bin", tokens16({1, 2}));
  write_bytes(dir / "val.bin", tokens16({3}));
  EXPECT_EQ(open_tokens(dir.path(), {.V = 10})->size(), 2);
}

TEST(TokenStream, RefusesATokenBeyondTheVocabulary) {
  TempDir dir;
  write_bytes(dir / "a.bin", tokens16({1, 2, 50257}));
  EXPECT_NO_THROW(open_tokens(dir / "a.bin", {.V = 50258}));
  expect_error(ExitCode::bad_input,
               "a.bin: token 50257 at position 2 is beyond the vocabulary of 50257",
               [&] { open_tokens(dir / "a.bin", {.V = 50257}); });
  write_bytes(dir / "a.txt", "ab\x7f");
  EXPECT_NO_THROW(open_tokens(dir / "a.txt", {.V = 128}));
  expect_error(ExitCode::bad_input, "token 127 at position 2 is beyond the vocabulary of 127",
               [&] { open_tokens(dir / "a.txt", {.V = 127}); });
}

TEST(TokenStream, RefusesNothing) {
  TempDir dir;
  expect_error(ExitCode::bad_input, "holds no files of text",
               [&] { open_tokens(dir.path(), {.V = 256}); });
  expect_error(ExitCode::bad_input, "No such file", [&] { open_tokens(dir / "none", {.V = 256}); });
  write_bytes(dir / "a.txt", "");
  expect_error(ExitCode::bad_input, "a.txt is empty",
               [&] { open_tokens(dir / "a.txt", {.V = 256}); });
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

#include "formats/token_file.h"

#include <cstring>
#include <vector>

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

template <typename T>
std::string raw(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

std::string padded_header(std::string head) {
  head.resize(1024, '\0');
  return head;
}
std::string llmc(int32_t magic, int32_t version, int32_t count) {
  return padded_header(raw<int32_t>({magic, version, count}));
}
std::string llmq(int32_t token_bytes, int32_t count, int32_t vocabulary, int32_t mask) {
  return padded_header("BIN.TOK\n" + raw<int32_t>({2, token_bytes, count, vocabulary, mask}));
}

std::vector<int32_t> all(const TokenFile& file) {
  std::vector<int32_t> tokens(static_cast<size_t>(file.size()));
  file.copy(0, tokens);
  return tokens;
}

class TokenFileTest : public ::testing::Test {
 protected:
  TokenFile open(std::string_view bytes, const TokenFileOptions& options = {}) {
    write_bytes(dir_ / "t.bin", bytes);
    return TokenFile::open(dir_ / "t.bin", options);
  }
  void expect_refused(std::string_view bytes, std::string_view part,
                      const TokenFileOptions& options = {}) {
    expect_error(ExitCode::bad_input, part, [&] { open(bytes, options); });
  }

  TempDir dir_;
};

TEST_F(TokenFileTest, ReadsBothVersionsOfLlmc) {
  const TokenFile narrow = open(llmc(20240520, 1, 3) + raw<uint16_t>({7, 50256, 65535}));
  EXPECT_EQ(narrow.format(), "llm.c");
  EXPECT_EQ(all(narrow), (std::vector<int32_t>{7, 50256, 65535}));
  const TokenFile wide = open(llmc(20240801, 7, 2) + raw<uint32_t>({128000, 5}));
  EXPECT_EQ(wide.format(), "llm.c");
  EXPECT_EQ(all(wide), (std::vector<int32_t>{128000, 5}));
  EXPECT_EQ(wide.token(0), 128000U);
}

TEST_F(TokenFileTest, ReadsLlmqInBothWidths) {
  const TokenFile wide = open(llmq(4, 2, 151936, 0) + raw<uint32_t>({151935, 1}));
  EXPECT_EQ(wide.format(), "llm.q");
  EXPECT_EQ(wide.vocabulary(), 151936);
  EXPECT_EQ(all(wide), (std::vector<int32_t>{151935, 1}));
  EXPECT_EQ(all(open(llmq(2, 1, 300, 0) + raw<uint16_t>({299}))), (std::vector<int32_t>{299}));
}

TEST_F(TokenFileTest, FallsBackToNanogpt) {
  const TokenFile file = open(raw<uint16_t>({1, 2, 40000}));
  EXPECT_EQ(file.format(), "nanogpt");
  EXPECT_EQ(all(file), (std::vector<int32_t>{1, 2, 40000}));
}

// 700,000 tokens of 32 bits, more than one block of the file, below `V`.
std::vector<uint32_t> wide_tokens(uint32_t V) {
  std::vector<uint32_t> tokens(700'000);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<uint32_t>(i * 7919) % V;
  return tokens;
}

TEST_F(TokenFileTest, ReadsWideTokensWithoutHeaderOnRequest) {
  const TokenFile file = open(raw<uint32_t>({1, 151935, 7}), {.token_bytes = 4});
  EXPECT_EQ(all(file), (std::vector<int32_t>{1, 151935, 7}));
  EXPECT_EQ(file.find_at_least(151935), 1);
  expect_refused("abcdef", "holds 6 bytes: not a whole number of uint32 tokens",
                 {.token_bytes = 4});
  expect_refused(llmc(20240520, 1, 1) + "ab", "its header says that tokens have 2 bytes, not 4",
                 {.token_bytes = 4});
}

TEST_F(TokenFileTest, RefusesToReadWideTokensAsNarrowOnes) {
  for (const uint32_t V : {200U, 50'257U, 151'936U}) {
    const std::string bytes = raw(wide_tokens(V));
    expect_refused(bytes, "looks like 32-bit tokens");
    EXPECT_EQ(open(bytes, {.token_bytes = 2}).size(), 1'400'000) << "as asked";
    EXPECT_EQ(open(bytes, {.token_bytes = 4}).size(), 700'000);
  }
  std::vector<uint32_t> tokens = wide_tokens(50'257);
  tokens.back() |= 9'000U << 16;
  EXPECT_EQ(open(raw(tokens)).size(), 1'400'000) << "one large second word is enough";
  EXPECT_EQ(open(raw(std::vector<uint16_t>(100, 3))).size(), 100) << "small tokens throughout";
}

TEST_F(TokenFileTest, FileTruncatedLaterIsRefused) {
  std::vector<uint16_t> tokens(100'000, 4);
  const TokenFile file = open(raw(tokens));
  std::filesystem::resize_file(dir_ / "t.bin", 100);
  std::vector<int32_t> row(50);
  file.copy(0, row);
  EXPECT_EQ(row[49], 4);
  expect_error(ExitCode::bad_input, "t.bin had 200000 bytes when it was opened and now ends before",
               [&] { file.copy(90'000, row); });
  expect_error(ExitCode::bad_input, "t.bin had 200000 bytes", [&] { file.find_at_least(5); });
}

TEST_F(TokenFileTest, HintOverridesMagicNumber) {
  const std::string bytes = llmc(20240520, 1, 1) + raw<uint16_t>({7});
  EXPECT_EQ(open(bytes, {.format = TokenFormat::nanogpt}).size(), 513);
  expect_refused(bytes, "does not begin as an llm.q file", {.format = TokenFormat::llmq});
  expect_refused(raw<uint16_t>({1, 2}), "does not begin as an llm.c file",
                 {.format = TokenFormat::llmc});
}

TEST_F(TokenFileTest, CopiesFromMiddleWithinBounds) {
  const TokenFile file = open(raw<uint16_t>({10, 11, 12, 13}));
  std::vector<int32_t> two(2);
  file.copy(2, two);
  EXPECT_EQ(two, (std::vector<int32_t>{12, 13}));
  expect_error(ExitCode::internal, "tokens 3 to 5 of 4", [&] { file.copy(3, two); });
}

TEST_F(TokenFileTest, FindsTheFirstTokenBeyondAVocabulary) {
  std::vector<uint16_t> tokens(10'000, 99);
  tokens[8'200] = 256;
  tokens[9'999] = 300;
  const TokenFile file = open(raw(tokens));
  EXPECT_EQ(file.find_at_least(256), 8'200);
  EXPECT_EQ(file.find_at_least(257), 9'999);
  EXPECT_EQ(file.find_at_least(301), std::nullopt);
}

TEST_F(TokenFileTest, RefusesDamageWithTheNumbers) {
  expect_refused("", "holds no tokens");
  expect_refused("abc", "holds 3 bytes");
  expect_refused(llmc(20240520, 1, 3).substr(0, 100), "header is 1024 bytes, the file has 100");
  expect_refused(llmc(20240520, 2, 0), "version 2, expected 1");
  expect_refused(llmc(20240520, 1, 3) + "ab", "counts 3 tokens of 2 bytes, but 2 bytes");
  expect_refused(llmc(20240520, 1, 1) + "abc", "counts 1 tokens of 2 bytes, but 3 bytes");
  expect_refused(llmc(20240801, 7, -1), "counts -1 tokens");
  expect_refused(llmc(20240801, 7, 0), "holds no tokens");
  expect_refused(llmq(3, 1, 9, 0) + "abc", "tokens of 3 bytes");
  expect_refused(llmq(2, 1, 9, 1) + "ab", "counts 1 tokens of 2 bytes and a mask, but 2 bytes");
  expect_refused(llmq(2, 9, 9, 1) + std::string(19, 'x'), "and a mask, but 19 bytes");
  expect_refused(llmq(2, 1, -9, 0) + "ab", "vocabulary is -9");
  expect_refused("BIN.TOK\n", "llm.q header is 1024 bytes, the file has 8");
}

TEST_F(TokenFileTest, DistinguishesTokensFromText) {
  write_bytes(dir_ / "a.bin", "anything");
  write_bytes(dir_ / "b.tok", llmq(2, 0, 9, 0));
  write_bytes(dir_ / "c.txt", "text");
  EXPECT_TRUE(is_token_file(dir_ / "a.bin"));
  EXPECT_TRUE(is_token_file(dir_ / "b.tok"));
  EXPECT_FALSE(is_token_file(dir_ / "c.txt"));
}

// Two sequences, of 3 tokens and of 1, in one document.
std::string megatron_index(uint8_t type, int64_t token_bytes,
                           const std::vector<int32_t>& lengths = {3, 1}, uint64_t version = 1) {
  std::string index("MMIDIDX\0\0", 9);
  index += raw<uint64_t>({version}) + static_cast<char>(type);
  index += raw<uint64_t>({lengths.size(), 1}) + raw(lengths);
  int64_t at = 0;
  for (const int32_t length : lengths) {
    index += raw<int64_t>({at});
    at += length * token_bytes;
  }
  return index + raw<int64_t>({0});
}

TEST_F(TokenFileTest, ReadsMegatronByItsIndex) {
  write_bytes(dir_ / "t.idx", megatron_index(8, 2));
  const TokenFile narrow = open(raw<uint16_t>({1, 2, 65535, 4}));
  EXPECT_EQ(narrow.format(), "megatron");
  EXPECT_EQ(all(narrow), (std::vector<int32_t>{1, 2, 65535, 4}));
  write_bytes(dir_ / "t.idx", megatron_index(4, 4));
  EXPECT_EQ(all(open(raw<int32_t>({1, 2, 100000, 4}))), (std::vector<int32_t>{1, 2, 100000, 4}));
  expect_refused(raw<int32_t>({1, 2, 3, 4}), "its index says that tokens have 4 bytes, not 2",
                 {.token_bytes = 2});
  EXPECT_EQ(open(raw<uint16_t>({1, 2}), {.format = TokenFormat::nanogpt}).size(), 2);
}

TEST_F(TokenFileTest, RefusesDamagedMegatron) {
  const std::string tokens = raw<uint16_t>({1, 2, 3, 4});
  const auto refused = [&](const std::string& index, std::string_view part) {
    write_bytes(dir_ / "t.idx", index);
    expect_refused(tokens, part);
  };
  const std::string good = megatron_index(8, 2);
  refused("MMIDIDX", "t.idx does not begin as Megatron's index");
  refused("x" + good.substr(1), "does not begin as Megatron's index");
  refused(megatron_index(8, 2, {3, 1}, 2), "version 2 of Megatron's index");
  refused(megatron_index(5, 8), "tokens of type 5; 4 (int32) and 8 (uint16) are read");
  refused(good + "x", "2 sequences and 1 documents do not make its 67 bytes");
  refused(good.substr(0, 50), "do not make its 50 bytes");
  refused(megatron_index(8, 2, {3, 2}), "t.bin holds 8 bytes, and its index counts 5 tokens of 2");
  refused(megatron_index(8, 3), "sequence 1 has 1 tokens from byte 9 on, and 3 come before it");
  refused(megatron_index(8, 2, {-1, 5}), "sequence 0 has -1 tokens");
}

TEST_F(TokenFileTest, MaskSelectsLearnedTokens) {
  constexpr int32_t kTokens = 9000;  // more than one piece of mask
  std::vector<uint16_t> tokens(kTokens);
  std::string mask((kTokens + 7) / 8, '\0');
  const auto learned = [](int64_t i) { return i % 3 == 0 || i % 7 == 2; };
  for (int32_t i = 0; i < kTokens; ++i) {
    tokens[static_cast<size_t>(i)] = static_cast<uint16_t>(i);
    if (learned(i)) mask[static_cast<size_t>(i / 8)] |= static_cast<char>(1 << (i % 8));
  }
  const TokenFile file = open(llmq(2, kTokens, 9000, 1) + raw(tokens) + mask);
  EXPECT_TRUE(file.masked());
  EXPECT_EQ(file.size(), kTokens);
  EXPECT_EQ(file.find_at_least(9000), std::nullopt) << "the mask is no token";
  for (const int64_t begin : {0, 5, 8, 4097}) {
    std::vector<int32_t> got(static_cast<size_t>(kTokens - begin));
    file.copy(begin, got);
    file.hide_masked(begin, got, -1);
    for (size_t i = 0; i < got.size(); ++i) {
      const int64_t at = begin + static_cast<int64_t>(i);
      ASSERT_EQ(got[i], learned(at) ? at : -1);
    }
  }
  const TokenFile plain = open(llmq(2, 1, 9, 0) + raw<uint16_t>({3}));
  EXPECT_FALSE(plain.masked());
}

}  // namespace
}  // namespace snug

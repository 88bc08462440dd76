#include "tokenizers/tokenizer.h"

#include <gmock/gmock.h>

#include "formats/testing.h"
#include "tokenizers/testing.h"
#include "tokenizers/text_encoder.h"

namespace snug {
namespace {

using nlohmann::json;
using testing::bert;
using testing::byte_level;
using ::testing::ElementsAre;
using testing::ids_of;
using testing::read;
using testing::sentence_piece;
using testing::token_texts;

#define SNUG_NEEDS_REGEX \
  if (!has_regex()) GTEST_SKIP() << "no PCRE2 in this build"
#define SNUG_NEEDS_UNICODE \
  if (!has_unicode()) GTEST_SKIP() << "no utf8proc in this build"

// --- byte-level BPE -----------------------------------------------------------------------------

TEST(Tokenizer, MergesBytesInTheOrderOfTheirRanks) {
  SNUG_NEEDS_REGEX;
  const Tokenizer t = read(byte_level({"l o", "lo w", "e r", "Ġ low"}));
  EXPECT_THAT(token_texts(t, "low lower"), ElementsAre("low", "Ġlow", "er"));
  EXPECT_EQ(t.decode(ids_of(t, "low lower")), "low lower");
}

TEST(Tokenizer, MergesArePairsToo) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({"l o", "lo w"});
  file["model"]["merges"] = json::parse(R"([["l", "o"], ["lo", "w"]])");
  EXPECT_THAT(token_texts(read(file), "low"), ElementsAre("low"));
}

TEST(Tokenizer, EveryByteHasAToken) {
  SNUG_NEEDS_REGEX;
  const Tokenizer t = read(byte_level({}));
  std::string all = "a\tb\n \x7f";
  for (const char* more : {"é", "世界", "😀", "\xef\xbf\xbd"}) all += more;
  EXPECT_EQ(t.decode(ids_of(t, all)), all);
  EXPECT_EQ(ids_of(t, all).size(), all.size());
}

TEST(Tokenizer, InvalidUtf8IsReplaced) {
  SNUG_NEEDS_REGEX;
  const Tokenizer t = read(byte_level({}));
  EXPECT_EQ(t.decode(ids_of(t, "a\xff\xe4\xb8z\xf0\x9f\x98")), "a\uFFFD\uFFFDz\uFFFD");
}

TEST(Tokenizer, WholeWordMayIgnoreMerges) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({"l o"});
  file["model"]["vocab"]["low"] = 900;
  EXPECT_THAT(token_texts(read(file), "low lo"), ElementsAre("lo", "w", "Ġ", "lo"));
  file["model"]["ignore_merges"] = true;
  EXPECT_THAT(token_texts(read(file), "low lo"), ElementsAre("low", "Ġ", "lo"));
}

TEST(Tokenizer, SplitsByAPatternBeforeTheBytes) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({"1 2", "12 3"});
  file["pre_tokenizer"] = json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}{1,2}"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  EXPECT_THAT(token_texts(read(file), "123"), ElementsAre("12", "3"));
}

TEST(Tokenizer, LongWordsMergeAsShortOnesDo) {
  SNUG_NEEDS_REGEX;
  const Tokenizer t = read(byte_level({"a a", "aa aa", "aaaa aaaa"}));
  for (const size_t n : {7U, 8U, 47U, 48U, 49U, 1000U}) {
    const std::vector<int32_t> ids = ids_of(t, std::string(n, 'a'));
    EXPECT_EQ(ids.size(), n / 8 + n % 8 / 4 + n % 4 / 2 + n % 2) << n;
  }
}

// --- added tokens -------------------------------------------------------------------------------

TEST(Tokenizer, AddedTokensMatchFirst) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({"l o"});
  testing::add_token(file, "<|end|>", 300);
  testing::add_token(file, "<|end|>x", 301);
  const Tokenizer t = read(file);
  EXPECT_THAT(token_texts(t, "lo<|end|>lo<|end|>x"),
              ElementsAre("lo", "<|end|>", "lo", "<|end|>x"));
  EXPECT_EQ(t.decode(ids_of(t, "lo<|end|>"), false), "lo");
  EXPECT_EQ(t.vocabulary(), 302);
}

TEST(Tokenizer, AddedTokensIncludeAdjacentSpaces) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({});
  testing::add_token(file, "[M]", 300, {{"lstrip", true}, {"rstrip", true}});
  EXPECT_THAT(token_texts(read(file), "a  [M] \n b"), ElementsAre("a", "[M]", "b"));
}

TEST(Tokenizer, WordIsNotFoundInsideAnother) {
  SNUG_NEEDS_REGEX;
  json file = byte_level({});
  testing::add_token(file, "at", 300, {{"single_word", true}});
  EXPECT_THAT(token_texts(read(file), "at,cat"), ElementsAre("at", ",", "c", "a", "t"));
}

TEST(Tokenizer, NormalizedTokensMatchNormalizedText) {
  SNUG_NEEDS_REGEX;
  SNUG_NEEDS_UNICODE;
  json file = byte_level({});
  file["normalizer"] = {{"type", "Lowercase"}};
  testing::add_token(file, "YES", 300, {{"normalized", true}, {"special", false}});
  testing::add_token(file, "NO", 301);
  EXPECT_THAT(token_texts(read(file), "yesYesnoNO"), ElementsAre("YES", "YES", "n", "o", "NO"));
}

// --- SentencePiece's BPE ------------------------------------------------------------------------

TEST(Tokenizer, SpacesAreLettersUnknownAreBytes) {
  const Tokenizer t = read(sentence_piece({"▁ a", "▁a b", "▁ ▁"}));
  EXPECT_THAT(token_texts(t, "ab  ab"), ElementsAre("▁ab", "▁", "▁ab"));
  EXPECT_THAT(token_texts(t, "é"), ElementsAre("▁", "<0xC3>", "<0xA9>"));
  EXPECT_EQ(t.decode(ids_of(t, "ab é  b")), "ab é  b");
}

TEST(Tokenizer, UnknownLettersFuseIntoOneToken) {
  json file = sentence_piece({"▁ a"});
  file["model"]["byte_fallback"] = false;
  EXPECT_THAT(token_texts(read(file), "éü a"), ElementsAre("▁", "<unk>", "▁a"));
  file["model"]["fuse_unk"] = false;
  EXPECT_THAT(token_texts(read(file), "éü a"), ElementsAre("▁", "<unk>", "<unk>", "▁a"));
}

TEST(Tokenizer, MetaspaceMarksWords) {
  json file = sentence_piece({"▁ a"});
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "first"}};
  testing::add_token(file, "<s>", 280);
  EXPECT_THAT(token_texts(read(file), "a a<s>a"), ElementsAre("▁a", "▁a", "<s>", "a"));
  file["pre_tokenizer"]["prepend_scheme"] = "always";
  EXPECT_THAT(token_texts(read(file), "a<s>a"), ElementsAre("▁a", "<s>", "▁a"));
}

// --- WordPiece, Unigram -------------------------------------------------------------------------

TEST(Tokenizer, BertsWordsAreTheLongestPieces) {
  SNUG_NEEDS_UNICODE;
  const Tokenizer t = read(bert({"un", "##able", "##a", "able", "cafe", "!", "世"}));
  EXPECT_THAT(token_texts(t, "Unable\tCafé! 世世 unzip"),
              ElementsAre("un", "##able", "cafe", "!", "世", "世", "[UNK]"));
  std::vector<int32_t> ids;
  Encoder(t).encode("able", ids, true);
  EXPECT_EQ(t.decode(ids), "[CLS] able [SEP]");
  EXPECT_EQ(t.decode(ids, false), "able");
  EXPECT_EQ(t.decode(ids_of(t, "unable cafe!"), false), "unable cafe!");
}

TEST(Tokenizer, UnigramPicksLikeliestSpelling) {
  json file = {{"model",
                {{"type", "Unigram"},
                 {"unk_id", 0},
                 {"vocab", json::parse(R"([["<unk>", 0], ["a", -2], ["b", -2], ["ab", -3],
                                           ["abb", -9], ["bb", -2.5]])")}}}};
  EXPECT_THAT(token_texts(read(file), "abb"), ElementsAre("a", "bb"));
  EXPECT_THAT(token_texts(read(file), "ab"), ElementsAre("ab"));
  EXPECT_THAT(token_texts(read(file), "azzb"), ElementsAre("a", "<unk>", "b"));
}

// The last two spellings are equally likely but for rounding; the expected ids are those of
// `tokenizers` 0.23.3.
TEST(Tokenizer, UnigramSumsScoresAsTokenizers) {
  const auto spelled = [](double x, double one, double two, double least) {
    const json vocab =
        json::array({{"<unk>", 0.0}, {"x", x}, {"-", one}, {"--", two}, {"z", least}});
    const json file = {{"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
    return ids_of(read(file), "x?---");
  };
  EXPECT_THAT(spelled(-5.1, -5.8, -6.6, -13.6), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(spelled(-6.9, -7.9, -7.7, -12.9), ElementsAre(1, 0, 2, 3));
  EXPECT_THAT(spelled(-1.3, -5.3, -5.6, -12.4), ElementsAre(1, 0, 3, 2));
  EXPECT_THAT(spelled(-2.2, -10.9, -6.6, -12.4), ElementsAre(1, 0, 3, 2));
}

// --- long texts ---------------------------------------------------------------------------------

std::vector<int32_t> encoded_in_parts(const Tokenizer& t, std::string_view text) {
  TextEncoder encoder(t);
  const TextEncoder::Text one{.text = text};
  std::vector<int32_t> out;
  for (const auto& encoded : encoder.encode(std::span(&one, 1))) {
    EXPECT_EQ(encoded.used, text.size());
    EXPECT_GT(encoded.ids.size(), 2U) << "it was not cut";
    for (const auto& ids : encoded.ids) out.insert(out.end(), ids.begin(), ids.end());
  }
  return out;
}

TEST(Tokenizer, PartsOfTextHaveIdsOfWhole) {
  SNUG_NEEDS_REGEX;
  std::string text;
  for (int i = 0; text.size() < 600'000; ++i)
    text += fmt::format("low{} lower  lo <|end|> é\n{}", i, i % 7 == 0 ? "   \n" : "世界 ");
  json bytes = byte_level({"l o", "lo w", "Ġ lo", "Ġlo w", "Ċ Ċ"});
  testing::add_token(bytes, "<|end|>", 300, {{"rstrip", true}});
  json spaces = sentence_piece({"▁ l", "▁l o", "▁ ▁", "w e"});
  for (const json& file : {bytes, spaces}) {
    const Tokenizer t = read(file);
    EXPECT_EQ(encoded_in_parts(t, text), ids_of(t, text));
  }
}

}  // namespace
}  // namespace snug

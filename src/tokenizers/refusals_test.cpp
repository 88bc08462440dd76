// What tokenizer.json says and Snug does not do, and what is damaged or hostile, each with its
// sentence.
#include <gmock/gmock.h>

#include "formats/testing.h"
#include "tokenizers/regex_pattern.h"
#include "tokenizers/testing.h"

namespace snug {
namespace {

using nlohmann::json;
using testing::bert;
using testing::byte_level;
using testing::expect_error;
using testing::read;
using testing::sentence_piece;

void expect_not_read(const json& file, std::string_view sentence,
                     ExitCode code = ExitCode::bad_input) {
  expect_error(code, sentence, [&] { read(file); });
}

// A file that needs no library, with one part replaced.
json with(std::string_view part, const char* text) {
  json file = sentence_piece({"▁ a"});
  file[json::json_pointer(std::string(part))] = json::parse(text);
  return file;
}

TEST(TokenizerRefusals, UnknownPartsAreNamed) {
  expect_not_read(with("/normalizer", R"({"type": "Nmt"})"),
                  "tokenizer.json: normalizer: 'Nmt' is not understood");
  expect_not_read(with("/normalizer", R"({"type": "Sequence", "normalizers": [{"type": "X"}]})"),
                  "tokenizer.json: normalizer.normalizers[0]: 'X' is not understood");
  expect_not_read(with("/pre_tokenizer", R"({"type": "UnicodeScripts"})"),
                  "tokenizer.json: pre_tokenizer: 'UnicodeScripts' is not understood");
  expect_not_read(with("/post_processor", R"({"type": "Q"})"), "post_processor: 'Q'");
  expect_not_read(with("/decoder", R"({"type": "CTC"})"), "decoder: 'CTC' is not understood");
  expect_not_read(with("/model/type", R"("WordLevel")"), "model: 'WordLevel' is not understood");
  expect_not_read(with("/model/dropout", "0.1"), "model: 'dropout' draws merges at random");
}

TEST(TokenizerRefusals, DamagedFiles) {
  expect_error(ExitCode::bad_input, "t.json is not JSON", [] { Tokenizer::parse("{", "t.json"); });
  expect_error(ExitCode::bad_input, "nests deeper",
               [] { Tokenizer::parse(std::string(10'000, '['), "t.json"); });
  expect_not_read(json::object(), "tokenizer.json: has no part 'model'");
  expect_not_read(json::array(), "tokenizer.json: is not an object");
  expect_not_read(with("/model/vocab", "{}"), "its vocabulary is empty");
  expect_not_read(with("/model/merges", "3"), "'merges' is not a list");
  expect_not_read(with("/model/merges", R"(["ab"])"), "merge 0 is not a pair of tokens");
  expect_not_read(with("/model/merges", R"(["a a"])"), "'aa' is not in its vocabulary");
  expect_not_read(with("/model/unk_token", R"("?")"), "unk_token '?' is not in its vocabulary");
}

TEST(TokenizerRefusals, InvalidIds) {
  for (const char* id : {"-1", "1.5", "\"7\"", "16777216", "18446744073709551615"})
    expect_not_read(with("/model/vocab/a", id), "ids are whole numbers below 16777216");
  expect_not_read(with("/model/vocab/a", "16777215"),
                  "a token has id 16777215, and there are only");
  json file = sentence_piece({});
  testing::add_token(file, "a", 7000);
  expect_not_read(file, "the added token 'a' has id 7000, and the vocabulary says 2");
  file = bert({"a"});
  file["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {900};
  if (has_unicode())
    expect_not_read(file, "post_processor adds token 900, and the vocabulary has 4");
}

TEST(TokenizerRefusals, OverlongTokens) {
  json file = bert({std::string(2000, 'a')});
  for (const char* part : {"normalizer", "pre_tokenizer"}) file.erase(part);
  expect_not_read(file, "model: a token of 2000 bytes; 1024 are understood");
}

TEST(TokenizerRefusals, HolesInTheVocabularyAreAllowed) {
  json file = sentence_piece({});
  file["model"]["vocab"]["z"] = 5000;
  const Tokenizer t = read(file);
  EXPECT_EQ(t.vocabulary(), 5001);
  EXPECT_EQ(t.tokens(), 265);
  EXPECT_EQ(t.text_of(4999), "");
}

TEST(TokenizerRefusals, PatternsOfOtherMeaning) {
  const auto refuse = [](const char* pattern, std::string_view what) {
    expect_error(ExitCode::bad_input, what, [&] { to_pcre(pattern, "t.json: pre_tokenizer"); });
  };
  refuse(R"([a&&b])", "has && in a class, which is not understood");
  refuse(R"([a[bc]])", "a class in a class");
  refuse(R"(a{1,2}+)", "}+");
  refuse(R"([\S])", R"(\S in a class)");
  refuse(R"(\K)", R"(\K)");
  refuse(R"((?<name>a))", "(?<n");
  refuse(R"((*LIMIT_MATCH=9)a)", "(*");
  refuse("\\", "a backslash at its end");
  EXPECT_EQ(to_pcre(R"(\p{Han}\p{L}\x41\u3040)", "").text, R"(\p{sc:Han}\p{L}\x{41}\x{3040})");
  EXPECT_TRUE(to_pcre("(?<=a)b", "").looks_behind);
  EXPECT_TRUE(to_pcre("a$", "").looks_behind);
  EXPECT_FALSE(to_pcre("[^b$]", "").looks_behind);
}

TEST(TokenizerRefusals, UnboundedBacktracking) {
  if (!has_regex()) GTEST_SKIP() << "no PCRE2 in this build";
  const Regex regex("(?:a+a+)+b", "t.json: pre_tokenizer");
  expect_error(ExitCode::bad_input, "t.json: pre_tokenizer: its pattern takes too long at byte 0",
               [&] { regex.find(std::string(40, 'a') + "cb", 0); });
}

TEST(TokenizerRefusals, MissingLibrary) {
  if (!has_regex()) expect_not_read(byte_level({}), "needs PCRE2", ExitCode::usage);
  if (!has_unicode())
    expect_not_read(bert({"a"}), "normalizer BertNormalizer needs utf8proc", ExitCode::usage);
}

// Looking for a pair takes the same time among many, and a long word no more than n log n.
TEST(TokenizerRefusals, ManyMergesAndALongWord) {
  constexpr int kMerges = 100'000;
  std::string vocab = R"("a":0,"aa":1,"aaaa":2,"x":3)", merges = R"(["a","a"],["aa","aa"])";
  for (int i = 0; i < kMerges; ++i) {
    vocab += fmt::format(R"(,"x{0}":{1},"ax{0}":{2})", i, 4 + 2 * i, 5 + 2 * i);
    merges += fmt::format(R"(,["a","x{}"])", i);
  }
  const Tokenizer t = Tokenizer::parse(
      fmt::format(R"({{"model":{{"type":"BPE","vocab":{{{}}},"merges":[{}]}}}})", vocab, merges),
      "tokenizer.json");
  EXPECT_EQ(testing::ids_of(t, std::string(400'001, 'a')).size(), 100'001U);
}

}  // namespace
}  // namespace snug

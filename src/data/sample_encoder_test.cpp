#include "data/sample_encoder.h"

#include "formats/sample_file.h"
#include "formats/testing.h"
#include "tokenizers/regex.h"
#include "tokenizers/testing.h"

namespace snug {
namespace {

using testing::add_token;
using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

class SampleEncoderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_regex()) GTEST_SKIP() << "no PCRE2 in this build";
  }

  // Bytes, a few merges across what a template writes, and the tokens of ChatML.
  static nlohmann::json tokenizer() {
    nlohmann::json file = testing::byte_level({"l o", "lo w", "Ċ Ċ"});
    add_token(file, "<|endoftext|>", 300);
    add_token(file, "<|im_start|>", 301);
    add_token(file, "<|im_end|>", 302);
    return file;
  }
  void open(const nlohmann::json& file, const nlohmann::json& config = nlohmann::json::object()) {
    write_bytes(dir_ / "tokenizer.json", file.dump());
    write_bytes(dir_ / "tokenizer_config.json", config.dump());
    model_.emplace(open_model_tokenizer(dir_.path()));
    format_.emplace(&*model_);
  }
  // The sample's tokens as text, what is learned in upper brackets: "a|[b]".
  std::string encode(std::string_view line) {
    std::vector<int32_t> words;
    SampleEncoder(*format_).encode(parse_sample(line), words);
    ids_.clear();
    std::string out;
    for (const int32_t word : words) {
      ids_.push_back(id_of(word));
      const std::string text = model_->tokenizer.text_of(id_of(word));
      out += (is_learned(word) ? "[" + text + "]" : text) + " ";
    }
    return out;
  }

  TempDir dir_;
  std::optional<ModelTokenizer> model_;
  std::optional<SampleFormat> format_;
  std::vector<int32_t> ids_;
};

TEST_F(SampleEncoderTest, TextEndsWithEndToken) {
  open(tokenizer());
  EXPECT_EQ(encode(R"({"text": "low"})"), "[low] [<|endoftext|>] ");
}

TEST_F(SampleEncoderTest, TokensPrependedByTokenizerAreNotLearned) {
  nlohmann::json file = tokenizer();
  add_token(file, "<s>", 303);
  file["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [303], "tokens": ["<s>"]}}})");
  open(file);
  EXPECT_EQ(encode(R"({"text": "low"})"), "<s> [low] [<|endoftext|>] ");
  EXPECT_EQ(encode(R"({"prompt": "lo", "completion": "lo"})"), "<s> lo [lo] [<|endoftext|>] ");
  EXPECT_EQ(encode(R"({"messages": [{"role": "assistant", "content": "lo"}]})").substr(0, 3),
            "<|i");
}

TEST_F(SampleEncoderTest, OnlyCompletionOfPromptIsLearned) {
  open(tokenizer());
  EXPECT_EQ(encode(R"({"prompt": "lol", "completion": "owl"})"), "lo [low] [l] [<|endoftext|>] ")
      << "a token that ends in the completion is learned";
  EXPECT_EQ(encode(R"({"prompt": "", "completion": "low"})"), "[low] [<|endoftext|>] ");
}

TEST_F(SampleEncoderTest, AnswersAreLearnedWithEndTokens) {
  open(tokenizer());
  EXPECT_EQ(encode(R"({"messages": [{"role": "user", "content": "lo"},
                                    {"role": "assistant", "content": "low"}]})"),
            "<|im_start|> u s e r Ċ lo <|im_end|> Ċ "
            "<|im_start|> a s s i s t a n t Ċ [low] [<|im_end|>] Ċ ");
  // Two newlines are one token: it begins before the answer.
  EXPECT_EQ(encode(R"({"messages": [{"role": "assistant", "content": "\n\nlow"}]})"),
            "<|im_start|> a s s i s t a n t [ĊĊ] [Ċ] [low] [<|im_end|>] Ċ ");
}

TEST_F(SampleEncoderTest, TokensMatchWholeText) {
  for (const bool sentence : {false, true}) {
    nlohmann::json file =
        sentence ? testing::sentence_piece({"l o", "lo w", "▁ low"}) : tokenizer();
    if (sentence) {
      add_token(file, "</s>", 300);
      add_token(file, "<|im_start|>", 301);
      add_token(file, "<|im_end|>", 302);
    }
    open(file);
    const std::string line = R"({"messages": [{"role": "system", "content": "low low"},
        {"role": "user", "content": " low\n"}, {"role": "assistant", "content": "  low <|im_end|>"},
        {"role": "user", "content": ""}, {"role": "assistant", "content": "lo"}]})";
    encode(line);
    const std::string text = format_->chat().render(parse_sample(line).messages).text;
    EXPECT_EQ(ids_, testing::ids_of(model_->tokenizer, text));
  }
}

TEST_F(SampleEncoderTest, TemplatesAreReadFromModel) {
  const std::string turn =
      "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}";
  const std::string line = R"({"messages": [{"role": "assistant", "content": "lo"}]})";
  open(tokenizer(), {{"chat_template", "{{'<|im_start|>system\nlow<|im_end|>\n'}}" + turn}});
  EXPECT_EQ(encode(line).find("<|im_start|> s y s t e m Ċ low <|im_end|>"), 0U);
  open(tokenizer(), {{"chat_template",
                      {{{"name", "tool_use"}, {"template", "other"}},
                       {{"name", "default"}, {"template", turn}}}}});
  EXPECT_EQ(encode(line).find("<|im_start|> a s s i s t a n t"), 0U);
  open(tokenizer(), {{"chat_template", "{{ '<|user|>' }}"}});
  EXPECT_NE(encode(R"({"text": "low"})"), "") << "only conversations need it";
  expect_error(ExitCode::usage, "its chat_template is not supported", [&] { encode(line); });
  write_bytes(dir_ / "chat_template.jinja", turn);
  open(tokenizer(), {{"chat_template", "{{ '<|user|>' }}"}});
  EXPECT_EQ(encode(line).find("<|im_start|> a s s i s t a n t"), 0U) << "the file comes first";
}

TEST_F(SampleEncoderTest, FamilyWithoutItsTokensIsRefused) {
  nlohmann::json file = testing::byte_level({});
  add_token(file, "<|endoftext|>", 300);
  const std::string line = R"({"messages": [{"role": "assistant", "content": "lo"}]})";
  open(file);
  expect_error(ExitCode::usage, "it has no chat_template, and no tokens of ChatML",
               [&] { encode(line); });
  open(file, {{"chat_template",
               "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>'}}"}});
  expect_error(ExitCode::usage, "'<|im_start|>' is not one of its tokens", [&] { encode(line); });
  nlohmann::json none = testing::byte_level({});
  expect_error(ExitCode::usage, "no token is known that goes between", [&] { open(none); });
}

TEST(SampleEncoderOfBytes, HasNoConversations) {
  const SampleFormat format(nullptr);
  std::vector<int32_t> words;
  SampleEncoder(format).encode(parse_sample(R"({"prompt": "a", "completion": "b"})"), words);
  EXPECT_EQ(words, (std::vector<int32_t>{not_learned('a'), 'b', 0}));
  expect_error(ExitCode::usage, "'messages' need a model with a tokenizer", [&] {
    SampleEncoder(format).encode(
        parse_sample(R"({"messages": [{"role": "assistant", "content": "lo"}]})"), words);
  });
}

}  // namespace
}  // namespace snug

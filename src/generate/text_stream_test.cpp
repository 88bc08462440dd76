#include "generate/text_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> bytes_as_they_come(std::string_view bytes) {
  TextStream stream = TextStream::of_bytes();
  std::vector<std::string> parts;
  for (const char c : bytes) parts.push_back(stream.add(static_cast<unsigned char>(c)));
  parts.push_back(stream.finish());
  return parts;
}

TEST(TextStream, BytesAreEmittedAsWholeCharacters) {
  EXPECT_THAT(bytes_as_they_come("a\xc3\xa9"
                                 "b"),
              ElementsAre("a", "", "é", "b", ""));
  EXPECT_THAT(bytes_as_they_come("\xe2\x82\xac"), ElementsAre("", "", "€", ""));
  EXPECT_THAT(bytes_as_they_come("\xf0\x9f\x98\x80"), ElementsAre("", "", "", "😀", ""));
}

TEST(TextStream, InvalidBytesAreReplaced) {
  EXPECT_THAT(bytes_as_they_come("\xff"
                                 "a"),
              ElementsAre("\uFFFD", "a", ""));
  EXPECT_THAT(bytes_as_they_come("\xc3"
                                 "a"),
              ElementsAre("",
                          "\uFFFD"
                          "a",
                          ""));
  EXPECT_THAT(bytes_as_they_come("\xe2\x82"), ElementsAre("", "", "\uFFFD")) << "at the end";
  EXPECT_THAT(bytes_as_they_come("\x80"), ElementsAre("\uFFFD", ""));
}

// A byte-level BPE of single bytes: é is two tokens.
const Tokenizer& byte_level() {
  static const Tokenizer tokenizer = Tokenizer::parse(
      R"({"model": {"type": "BPE", "vocab": {"a": 0, "Ġ": 1, "Ã": 2, "©": 3, "<end>": 4},
                    "merges": []},
          "added_tokens": [{"id": 4, "content": "<end>", "special": true, "single_word": false,
                            "lstrip": false, "rstrip": false, "normalized": false}],
          "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                            "use_regex": false},
          "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                      "use_regex": false}})",
      "test");
  return tokenizer;
}

TEST(TextStream, TokensAreEmittedAsWholeCharacters) {
  const std::vector<int32_t> prompt{0, 0};
  TextStream stream(&byte_level(), prompt);
  std::vector<std::string> parts;
  for (const int32_t token : {1, 0, 2, 3, 4, 0}) parts.push_back(stream.add(token));
  EXPECT_THAT(parts, ElementsAre(" ", "a", "", "é", "", "a"));
  EXPECT_EQ(stream.finish(), "");
}

// Longer than the tokens that are looked back at.
TEST(TextStream, AllPartsTogetherAreTheText) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.insert(ids.end(), {2, 3, 0, 1});
  TextStream stream(&byte_level(), {});
  std::string text;
  for (const int32_t id : ids) text += stream.add(id);
  text += stream.finish();
  EXPECT_EQ(text, byte_level().decode(ids));
}

TEST(StopTexts, NothingOfTheStopIsShown) {
  StopTexts stops({"END", "E\n"});
  EXPECT_EQ(stops.add("some E"), "some ");
  EXPECT_EQ(stops.add("x EN"), "Ex ");
  EXPECT_EQ(stops.add("Dmore"), "");
  EXPECT_TRUE(stops.found());
  EXPECT_EQ(stops.add("nothing"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopTexts, WithheldTextIsEmittedAtEnd) {
  StopTexts stops({"END"});
  EXPECT_EQ(stops.add("an EN"), "an ");
  EXPECT_FALSE(stops.found());
  EXPECT_EQ(stops.finish(), "EN");
}

TEST(StopTexts, EverythingIsShownWithoutStops) {
  StopTexts stops({});
  EXPECT_EQ(stops.add("text"), "text");
  EXPECT_FALSE(stops.found());
}

}  // namespace
}  // namespace snug

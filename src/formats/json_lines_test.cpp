#include "formats/json_lines.h"

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;
using Kind = JsonSample::Kind;

TEST(ParseSample, RecognizesThreeKinds) {
  EXPECT_EQ(parse_sample(R"({"text": "a\nb", "id": 7})").text, "a\nb");
  const JsonSample pair = parse_sample(R"({"prompt": "p", "completion": "c"})");
  EXPECT_EQ(pair.kind, Kind::completion);
  EXPECT_EQ(pair.text + "|" + pair.completion, "p|c");
  const JsonSample chat = parse_sample(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
          {"role": "assistant", "content": "ä", "tool_calls": null}]})");
  EXPECT_EQ(chat.kind, Kind::chat);
  ASSERT_EQ(chat.messages.size(), 3U);
  EXPECT_EQ(chat.messages[0].role, ChatRole::system);
  EXPECT_EQ(chat.messages[2].content, "ä");
}

TEST(ParseSample, MessagesTakePrecedence) {
  EXPECT_EQ(parse_sample(R"({"text": "t", "prompt": "p", "messages": []})").kind, Kind::chat);
  EXPECT_EQ(parse_sample(R"({"text": "t", "prompt": "p", "completion": "c"})").kind,
            Kind::completion);
  EXPECT_EQ(parse_sample(R"({"text": "t", "prompt": "p"})").kind, Kind::text);
  EXPECT_EQ(parse_sample(R"({"text": "t", "messages": null})").kind, Kind::text);
}

TEST(ParseSample, DetectsEmptySamples) {
  EXPECT_TRUE(parse_sample(R"({"text": ""})").is_empty());
  EXPECT_FALSE(parse_sample(R"({"text": " "})").is_empty());
  EXPECT_TRUE(parse_sample(R"({"prompt": "p", "completion": ""})").is_empty());
  EXPECT_FALSE(parse_sample(R"({"prompt": "", "completion": "c"})").is_empty());
  EXPECT_TRUE(parse_sample(R"({"messages": [{"role": "user", "content": "u"}]})").is_empty());
  EXPECT_TRUE(parse_sample(R"({"messages": []})").is_empty());
}

TEST(ParseSample, ReportsErrors) {
  const auto refused = [](std::string_view line, std::string_view part) {
    expect_error(ExitCode::bad_input, part, [&] { parse_sample(line); });
  };
  refused("{\"text\": \"a\"", "not JSON: parse error at line 1, column 13");
  refused("[1]", "it is of type array, not an object");
  refused("{}", "it has neither 'text', nor 'prompt' and 'completion', nor 'messages'");
  refused(R"({"prompt": "p"})", "it has neither");
  refused(R"({"text": 3})", "'text' is of type number, not a string");
  refused(R"({"prompt": ["p"], "completion": "c"})", "'prompt' is of type array, not a string");
  refused(R"({"messages": "m"})", "'messages' is of type string, not a list");
  refused(R"({"messages": [3]})", "message 1: it is of type number, not an object");
  refused(R"({"messages": [{"role": "user"}]})", "message 1: it has no 'content'");
  refused(R"({"messages": [{"role": "user", "content": "u"}, {"role": "tool", "content": ""}]})",
          "message 2: role 'tool' is not one of system, user and assistant");
  refused(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "u"}]}]})",
          "message 1: 'content' is of type array, not a string");
  refused(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": [1]}]})",
          "message 1: it has 'tool_calls', which is not supported");
  refused("{\"text\": \"\xff\"}", "not JSON");
  refused("{\"text\": " + std::string(100, '['), "nests deeper than 64 levels");
}

class LineReaderTest : public ::testing::Test {
 protected:
  std::vector<std::string> read(std::string_view bytes, int64_t at_once) {
    write_bytes(dir_ / "a.jsonl", bytes);
    LineReader reader(FileReader(dir_ / "a.jsonl"));
    LineReader::Batch batch;
    std::vector<std::string> out;
    while (reader.read(at_once, batch)) {
      EXPECT_FALSE(batch.lines.empty());
      for (const Line& line : batch.lines)
        out.push_back(std::to_string(line.number) + ":" + std::string(line.text));
    }
    return out;
  }
  TempDir dir_;
};

TEST_F(LineReaderTest, LinesDoNotDependOnPieceSize) {
  const std::string bytes = "\xef\xbb\xbf{a}\n\n  \t\r\n{bb}\r\n{a longer line}\n{last}";
  const std::vector<std::string> want{"1:{a}", "4:{bb}\r", "5:{a longer line}", "6:{last}"};
  for (const int64_t at_once : {1, 2, 3, 7, 1000}) EXPECT_EQ(read(bytes, at_once), want);
  EXPECT_EQ(read(bytes + "\n", 5), want);
}

TEST_F(LineReaderTest, FindsNothingInBlankFiles) {
  EXPECT_TRUE(read("\n\n \n", 2).empty());
  EXPECT_TRUE(read("", 2).empty());
}

}  // namespace
}  // namespace snug

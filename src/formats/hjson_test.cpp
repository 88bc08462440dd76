#include "formats/hjson.h"

#include <gtest/gtest.h>

#include "formats/testing.h"

namespace snug {
namespace {

std::string hjson(std::string_view text) { return read_hjson(text, "ds.json").dump(); }

TEST(Hjson, ReadsJson) {
  EXPECT_EQ(hjson(R"({"a": 1, "b": {"c": [1, -2.5, 5e8, "x\n\u00e9", true, null]}})"),
            R"({"a":1,"b":{"c":[1,-2.5,500000000.0,"x\né",true,null]}})");
  EXPECT_EQ(hjson("{}"), "{}");
  EXPECT_EQ(hjson("\xEF\xBB\xBF{\"a\": 1}"), R"({"a":1})");
}

TEST(Hjson, ReadsCommentsOfThreeKinds) {
  EXPECT_EQ(hjson("// one\n{ # two\n \"a\": 1, /* three\n */ \"b\": 2 // four\n}\n# five"),
            R"({"a":1,"b":2})");
  EXPECT_EQ(hjson(R"({"a": "x // no comment # nor this"})"),
            R"({"a":"x // no comment # nor this"})");
}

TEST(Hjson, ReadsRelaxedSyntax) {
  EXPECT_EQ(hjson("{\"a\": [1, 2,], \"b\": 1,}"), R"({"a":[1,2],"b":1})") << "commas left over";
  EXPECT_EQ(hjson("{a: 1\n b: 2\n}"), R"({"a":1,"b":2})") << "commas and quotes left out";
  EXPECT_EQ(hjson("a: 1\nb: 'two'\n"), R"({"a":1,"b":"two"})") << "braces left out";
  EXPECT_EQ(hjson("{a: some words, and more\n}"), R"({"a":"some words, and more"})");
  EXPECT_EQ(hjson(R"({a: 'it\'s "quoted"'})"), R"({"a":"it's \"quoted\""})");
  EXPECT_EQ(hjson(""), "{}");
}

TEST(Hjson, RefusesWithTheLine) {
  testing::expect_error(ExitCode::bad_input, "ds.json: line 3: a is there twice",
                        [] { hjson("{\n\"a\": 1,\n\"a\": 2}"); });
  testing::expect_error(ExitCode::bad_input, "line 2: a : is missing after a",
                        [] { hjson("{\n\"a\" 1}"); });
  testing::expect_error(ExitCode::bad_input, "does not end", [] { hjson("{\"a\": 1"); });
  testing::expect_error(ExitCode::bad_input, "does not end", [] { hjson("{\"a\": [1"); });
  testing::expect_error(ExitCode::bad_input, "does not end", [] { hjson("{\"a\": \"x\n\"}"); });
  testing::expect_error(ExitCode::bad_input, "/* and does not end", [] { hjson("{} /* x"); });
  testing::expect_error(ExitCode::bad_input, "follows the end", [] { hjson("{} {}"); });
  testing::expect_error(ExitCode::bad_input, "not a list", [] { hjson("[1]"); });
  testing::expect_error(ExitCode::bad_input, "where a value is expected", [] { hjson("{a: }"); });
  testing::expect_error(ExitCode::bad_input, "where a key is expected", [] { hjson("{,}"); });
  testing::expect_error(ExitCode::bad_input, "several lines", [] { hjson("{a: '''x'''}"); });
  testing::expect_error(ExitCode::bad_input, "is not a text", [] { hjson("{a: \"\\q\"}"); });
  testing::expect_error(ExitCode::bad_input, "is not UTF-8", [] { hjson("{a: \xff\n}"); });
}

TEST(Hjson, IsBounded) {
  std::string deep;
  for (int i = 0; i < 65; ++i) deep += "{a:";
  testing::expect_error(ExitCode::bad_input, "deeper than 64 levels", [&] { hjson(deep); });
  std::string wide = "{";
  for (int i = 0; i < 5000; ++i) wide += fmt::format("k{}: 1,", i);
  testing::expect_error(ExitCode::bad_input, "more than 4096 values", [&] { hjson(wide + "}"); });
}

}  // namespace
}  // namespace snug

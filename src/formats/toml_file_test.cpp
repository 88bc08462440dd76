#include "formats/toml_file.h"

#include "formats/testing.h"

namespace snug {
namespace {

using testing::expect_error;

class TomlFile : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!toml_is_read()) GTEST_SKIP() << "built without toml++";
  }
  static std::string one(std::string_view text) {
    const std::vector<TomlEntry> entries = read_toml(text, "a.toml");
    return entries.size() == 1 ? entries[0].value : "";
  }
  static void expect_refused(std::string_view text, std::string_view part) {
    expect_error(ExitCode::usage, part, [&] { read_toml(text, "a.toml"); });
  }
};

TEST_F(TomlFile, ReadsEveryKindOfValue) {
  EXPECT_EQ(one("batch = 1_000  # many"), "1000");
  EXPECT_EQ(one("batch = 0x10"), "16");
  EXPECT_EQ(one("lr = 3e-4"), "0.0003");
  EXPECT_EQ(one("lr = 2.0"), "2.0");
  EXPECT_EQ(one("eps = 1e-08"), "1e-08");
  EXPECT_EQ(one("tf32 = true"), "true");
  EXPECT_EQ(one("data = 'C:\\x'"), "C:\\x");
  EXPECT_EQ(one("data = \"a \\\"b\\\" \\u0041\""), "a \"b\" A");
  EXPECT_EQ(one("\"batch\" = 4"), "4");
}

TEST_F(TomlFile, KeepsTheOrderAndTheLines) {
  const std::vector<TomlEntry> entries = read_toml("seq = 1\n\nbatch = 2\n", "a.toml");
  ASSERT_EQ(entries.size(), 2U);
  EXPECT_EQ(entries[0].key, "seq");
  EXPECT_EQ(entries[1].line, 3);
}

TEST_F(TomlFile, RefusesWithTheLine) {
  expect_refused("batch = 2\nbatch = 3\n", "a.toml: line 2: ");
  expect_refused("a = 1\nb = bare\n", "a.toml: line 2: ");
  expect_refused("a = 1\nb = [1, 2]\n", "line 2: b is not a number, a text in quotes");
  expect_refused("a = 1\nb = 1979-05-27\n", "line 2: b is not a number");
  expect_refused("a = 1\n[run]\nb = 1\n", "line 2: there is no table [run]");
  expect_refused("a.b = 1\n", "there is no table [a]");
  expect_refused("a = 99999999999999999999\n", "line 1");
  expect_refused("a = 2026-11-17Tx3:00:00Z\n", "a.toml is not valid TOML");
  expect_refused("a = 1\nb = 4é\n", "line 2: ");
}

TEST_F(TomlFile, PassesOverNamedTables) {
  const auto entries = read_toml("a = 1\n[settled]\na = 2\nb = [3]\n", "a.toml", {"settled"});
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].value, "1");
}

TEST_F(TomlFile, AnyTextIsReadBack) {
  for (const std::string text : {"plain", "a \"b\" \\c", "tab\t line\n \x7f \x01", "größe 漢"}) {
    EXPECT_EQ(one("data = " + toml_string(text)), text);
  }
}

}  // namespace
}  // namespace snug

// The documents say what the program does: their commands run, the output they quote is what comes,
// their verbs, options and techniques are the program's, what they link to exists, and each stored
// result is cited.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <cctype>
#include <cstdio>

#include "base/testing.h"
#include "base/text.h"
#include "docs/markdown.h"
#include "formats/deepspeed_config.h"
#include "formats/testing.h"
#include "snug/options.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;

const fs::path kRoot = fs::path(SNUG_TEST_DIR).parent_path().parent_path();

// A directory that looks like the project's own to a command written for it, and may be written to.
class Workplace {
 public:
  Workplace() {
    fs::create_directory(dir_ / "build");
    fs::create_symlink(SNUG_BINARY, dir_ / "build/snug");
    for (const char* name : {"tests", "examples"})
      fs::create_directory_symlink(kRoot / name, dir_ / name);
    fs::copy(kRoot / "docs", dir_ / "docs", fs::copy_options::recursive);
    for (const char* name : {"README.md", "CONTRIBUTING.md"})
      fs::copy_file(kRoot / name, dir_ / name);
  }

  struct Result {
    int exit_code = -1;
    std::string output;
  };
  Result run(const std::string& command) const {
    const std::string line =
        fmt::format("cd '{}' && {{ {}\n}} 2>&1", dir_.path().string(), command);
    FILE* pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) throw internal_error("cannot run {}", command);
    Result result;
    char buffer[4096];
    while (const size_t n = fread(buffer, 1, sizeof buffer, pipe)) result.output.append(buffer, n);
    const int status = pclose(pipe);
    result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return result;
  }

 private:
  testing::TempDir dir_;
  // What is quoted was printed where nothing had been measured.
  testing::Environment cache_{"XDG_CACHE_HOME", (dir_ / "cache").string()};
};

bool is_command(const std::string& line) { return line.starts_with("build/snug "); }
bool is_run(const std::string& line) { return line.find("# not run") == line.npos; }
// "# exits 3": what a command that shows a refusal is expected to do.
int expected_exit(const std::string& line) {
  const size_t at = line.find("# exits ");
  return at == line.npos ? 0 : std::stoi(line.substr(at + 8));
}

// A quoted output may leave lines out, but invents none.
void expect_quoted(const Fence& fence, const std::string& output) {
  const std::vector<std::string> real = split(output, '\n');
  for (const std::string& line : fence.lines) {
    const bool left_out = line == "..." || line.empty();
    EXPECT_TRUE(left_out || std::ranges::find(real, line) != real.end())
        << line << "\nis not in what was printed:\n"
        << output;
  }
}

class Document : public ::testing::TestWithParam<std::string> {};

TEST_P(Document, CommandsPrintQuotedOutput) {
  const Workplace here;
  std::string last_output;
  for (const Fence& fence : fences_of(read_file(kRoot / GetParam()))) {
    if (fence.language == "output") expect_quoted(fence, last_output);
    if (fence.language != "sh") continue;
    for (const std::string& line : fence.lines) {
      if (!is_command(line) || !is_run(line)) continue;
      const Workplace::Result result = here.run(line);
      EXPECT_EQ(result.exit_code, expected_exit(line)) << line << "\n" << result.output;
      last_output = result.output;
    }
  }
}

TEST_P(Document, LinksHaveTargets) {
  const fs::path here = kRoot / GetParam();
  for (const auto& [path, part] : relative_links_of(read_file(here))) {
    const fs::path target = path.empty() ? here : here.parent_path() / path;
    ASSERT_TRUE(fs::exists(target)) << path;
    if (part.empty() || target.extension() != ".md") continue;
    EXPECT_THAT(parts_of(read_file(target)), Contains(part)) << path;
  }
}

// Code names a file of src/ by its folder: `passes/autodiff` is src/passes/autodiff.cpp.
bool names_a_file(const std::string& path) {
  for (const char* folder : {"", "src", "include"}) {
    for (const char* extension : {"", ".h", ".cpp"})
      if (fs::exists(kRoot / folder / (path + extension))) return true;
  }
  return path.starts_with("build/");
}

TEST_P(Document, NamedFilesExist) {
  for (const std::string& path : code_paths_of(read_file(kRoot / GetParam())))
    EXPECT_TRUE(names_a_file(path)) << path;
}

std::vector<std::string> document_names() {
  std::vector<std::string> names;
  for (const fs::path& path : documents(kRoot)) names.push_back(path.string());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, Document, ::testing::ValuesIn(document_names()),
                         [](const auto& name) {
                           std::string word = name.param;
                           std::replace_if(
                               word.begin(), word.end(), [](char c) { return !std::isalnum(c); },
                               '_');
                           return word;
                         });

std::string default_text(const Option& option) {
  const std::string text = option.text(Options{});
  return option.kind != ValueKind::flag ? text : text == "true" ? "on" : "off";
}

TEST(CommandLine, DocumentListsExactlyTheProgramsOptions) {
  std::vector<Row> expected;
  for (const Option& option : all_options())
    expected.push_back({fmt::format("`--{}`", option.key),
                        option.is_for(Verbs::plan) ? "plan, train" : "train", default_text(option),
                        std::string(option.help)});
  EXPECT_EQ(rows_of(read_file(kRoot / "docs/command-line.md"), "`--"), expected);
}

TEST(CommandLine, DocumentListsVerbs) {
  std::vector<Row> expected;
  for (const std::string& line : split(Workplace().run("build/snug help").output, '\n')) {
    const size_t name = 2, answer = line.find_first_not_of(' ', line.find(' ', name));
    if (!line.starts_with("  ") || line.starts_with("  snug ") || answer == line.npos) continue;
    expected.push_back(
        {fmt::format("`{}`", line.substr(name, line.find(' ', name) - name)), line.substr(answer)});
  }
  std::vector<Row> listed = rows_of(read_file(kRoot / "docs/command-line.md"), "`");
  std::erase_if(listed, [](const Row& row) { return row.size() != 2 || row[0].starts_with("`-"); });
  // A link at the end is the document's own.
  for (Row& row : listed) row[1] = row[1].substr(0, row[1].find(" (["));
  EXPECT_EQ(listed, expected);
}

std::string proposed_by(const Technique& t) {
  std::vector<std::string> readers;
  if (t.searched != nullptr) readers.emplace_back("search");
  if (t.helps != nullptr) readers.emplace_back("advice");
  if (t.on_ladder != OnLadder::no) readers.emplace_back("ladder");
  return join(readers, ", ");
}

TEST(Techniques, DocumentListsExactlyTheTable) {
  std::vector<Row> expected;
  for (const Technique& t : techniques()) {
    expected.push_back({std::string(t.name), fmt::format("`{}`", flags_of(t.change)),
                        std::string(t.numbers), proposed_by(t)});
  }
  std::vector<Row> listed = rows_of(read_file(kRoot / "docs/techniques.md"), "");
  std::erase_if(listed, [](const Row& row) { return !row.at(1).starts_with("`--"); });
  EXPECT_EQ(listed, expected);
}

TEST(DeepSpeedKeys, DocumentListsExactlyTheTable) {
  std::vector<Row> expected;
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    std::vector<std::string> options;
    if (!key.option.empty())
      for (const std::string& option : split(key.option, ' '))
        options.push_back(fmt::format("`{}`", option));
    expected.push_back({fmt::format("`{}`", key.path()), std::string(name_of(key.type)),
                        std::string(key.otherwise), join(options, ", "), std::string(key.here)});
  }
  std::vector<Row> listed = rows_of(read_file(kRoot / "docs/deepspeed.md"), "`");
  std::erase_if(listed, [](const Row& row) { return row.size() != 5; });
  EXPECT_EQ(listed, expected);
}

// What cites a result: a document, or a comment of the code.
std::string all_that_cites() {
  std::string text;
  for (const fs::path& path : documents(kRoot)) text += read_file(kRoot / path);
  for (const char* folder : {"src", "include", "cli", "tests", "tools"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      const fs::path extension = entry.path().extension();
      for (const char* code : {".h", ".cpp", ".cu", ".cuh", ".py", ".sh"})
        if (extension == code) text += read_file(entry.path());
    }
  }
  return text;
}

TEST(Results, AreCited) {
  const std::string text = all_that_cites();
  for (const auto& entry : fs::directory_iterator(kRoot / "bench/results")) {
    const std::string name = entry.path().filename().string();
    EXPECT_NE(text.find("bench/results/" + name), std::string::npos)
        << name << ": git keeps what no document quotes";
  }
}

TEST(Markdown, FindsFencesRowsLinksAndPaths) {
  const std::string text =
      "# A part: `b`, c-d\nsee [a](b.md#part), [h](#i), [c](https://x.y) and `[d](e)`\n| `--x` | "
      "one \\| two |\n"
      "`passes/compile.cpp` and `ir/order`, not `a / b`, `~/.cache` or `and/or NOT`\n"
      "```sh\n[f](g)\n| `--y` |\n```\n";
  EXPECT_EQ(relative_links_of(text), (std::vector<DocumentLink>{{"b.md", "part"}, {"", "i"}}));
  EXPECT_EQ(parts_of(text), std::vector<std::string>{"a-part-b-c-d"});
  EXPECT_EQ(code_paths_of(text), (std::vector<std::string>{"passes/compile.cpp", "ir/order"}));
  EXPECT_EQ(rows_of(text, "`--"), (std::vector<Row>{{"`--x`", "one | two"}}));
  ASSERT_EQ(fences_of(text).size(), 1U);
  EXPECT_EQ(fences_of(text)[0].language, "sh");
  EXPECT_EQ(fences_of(text)[0].lines.size(), 2U);
}

}  // namespace
}  // namespace snug

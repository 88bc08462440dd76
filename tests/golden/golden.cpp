#include "golden/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/registry.h"

namespace snug {
namespace {

std::string as_comment(std::string_view what) {
  std::string out;
  for (const std::string_view line : split(what, '\n')) out += fmt::format("# {}\n", line);
  return what.empty() ? "" : out + "\n";
}

}  // namespace

void expect_golden(const Module& module, std::string_view name, std::string_view what) {
  EXPECT_NO_THROW(verify(module)) << name;
  const std::string text = print(module);
  EXPECT_EQ(print(parse(as_comment(what) + text, ops::registry())), text)
      << name << " does not read back";
  expect_golden_text(text, fmt::format("{}.snug", name), what);
}

void expect_golden_text(std::string_view text, std::string_view file, std::string_view what) {
  const std::filesystem::path tests = SNUG_TEST_DIR;
  const auto folder =
      file.find('/') != file.npos ? tests.parent_path().parent_path() / "src/techniques" : tests;
  const auto path = folder / file;
  const std::string whole = fmt::format("{}{}", as_comment(what), text);
  if (std::getenv("SNUG_UPDATE_GOLDEN") != nullptr) write_file_atomically(path, whole);
  ASSERT_TRUE(std::filesystem::exists(path)) << path << ": SNUG_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(read_file(path), whole) << "run with SNUG_UPDATE_GOLDEN=1 if the new text is right";
}

}  // namespace snug

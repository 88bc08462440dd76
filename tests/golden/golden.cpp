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
  const auto path = std::filesystem::path(SNUG_TEST_DIR) / fmt::format("{}.snug", name);
  if (std::getenv("SNUG_UPDATE_GOLDEN") != nullptr)
    write_file_atomically(path, as_comment(what) + text);
  ASSERT_TRUE(std::filesystem::exists(path)) << path << ": SNUG_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(read_file(path), as_comment(what) + text)
      << "run with SNUG_UPDATE_GOLDEN=1 if the new text is right";
}

}  // namespace snug

#include "golden/golden.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "base/text.h"
#include "ir/text.h"
#include "ops/registry.h"

namespace snug {

void expect_golden(const Module& module, std::string_view name) {
  const std::string text = print(module);
  EXPECT_EQ(print(parse(text, ops::registry())), text) << name << " does not read back";
  const auto path = std::filesystem::path(SNUG_TEST_DIR) / fmt::format("{}.snug", name);
  if (std::getenv("SNUG_UPDATE_GOLDEN") != nullptr) write_file_atomically(path, text);
  EXPECT_EQ(read_file(path), text) << "run with SNUG_UPDATE_GOLDEN=1 if the new text is right";
}

}  // namespace snug

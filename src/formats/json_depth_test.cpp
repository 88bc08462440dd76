#include "formats/json_depth.h"

#include <gtest/gtest.h>

#include <string>

namespace snug {
namespace {

std::string nested(int depth) {
  return std::string(static_cast<size_t>(depth), '[') +
         std::string(static_cast<size_t>(depth), ']');
}

TEST(JsonDepth, RefusesDeepNesting) {
  EXPECT_NO_THROW(require_shallow_json(nested(64), "a.json"));
  EXPECT_THROW(require_shallow_json(nested(65), "a.json"), Error);
  EXPECT_THROW(require_shallow_json(std::string(100'000, '{'), "a.json"), Error);
}

TEST(JsonDepth, CountsNoBracketInAText) {
  EXPECT_NO_THROW(require_shallow_json("\"" + std::string(100, '[') + "\"", "a.json"));
  EXPECT_NO_THROW(require_shallow_json("\"\\\"" + std::string(100, '[') + "\"", "a.json"));
  EXPECT_THROW(require_shallow_json("\"\\\\\"" + std::string(100, '['), "a.json"), Error);
}

}  // namespace
}  // namespace snug

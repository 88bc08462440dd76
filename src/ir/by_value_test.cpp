#include "ir/by_value.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(ByValue, FindsKnownKeys) {
  ByValue<int> known;
  EXPECT_EQ(known.find({3}), nullptr);
  known[{3}] = 7;
  int& first = known[{3}];
  for (int32_t i = 1000; i > 3; i -= 7) known[{i}] = i;
  EXPECT_EQ(&known[{3}], &first) << "an entry stays where it is";
  EXPECT_EQ(*known.find({3}), 7);
  EXPECT_EQ(*known.find({993}), 993);
  EXPECT_FALSE(known.contains({4}));
  EXPECT_FALSE(known.contains({100000}));
  EXPECT_FALSE(known.contains({})) << "no value";
}

TEST(ByValue, ListsByRisingValue) {
  ByValue<int> known;
  for (const int32_t i : {5, 2, 9}) known[{i}] = i;
  known.erase({5});
  known.erase({77});
  EXPECT_THAT(known.ids(), ::testing::ElementsAre(ValueId{2}, ValueId{9}));
  EXPECT_EQ(known[{5}], 0) << "as new";
}

}  // namespace
}  // namespace snug

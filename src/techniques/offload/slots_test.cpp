#include "techniques/offload/slots.h"

#include <gmock/gmock.h>

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

SlotOp computes(int32_t layer, int32_t micro_batch = 0) {
  return {.layer = layer, .micro_batch = micro_batch};
}
SlotOp updates(int32_t layer, int64_t moved) {
  return {.layer = layer, .updates = true, .moved = moved};
}
SlotOp overlapping(SlotOp op) {
  op.overlaps = true;
  return op;
}

TEST(Slots, AreALayersOpsInARow) {
  EXPECT_THAT(first_of_slots({}), IsEmpty());
  EXPECT_THAT(first_of_slots({computes(0), computes(0), computes(1), computes(0)}),
              ElementsAre(0, 2, 3));
  EXPECT_THAT(first_of_slots({computes(0, 0), computes(0, 1), computes(0, 1)}), ElementsAre(0, 1));
}

TEST(Slots, MergeUpdatesUpToLargest) {
  EXPECT_THAT(first_of_slots({updates(0, 8), updates(0, 3), updates(0, 5), updates(0, 1)}),
              ElementsAre(0, 1, 3));
  EXPECT_THAT(first_of_slots({updates(0, 8), updates(1, 1), updates(2, 1)}), ElementsAre(0, 1, 2));
  EXPECT_THAT(first_of_slots({computes(0), updates(1, 4), computes(0), updates(1, 4)}),
              ElementsAre(0, 1, 3))
      << "an op of the layer that was being computed goes with the update before it";
}

TEST(Slots, IgnoreHostOps) {
  EXPECT_THAT(first_of_slots({computes(0), overlapping(computes(1)), overlapping(updates(1, 8)),
                              computes(0), computes(1)}),
              ElementsAre(0, 4));
  EXPECT_THAT(first_of_slots({overlapping(updates(0, 99)), updates(0, 2), updates(0, 2)}),
              ElementsAre(0, 1, 2))
      << "what the host updates is not prefetched, and sets no measure";
}

}  // namespace
}  // namespace snug

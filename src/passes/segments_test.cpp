#include "passes/segments.h"

#include <gmock/gmock.h>

namespace snug {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

SegmentOp computes(int32_t layer, int32_t micro_batch = 0) {
  return {.layer = layer, .micro_batch = micro_batch};
}
SegmentOp updates(int32_t layer, int64_t moved) {
  return {.layer = layer, .updates = true, .moved = moved};
}
SegmentOp beside(SegmentOp op) {
  op.beside = true;
  return op;
}

TEST(Segments, AreALayersOpsInARow) {
  EXPECT_THAT(first_of_segments({}), IsEmpty());
  EXPECT_THAT(first_of_segments({computes(0), computes(0), computes(1), computes(0)}),
              ElementsAre(0, 2, 3));
  EXPECT_THAT(first_of_segments({computes(0, 0), computes(0, 1), computes(0, 1)}),
              ElementsAre(0, 1));
}

TEST(Segments, HoldUpdatesUpToWhatTheLargestMoves) {
  EXPECT_THAT(first_of_segments({updates(0, 8), updates(0, 3), updates(0, 5), updates(0, 1)}),
              ElementsAre(0, 1, 3));
  EXPECT_THAT(first_of_segments({updates(0, 8), updates(1, 1), updates(2, 1)}),
              ElementsAre(0, 1, 2));
  EXPECT_THAT(first_of_segments({computes(0), updates(1, 4), computes(0), updates(1, 4)}),
              ElementsAre(0, 1, 3))
      << "an op of the layer that was being computed goes with the update before it";
}

TEST(Segments, GoOnBesideTheHost) {
  EXPECT_THAT(first_of_segments({computes(0), beside(computes(1)), beside(updates(1, 8)),
                                 computes(0), computes(1)}),
              ElementsAre(0, 4));
  EXPECT_THAT(first_of_segments({beside(updates(0, 99)), updates(0, 2), updates(0, 2)}),
              ElementsAre(0, 1, 2))
      << "what the host updates is not brought, and sets no measure";
}

}  // namespace
}  // namespace snug

// What fits moves to a nearer space, and is written as --offload takes it.
#include "search/room.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "compile/compile.h"
#include "models/model.h"
#include "settings/parse.h"

namespace snug {
namespace {

// Sixteen layers of one size, and an embedding as large as some of them.
struct Optimizer {
  Optimizer() {
    Recipe recipe;
    recipe.optimizer = OptimizerKind::sgd;
    recipe.momentum = 0.9;
    const Model model = Model::load("gpt2").with_layers(16);
    room = Room(compile("room", model.forward({.batch = 1, .seq = 8}), recipe));
    const auto host_bytes = [&](const char* offload) {
      return room.moved_by(parse_setting<Offload>(offload, "offload"))[Space::host];
    };
    layer = host_bytes("optimizer@3");
    outside = host_bytes("optimizer") - 16 * layer;
  }
  std::string nearer(const char* offload, Space space, int64_t bytes, int32_t fewer = 0) const {
    const auto other = room.with_nearer(parse_setting<Offload>(offload, "offload"),
                                        OffloadItem::optimizer, space, bytes, fewer);
    return other ? text(*other) : "no other";
  }
  Room room;
  int64_t layer = 0, outside = 0;
};

TEST(Room, LastLayersFollowUnlayeredValues) {
  const Optimizer o;
  ASSERT_GT(o.outside, o.layer);
  EXPECT_EQ(o.nearer("optimizer,params", Space::device, o.outside + 3 * o.layer),
            "optimizer@0-12,params");
  EXPECT_EQ(o.nearer("optimizer,params", Space::device, o.outside + 3 * o.layer, 2),
            "optimizer@0-14,params");
  EXPECT_EQ(o.nearer("optimizer,params", Space::device, o.outside + 16 * o.layer), "params");
  EXPECT_EQ(o.nearer("optimizer", Space::device, o.outside - 1), "no other");
  EXPECT_EQ(o.nearer("optimizer@0-12", Space::device, o.layer), "optimizer@0-11");
  EXPECT_EQ(o.nearer("params", Space::device, o.layer), "no other");
}

TEST(Room, DiskLayersMoveToHost) {
  const Optimizer o;
  EXPECT_EQ(o.nearer("optimizer=disk", Space::host, o.outside + 3 * o.layer),
            "optimizer,optimizer@0-12=disk");
  EXPECT_EQ(o.nearer("optimizer=disk", Space::host, o.outside + 16 * o.layer), "optimizer");
  EXPECT_EQ(o.nearer("optimizer,optimizer@0-12=disk", Space::host, 2 * o.layer),
            "optimizer,optimizer@0-10=disk");
  EXPECT_EQ(o.nearer("optimizer", Space::host, o.layer), "no other");
}

TEST(Room, LayersMoveToHostWhenEmbeddingIsTooLarge) {
  const Optimizer o;
  EXPECT_EQ(o.nearer("optimizer=disk", Space::host, o.outside - 1),
            "optimizer=disk,optimizer@" + std::to_string(16 - (o.outside - 1) / o.layer) + "-15");
  EXPECT_EQ(o.nearer("optimizer=disk,optimizer@14-15", Space::host, o.layer),
            "optimizer=disk,optimizer@13-15");
  EXPECT_EQ(o.nearer("optimizer=disk", Space::host, o.layer - 1), "no other");
}

TEST(Room, LayersOfResidentEmbeddingMoveToHost) {
  const Optimizer o;
  EXPECT_EQ(o.nearer("optimizer@0-15=disk", Space::host, 3 * o.layer),
            "optimizer@13-15,optimizer@0-12=disk");
}

}  // namespace
}  // namespace snug

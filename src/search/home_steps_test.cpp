#include "search/home_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recipe/testing/with_flags.h"
#include "search/variants.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

constexpr int32_t kLayers = 12;  // of gpt2

Variant moved(const std::string& flags) {
  Options o;
  o.model = "gpt2";
  Variant variant = variant_of(resolve(testing::with_flags(o, "--gpu h200 --batch 8 " + flags)));
  variant.ahead_is_open = true;
  return variant;
}

std::vector<std::string> homes_of(const std::vector<Step>& steps) {
  std::vector<std::string> homes;
  for (const Step& step : steps) homes.push_back(text(step.front().settings.recipe.offload));
  return homes;
}

// So many bytes of gradients in each layer, and twice as many outside.
Room room_of_grads(int64_t bytes) {
  Module module;
  for (int32_t layer = kNoLayer; layer < kLayers; ++layer) {
    if (layer != kNoLayer) module.layers.push_back(fmt::format("h.{}.", layer));
    const int64_t elements = (layer == kNoLayer ? 2 : 1) * bytes / 4;
    const ValueId id = add_shared(module, fmt::format("grad.{}", layer), {Dtype::f32, {elements}},
                                  Category::grads, Scope::step);
    module[id].layer = layer;
  }
  return Room(module);
}

TEST(HomeSteps, BringsValuesEarlierAndLater) {
  const Variant variant = moved("--offload grads --offload-ahead 2");
  std::vector<int32_t> ahead;
  for (const Step& step :
       large_steps(variant, std::nullopt, variant.settings.recipe.offload, {}, {}))
    ahead.push_back(step.front().settings.recipe.offload.ahead);
  EXPECT_THAT(ahead, ElementsAre(1, 3));
  Variant pinned = variant;
  pinned.ahead_is_open = false;
  EXPECT_THAT(large_steps(pinned, std::nullopt, variant.settings.recipe.offload, {}, {}),
              IsEmpty());
}

TEST(HomeSteps, LargeOnesFillTheRoomOrLeaveIt) {
  constexpr int64_t kBytes = int64_t{1} << 20;
  const Variant all = moved("--offload optimizer,grads");
  const Offload& began = all.settings.recipe.offload;
  const auto steps =
      large_steps(all, OffloadItem::grads, began, room_of_grads(kBytes), on_device(5 * kBytes));
  EXPECT_THAT(homes_of(steps), ElementsAre("optimizer,grads@0-8", "optimizer,grads@0-11"))
      << "two outside, three layers; or the ends alone";
  ASSERT_EQ(steps[0].size(), 3U);
  EXPECT_EQ(text(steps[0][1].settings.recipe.offload), "optimizer,grads@0-9")
      << "fewer, where staging needs them";
  const Variant some = moved("--offload optimizer,grads@0-8");
  EXPECT_THAT(homes_of(large_steps(some, OffloadItem::grads, began, room_of_grads(kBytes), {})),
              IsSupersetOf({"optimizer,grads"}))
      << "back";
  EXPECT_THAT(homes_of(large_steps(all, OffloadItem::params, began, room_of_grads(kBytes), {})),
              IsEmpty())
      << "not elsewhere";
}

TEST(HomeSteps, SmallOnesMoveSomeLayers) {
  const Offload began = parse_offload("optimizer,grads");
  const auto from = [&](const std::string& homes) {
    return homes_of(small_steps(moved("--offload " + homes), OffloadItem::grads, began));
  };
  EXPECT_THAT(from("optimizer,grads@0-5"),
              ElementsAre("optimizer,grads@0-2", "optimizer,grads@0-4", "optimizer,grads@0-6",
                          "optimizer,grads@0-8"));
  EXPECT_THAT(from("optimizer,grads"),
              ElementsAre("optimizer,grads@0-8", "optimizer,grads@0-10", "optimizer,grads@0-11"));
  EXPECT_THAT(from("optimizer,grads@0"),
              ElementsAre("optimizer", "optimizer,grads@0-1", "optimizer,grads@0-3"));
}

}  // namespace
}  // namespace snug

// Plans of the built-in models: right arithmetic, tight placement, every byte owned.
#include <gtest/gtest.h>

#include "models/families/catalogue.h"
#include "models/model.h"
#include "placement/plan.h"

namespace snug {
namespace {

struct Case {
  const char* model;
  int64_t batch, seq;
};

Plan plan_of(const Case& c) {
  const Model model = Model::load(c.model);
  return make_plan(c.model, model.forward({.batch = c.batch, .seq = c.seq}), {});
}

TEST(BuiltInModels, PlansAreTightAndFullyOwned) {
  for (const Case& c : {Case{"gpt2", 8, 1024}, Case{"qwen2.5-0.5b", 32, 1024},
                        Case{"llama-7b", 8, 2048}, Case{"llama-405b", 1, 4096}}) {
    SCOPED_TRACE(c.model);
    const MemoryBreakdown memory = plan_of(c).memory;
    EXPECT_LE(memory.device().placement.ratio(), 1.02);
    for (const SpaceBreakdown& space : memory.spaces) {
      EXPECT_EQ(total(space.breakdown) + space.gaps, space.placement.arena_bytes);
      EXPECT_GE(space.gaps, 0);
    }
  }
}

// The optimizer's count of its own steps, one i64, is optimizer state too.

TEST(BuiltInModels, StateIsFourFourAndEightBytesPerParameter) {
  for (const std::string& name : catalogue_names()) {
    const Model model = Model::load(name);
    const MemoryBreakdown memory =
        make_plan(name, model.forward({.batch = 1, .seq = 128}), {}).memory;
    const int64_t P = memory.trainable_params;
    EXPECT_EQ(P, model.parameters()) << name;
    EXPECT_EQ(memory.shared[static_cast<size_t>(Category::params)], 4 * P) << name;
    EXPECT_EQ(memory.shared[static_cast<size_t>(Category::grads)], 4 * P) << name;
    EXPECT_EQ(memory.shared[static_cast<size_t>(Category::optimizer)], 8 * P) << name;
  }
}

}  // namespace
}  // namespace snug

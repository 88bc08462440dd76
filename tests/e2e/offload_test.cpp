// Offload is exact: whatever lives in host memory, every loss and every final weight has the bits of
// the run in device memory; on lanes side by side, in random orders of what they allow, and with
// dead values overwritten. What was planned is allocated and measured in every space.
#include <gtest/gtest.h>
#include <omp.h>

#include <cstring>

#include "base/rng.h"
#include "runtime/host_values.h"
#include "runtime/initialise.h"
#include "runtime/null_executor.h"
#include "support/random_recipe.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kOffloadSeeds = 48;
constexpr int kOffloadShards = 12;  // tests that share the seeds, so that they run side by side
constexpr int kOffloadSteps = 3;

// Some items, each of some layers; all models of draw_recipe have two.
Offload draw_offload(int seed) {
  const Key key = random_key(31, static_cast<uint64_t>(seed), hash_name("offload"));
  uint64_t draws = 0;
  const auto below = [&](uint32_t n) { return philox(key, draws++)[0] % n; };
  Offload offload;
  for (int item = 0; item < kOffloadItems; ++item) {
    if (below(2) == 0) continue;
    Offload::Rule rule{.item = static_cast<OffloadItem>(item)};
    if (const auto layer = static_cast<int32_t>(below(4)); layer < 2)
      rule.layers = {{layer, layer}};
    offload.rules.push_back(rule);
  }
  if (offload.none()) offload.rules.push_back({});
  offload.ahead = 1 + static_cast<int32_t>(below(3));
  offload.slice = int64_t{1} << (7 + below(11));
  return offload;
}

struct Trained {
  std::vector<float> losses;
  std::vector<std::vector<std::byte>> values;  // persistent ones, by id: weights, masters, states
};

Trained train_and_look(SmallRun& run) {
  Trained out{run.losses(kOffloadSteps), {}};
  out.losses.push_back(run.evaluate());
  out.losses.push_back(run.step());
  flush_updates(run.executor());
  HostValues host(run.executor());
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    const Value& value = run.module().values[i];
    if (value.scope != Scope::persistent || !value.owns_bytes()) continue;
    const auto bytes = host.look(ValueId{static_cast<int32_t>(i)});
    out.values.emplace_back(bytes.begin(), bytes.end());
  }
  return out;
}

void expect_planned(SmallRun& run) {
  const NullRun null = run_null(run.module());
  for (size_t s = 0; s < kSpaces; ++s) {
    const auto space = static_cast<Space>(s);
    const int64_t planned = run.executor().planned_bytes(space);
    EXPECT_EQ(run.executor().allocated_bytes(space), planned) << name_of(space);
    EXPECT_EQ(run.executor().measured_bytes(space), planned) << name_of(space);
    EXPECT_EQ(null.high_water[s], planned) << name_of(space);
  }
}

void check_offload(const DrawnRecipe& d, const Offload& offload, bool fold) {
  SmallRun in_memory(d.model, d.build, d.recipe);
  const Trained want = train_and_look(in_memory);
  Recipe recipe = d.recipe;
  recipe.offload = offload;
  const auto expect_same = [&](const char* how, const ExecutorOptions& options) {
    SmallRun run(d.model, d.build, recipe, options);
    const Trained got = train_and_look(run);
    EXPECT_EQ(got.losses, want.losses) << how;
    EXPECT_TRUE(got.values == want.values) << how << ": a persistent value is another";
    if (!options.poison_dead) expect_planned(run);
  };
  recipe.fold_update = fold;
  expect_same("on lanes", {});
  expect_same("in a random order", {.poison_dead = true, .order_seed = 7});
}

class OffloadIsExact : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(OffloadIsExact, BitForBit) {
  for (int seed = GetParam(); seed < kOffloadSeeds; seed += kOffloadShards) {
    DrawnRecipe d = draw_recipe(seed);
    if (seed % 3 == 0) d.recipe.micro_group = d.recipe.accum;
    const Offload offload = draw_offload(seed);
    const bool fold = !d.recipe.update_in_backward && seed / kOffloadShards % 2 == 0;
    SCOPED_TRACE(fmt::format("{} offload {} ahead {} slice {} fold {} group {}", d.text,
                             text(offload), offload.ahead, offload.slice, fold,
                             d.recipe.micro_group));
    ASSERT_NO_THROW(check_offload(d, offload, fold));
    if (HasFailure()) return;
  }
}

// A fetch without a bound would live from the first op on, a put without one until the last.
TEST(Offload, StagingDoesNotGrowWithLayers) {
  for (const char* what : {"optimizer,master", "params", "grads", "activations", "all"}) {
    for (const char* recompute : {"none", "full"}) {
      std::vector<int64_t> transient;
      for (const int layers : {12, 24, 48}) {
        const Model model = Model::load(fmt::format("llama-7b:256x{}", layers));
        Recipe recipe{
            .accum = 2, .recompute = parse_recompute(recompute), .precision = Dtype::bf16};
        recipe.offload = parse_offload(what);
        const Plan plan = make_plan("deep", model.forward({.batch = 2, .seq = 64}), recipe);
        transient.push_back(plan.memory.device().placement.transient_arena_bytes);
      }
      if (std::string_view(what) == "activations" || std::string_view(what) == "all") {
        EXPECT_EQ(transient[1], transient[0]) << what << " recompute " << recompute;
        EXPECT_EQ(transient[2], transient[0]) << what << " recompute " << recompute;
      } else {  // what forward keeps stays, and grows evenly
        EXPECT_EQ(transient[2] - transient[1], 2 * (transient[1] - transient[0]))
            << what << " recompute " << recompute;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OffloadIsExact, ::testing::Range(0, kOffloadShards));

}  // namespace
}  // namespace snug

// Several ranks train one model: as threads of this process, each with its own plan, arena and
// executor. However state is shared among them, the losses and the weights have the same bits, and
// they are those of one device that takes all their micro-batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <map>
#include <optional>

#include "base/rng.h"
#include "compile/compile.h"
#include "models/model.h"
#include "ops/comm/comm.h"
#include "ops/comm/pack.h"
#include "ops/comm/rank_sum.h"
#include "ops/optimizer/sum_blocks.h"
#include "settings/parse.h"
#include "support/random_offload.h"
#include "support/rank_run.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kSteps = 3;

BuildOptions small_build() {
  BuildOptions build{.batch = 2, .seq = 24};
  build.chunked_loss = true;
  return build;
}

// State cut wherever it can be.
Recipe zero(int64_t ranks, int64_t stage) {
  Recipe recipe;
  recipe.sums_apart = true;
  recipe.sharding = {.ranks = ranks, .level = stage, .threshold = 0};
  return recipe;
}

// As one device: all ranks' micro-batches, one after another.
Recipe alone(Recipe recipe) {
  recipe.accum *= recipe.sharding.ranks;
  recipe.sharding = {};
  return recipe;
}

std::string wide_model() { return tests_dir() + "/e2e/llama-wide.json"; }

class Ranks : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

}  // namespace

TEST_F(Ranks, EveryStageHasTheBitsOfOneDevice) {
  for (const int64_t ranks : {2, 3}) {
    const RankResult one = run_ranks(wide_model(), small_build(), alone(zero(ranks, 0)), kSteps);
    std::optional<float> evaluated;
    for (const int64_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks, stage {}", ranks, stage));
      const RankResult all = run_ranks(wide_model(), small_build(), zero(ranks, stage), kSteps);
      EXPECT_EQ(all.losses, one.losses);
      EXPECT_TRUE(all.weights == one.weights);
      if (!evaluated) evaluated = all.evaluated;
      EXPECT_EQ(all.evaluated, *evaluated);
    }
  }
}

// Groups of two ranks and of three, with a copy of the state each.
TEST_F(Ranks, CopiesOfSharedStateHaveTheBitsOfOneDevice) {
  for (const auto& [ranks, group] : {std::pair(4, 2), std::pair(6, 3)}) {
    for (const int64_t stage : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("{} ranks in groups of {}, stage {}", ranks, group, stage));
      Recipe recipe = zero(ranks, stage);
      recipe.accum = stage == 1 ? 1 : 2;
      const RankResult one = run_ranks(wide_model(), small_build(), alone(recipe), kSteps);
      const RankResult of_one_copy = run_ranks(wide_model(), small_build(), recipe, kSteps);
      recipe.sharding.group = group;
      const RankResult all = run_ranks(wide_model(), small_build(), recipe, kSteps);
      EXPECT_EQ(all.losses, one.losses);
      EXPECT_TRUE(all.weights == one.weights);
      EXPECT_EQ(all.evaluated, of_one_copy.evaluated);
    }
  }
}

TEST_F(Ranks, MicroBatchesMatchOneDevice) {
  for (const int64_t stage : {0, 1, 2, 3}) {
    SCOPED_TRACE(fmt::format("stage {}", stage));
    Recipe recipe = zero(2, stage);
    recipe.accum = 3;
    const RankResult one = run_ranks(wide_model(), small_build(), alone(recipe), kSteps);
    const RankResult all = run_ranks(wide_model(), small_build(), recipe, kSteps);
    EXPECT_EQ(all.losses, one.losses);
    EXPECT_TRUE(all.weights == one.weights);
  }
}

// ZeRO-Offload is a composition: state in host memory, updated there or on the way through the next
// forward.
TEST_F(Ranks, UpdatesAreFoldedOrOnHost) {
  const RankResult one = run_ranks(wide_model(), small_build(), alone(zero(2, 0)), kSteps);
  for (const int64_t stage : {1, 2, 3}) {
    for (const bool fold : {true, false}) {
      SCOPED_TRACE(fmt::format("stage {}, {}", stage, fold ? "folded" : "on the host"));
      Recipe recipe = zero(2, stage);
      recipe.offload =
          parse_setting<Offload>(stage == 3 ? "all" : "optimizer,master,grads", "offload");
      recipe.fold_update = fold;
      recipe.host_update.on = !fold;
      const RankResult all = run_ranks(wide_model(), small_build(), recipe, kSteps);
      EXPECT_EQ(all.losses, one.losses);
      EXPECT_TRUE(all.weights == one.weights);
      for (const auto& rank : all.bytes)
        for (const RankSpaceBytes& bytes : rank) EXPECT_EQ(bytes.written, bytes.measured);
    }
  }
}

// As over NCCL without --deterministic. Threads sum in the order of the ranks here too; what a rank has
// carried is added after that, so some micro-batches round at other additions.
TEST_F(Ranks, LibrarySumsMatchOrderedSums) {
  for (const auto& [stage, group] :
       {std::pair(0, 0), std::pair(1, 2), std::pair(2, 0), std::pair(3, 2)}) {
    SCOPED_TRACE(fmt::format("stage {}, groups of {}", stage, group));
    Recipe in_order = zero(4, stage);
    in_order.sums_apart = false;
    in_order.sharding.group = group;
    in_order.sharding.threshold = 5000;  // some are packed in rows
    Recipe by_library = in_order;
    by_library.backend = Backend::cuda;
    const RankResult want = run_ranks(wide_model(), small_build(), in_order, kSteps);
    const RankResult got = run_ranks(wide_model(), small_build(), by_library, kSteps);
    EXPECT_EQ(got.losses, want.losses);
    EXPECT_TRUE(got.weights == want.weights);
    const auto device = static_cast<size_t>(Space::device);
    EXPECT_LT(got.bytes[0][device].planned, want.bytes[0][device].planned);
    if (stage != 2) continue;
    in_order.accum = by_library.accum = 3;
    const RankResult want_added = run_ranks(wide_model(), small_build(), in_order, kSteps);
    const RankResult got_added = run_ranks(wide_model(), small_build(), by_library, kSteps);
    ASSERT_EQ(got_added.losses.size(), want_added.losses.size());
    for (size_t i = 0; i < got_added.losses.size(); ++i)
      EXPECT_NEAR(got_added.losses[i], want_added.losses[i], 1e-5 * want_added.losses[i]);
  }
}

// What every rank has of parameters, masters, gradients and optimizer state, without padding: a
// share of what is cut, all of what is not.
double state_bytes_a_parameter(int64_t stage, int64_t group = 8) {
  Recipe recipe = zero(8, stage);
  recipe.sharding.group = group;
  recipe.sums_apart = false;
  recipe.precision = recipe.grad_dtype = Dtype::bf16;
  const Model model = Model::load("gpt2");
  const Module module = compile("gpt2", model.forward({.batch = 1, .seq = 64}), recipe);
  double bytes = 0, parameters = 0;
  for (const Value& value : module.values) {
    const bool state = value.category == Category::params || value.category == Category::master ||
                       value.category == Category::optimizer || value.category == Category::grads;
    if (!state || !value.shared() || !value.owns_bytes()) continue;
    const bool cut = value.shard_of.rank() > 0;
    const auto whole = static_cast<double>(Type{value.type.dtype, value.whole()}.bytes());
    bytes += whole / static_cast<double>(cut ? group : 1);
    if (value.category == Category::params)
      parameters += static_cast<double>(value.whole().elements());
    const int64_t padding = value.storage_bytes() - (cut ? 0 : value.type.bytes());
    EXPECT_LE(padding, cut ? value.type.bytes() : 8 * ops::kSumBlock * 2);
  }
  return bytes / parameters;
}

TEST_F(Ranks, StateIsCutByStage) {
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(0), 16);
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(1), 5.5);
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(2), 3.75);
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(3), 2);
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(1, /*group=*/4), 7);
  EXPECT_DOUBLE_EQ(state_bytes_a_parameter(3, /*group=*/4), 4);
}

// GPT-2's layers have eight small parameters each, which stay whole: norms and biases.
TEST_F(Ranks, SmallGradientsOfALayerAreExchangedTogether) {
  Recipe recipe = zero(2, 3);
  recipe.sharding.threshold = 100'000;
  const Model model = Model::load("gpt2");
  const Module module = compile("gpt2", model.forward({.batch = 1, .seq = 64}), recipe);
  std::map<int32_t, int> packs;  // by layer
  int64_t exchanges = 0, sums = 0;
  for (const Op& op : module.programs[0].ops) {
    if (op.def == &ops::pack_def) ++packs[op.layer];
    if (op.def == &ops::all_gather_def && op.name.ends_with(".exchange")) ++exchanges;
    if (op.def == &ops::rank_sum_def && op.attrs.has("first")) ++sums;
  }
  for (int32_t layer = 0; layer < 12; ++layer) EXPECT_EQ(packs[layer], 1) << layer;
  EXPECT_EQ(sums, 12 * 8 + 2);       // and the last norm's two
  EXPECT_EQ(exchanges, 12 + 1 + 1);  // and the loss
}

// --- random jobs ---------------------------------------------------------------------------------

struct DrawnJob {
  DrawnRecipe drawn;
  ExecutorOptions options;
};

// A recipe and an offload of the other random tests, on a model whose parameters have several
// blocks, over two to four ranks.
DrawnJob draw_job(int seed) {
  const DrawnOffload offload = draw_offload(seed);
  DrawnJob job{.drawn = static_cast<const DrawnRecipe&>(offload)};
  DrawnRecipe& d = job.drawn;
  const uint64_t dice = mix(static_cast<uint64_t>(seed) + 1234);
  d.model = tests_dir() + (dice % 2 == 0 ? "/e2e/llama-wide.json" : "/e2e/gpt2-wide.json");
  d.build.seq = std::max<int64_t>(d.build.seq, 2);
  Recipe& r = d.recipe;
  r.sums_apart = true;
  r.offload = {};
  if (dice / 2 % 2 == 0) {
    r.offload = offload.offload;
    r.fold_update = offload.fold;
    r.host_update = offload.host_update;
  }
  r.sharding = {.ranks = 2 + static_cast<int64_t>(dice / 4 % 3),
                .level = 1 + static_cast<int64_t>(dice / 12 % 3),
                .threshold = dice / 36 % 3 == 0 ? 20000 : 0};
  if (dice / 256 % 2 == 0) {  // in groups, with a copy of the state each
    r.sharding.ranks = dice / 512 % 3 == 0 ? 6 : 4;
    r.sharding.group = r.sharding.ranks == 6 && dice / 2048 % 2 == 0 ? 3 : 2;
  }
  if (r.sharding.level < 3)  // parameters leave the device in shards
    std::erase_if(r.offload.rules, [](const auto& x) { return x.item == OffloadItem::params; });
  d.text += fmt::format(
      "; {} ranks, {} share, stage {}, whole below {}, offload {}, fold {}, host-update {}",
      r.sharding.ranks, r.sharding.sharers(), r.sharding.level, r.sharding.threshold,
      text(r.offload), r.fold_update, text(r.host_update));
  if (dice / 128 % 2 == 0) job.options = {.test = {.poison_dead = true, .order_seed = dice}};
  return job;
}

TEST_F(Ranks, RandomJobsHaveTheBitsOfWholeState) {
  for (int seed = 0; seed < seeds_to_try(10); ++seed) {
    DrawnJob job = draw_job(seed);
    SCOPED_TRACE(job.drawn.text);
    const std::string directory = ::testing::TempDir();
    job.options.offload_dir = directory;
    Recipe stage0 = job.drawn.recipe;
    stage0.sharding.level = 0;
    stage0.offload = {};
    stage0.fold_update = false;
    stage0.host_update = {};
    const auto run = [&](const Recipe& recipe, const ExecutorOptions& options) -> RankResult {
      try {
        return run_ranks(job.drawn.model, job.drawn.build, recipe, kSteps, options);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
        return {};
      }
    };
    const RankResult whole = run(stage0, {});
    const RankResult shared = run(job.drawn.recipe, job.options);
    EXPECT_EQ(shared.losses, whole.losses);
    EXPECT_TRUE(shared.weights == whole.weights);
    EXPECT_EQ(shared.evaluated, whole.evaluated);
    if (stage0.grad_dtype != Dtype::f32) continue;
    const RankResult one = run(alone(stage0), {});
    EXPECT_EQ(shared.losses, one.losses);
    EXPECT_TRUE(shared.weights == one.weights);
  }
}

}  // namespace snug

// Offload is exact: whatever lives in host memory or on disk, every loss and every final weight has
// the bits of the run in device memory; on lanes side by side, in random orders of what they allow,
// and with dead values overwritten. What was planned is allocated and measured in every space.
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <set>

#include "compile/compile.h"
#include "settings/parse.h"
#include "support/random_offload.h"

namespace snug {
namespace {

constexpr int kOffloadSeeds = 48;
constexpr int kOffloadShards = 12;  // tests that share the seeds, so that they run side by side

class OffloadIsExact : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(OffloadIsExact, BitForBit) {
  for (int seed = GetParam(); seed < seeds_to_try(kOffloadSeeds); seed += kOffloadShards) {
    const DrawnOffload d = draw_offload(seed);
    SCOPED_TRACE(d.text);
    ASSERT_NO_THROW(expect_offload_is_exact(
        d,
        {{"on lanes"}, {"in a random order", {.test = {.poison_dead = true, .order_seed = 7}}}}));
    if (HasFailure()) return;
  }
}

// Every method is among those that the seeds update on the host, on masters and without.
TEST(Offload, RandomRecipesUpdateOnTheHost) {
  std::set<OptimizerKind> methods;
  std::set<bool> with_master;
  for (int seed = 0; seed < kOffloadSeeds; ++seed) {
    const DrawnOffload d = draw_offload(seed);
    Recipe recipe = d.recipe;
    recipe.offload = d.offload;
    recipe.fold_update = d.fold;
    recipe.host_update = d.host_update;
    const Module module = compile("drawn", Model::load(d.model).forward(d.build), recipe);
    const bool on_host = std::ranges::any_of(module.programs, [](const Program& program) {
      return std::ranges::any_of(program.ops,
                                 [](const Op& op) { return op.lane == "host_compute"; });
    });
    if (!on_host) continue;
    methods.insert(recipe.optimizer);
    with_master.insert(recipe.master && recipe.precision != Dtype::f32);
  }
  EXPECT_EQ(methods.size(), 5U);
  EXPECT_EQ(with_master.size(), 2U);
}

// What belongs to no layer, with a head that is the embedding and one that is not: its weight is
// updated at the end of a step, its master and state in the next one, in all their slices; that is
// another program, or the same one where a step is a single run.
TEST(Offload, UnlayeredWeightsArePrefetchedFirst) {
  for (const int seed : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
    const bool tied = seed % 2 == 0;
    DrawnOffload d{{.model = tests_dir() + (tied ? "/parity/gpt2" : "/parity/llama"),
                    .build = {.batch = 1, .seq = 8}},
                   parse_setting<Offload>("optimizer,master", "offload")};
    d.recipe.precision = seed % 5 == 3 ? Dtype::f16 : Dtype::bf16;
    d.recipe.optimizer = static_cast<OptimizerKind>(seed % 5);
    const bool single = seed >= 5;
    d.recipe.accum = single && tied ? 1 : 4;
    d.recipe.micro_group = single ? d.recipe.accum : tied ? 2 : 1;
    d.recipe.clip = seed % 5 == 2 ? 0 : 1;
    if (seed % 5 == 3) d.recipe.loss_scale = {.start = 0x1p30, .dynamic = true, .backoff = 0x1p-20};
    d.offload.ahead = single ? 4 : 2 + seed % 2;
    d.offload.slice = 256;
    d.fold = true;
    d.text = fmt::format("seed {}", seed);
    SCOPED_TRACE(d.text);
    Recipe recipe = d.recipe;
    recipe.offload = d.offload;
    recipe.fold_update = true;
    const Module module = compile("drawn", Model::load(d.model).forward(d.build), recipe);
    EXPECT_LT(module.program_index(ProgramRole::update), 0);
    const auto moves_of_no_layer = [&](ProgramRole role, std::string_view lane) {
      return std::ranges::count_if(module.program(role).ops, [&](const Op& op) {
        return op.lane == lane && op.layer == kNoLayer;
      });
    };
    const auto fetched = moves_of_no_layer(ProgramRole::training_first, "copy_in");
    const auto written = moves_of_no_layer(ProgramRole::training_first, "copy_out");
    if (single) {
      EXPECT_EQ(fetched, 2 * written);
    } else {
      EXPECT_GT(moves_of_no_layer(ProgramRole::training_last, "copy_in"), 2);
      EXPECT_EQ(moves_of_no_layer(ProgramRole::training_last, "copy_out"), 0);
      EXPECT_EQ(fetched, written);
    }
    ASSERT_NO_THROW(expect_offload_is_exact(
        d,
        {{"on lanes"}, {"in a random order", {.test = {.poison_dead = true, .order_seed = 7}}}}));
  }
}

// The weight that an update on the host sends to the device is the old one then.
TEST(Offload, HostUpdatesSkipOverflowingSteps) {
  for (const bool master : {true, false}) {
    DrawnOffload d{{.model = tests_dir() + "/parity/gpt2", .build = {.batch = 2, .seq = 8}},
                   parse_setting<Offload>("optimizer,master", "offload")};
    d.recipe.precision = Dtype::f16;
    d.recipe.master = master;
    d.recipe.loss_scale = {.start = 0x1p30, .dynamic = true, .backoff = 0x1p-20};
    d.host_update = parse_setting<HostUpdate>("all", "host-update");
    expect_offload_is_exact(d, {{"on lanes"}});
    Recipe recipe = d.recipe;
    recipe.offload = d.offload;
    recipe.host_update = d.host_update;
    SmallRun run(d.model, d.build, recipe);
    run.losses(3);
    EXPECT_EQ(run.executor().read_scalar<int64_t>(run.executor().shared("updates")), 2)
        << "the first step overflows, and no other";
  }
}

MemoryBreakdown memory_of_deep(int layers, const char* offload, const char* recompute) {
  const Model model = Model::load(fmt::format("llama-7b:256x{}", layers));
  Recipe recipe{.accum = 2,
                .recompute = parse_setting<RecomputePolicy>(recompute, "recompute"),
                .precision = Dtype::bf16};
  recipe.offload = parse_setting<Offload>(offload, "offload");
  return make_plan("deep", model.forward({.batch = 2, .seq = 64}), recipe).memory;
}

// A fetch without a bound would live from the first op on, a write without one until the last.
TEST(Offload, StagingDoesNotGrowWithLayers) {
  for (const char* what : {"optimizer,master", "params", "grads", "activations", "all"}) {
    for (const char* recompute : {"none", "full"}) {
      std::vector<int64_t> transient;
      for (const int layers : {12, 24, 48}) {
        const MemoryBreakdown memory = memory_of_deep(layers, what, recompute);
        transient.push_back(memory.device().placement.transient_arena_bytes);
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

// From disk all comes through host memory, and the first hop has bounds of its own.
TEST(Offload, StagingForDiskDoesNotGrowWithLayers) {
  for (const char* what : {"optimizer=disk,master=disk", "params=disk", "grads=disk",
                           "activations=disk", "all=disk"}) {
    for (const char* recompute : {"none", "full"}) {
      std::vector<int64_t> host, device;
      for (const int layers : {12, 24, 48}) {
        const MemoryBreakdown memory = memory_of_deep(layers, what, recompute);
        host.push_back(memory[Space::host].placement.arena_bytes);
        device.push_back(memory.device().placement.transient_arena_bytes);
      }
      EXPECT_GT(host[0], 0) << what;
      EXPECT_EQ(host[1], host[0]) << what << " recompute " << recompute;
      EXPECT_EQ(host[2], host[0]) << what << " recompute " << recompute;
      EXPECT_EQ(device[2] - device[1], 2 * (device[1] - device[0])) << what;
    }
  }
}

// Nor with updates on the host, whose staging is there.
TEST(Offload, StagingOfHostUpdatesDoesNotGrowWithLayers) {
  struct How {
    const char* offload;
    bool in_backward = false, fold = false;
  };
  for (const How& how : {How{"optimizer,master"},
                         {"optimizer,master,grads"},
                         {"optimizer,master", /*in_backward=*/true},
                         {"optimizer,master", false, /*fold=*/true}}) {
    for (const char* layers_updated : {"all", "0-5"}) {
      std::vector<int64_t> on_device, on_host;
      for (const int layers : {12, 24, 48}) {
        const Model model = Model::load(fmt::format("llama-7b:256x{}", layers));
        Recipe recipe{.recompute = parse_setting<RecomputePolicy>("full", "recompute"),
                      .precision = Dtype::bf16,
                      .update_in_backward = how.in_backward,
                      .fold_update = how.fold,
                      .clip = how.in_backward ? 0.0 : 1.0};
        recipe.offload = parse_setting<Offload>(how.offload, "offload");
        recipe.offload.slice = int64_t{1} << 17;  // less than a layer
        recipe.host_update = parse_setting<HostUpdate>(layers_updated, "host-update");
        const Plan plan = make_plan("deep", model.forward({.batch = 2, .seq = 64}), recipe);
        on_device.push_back(plan.memory.device().placement.transient_arena_bytes);
        on_host.push_back(plan.memory[Space::host].placement.transient_arena_bytes);
      }
      const std::string what = fmt::format("{} in backward {} fold {} of {}", how.offload,
                                           how.in_backward, how.fold, layers_updated);
      EXPECT_EQ(on_device[2] - on_device[1], 2 * (on_device[1] - on_device[0])) << what;
      EXPECT_EQ(on_host[1], on_host[0]) << what;
      EXPECT_EQ(on_host[2], on_host[0]) << what;
      EXPECT_GT(on_host[0], 0) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OffloadIsExact, ::testing::Range(0, kOffloadShards));

}  // namespace
}  // namespace snug

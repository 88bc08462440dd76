// Stages of a pipeline, each a thread with a plan and an arena of its own, against one device with the
// same micro-batches: losses, weights and optimizer state have the same bits. Where the first and the
// last stage share a table, its gradient is added up in another order, and they are close.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <cstdlib>
#include <map>
#include <set>

#include "base/rng.h"
#include "cost/pipeline_cost.h"
#include "ir/op_def.h"
#include "placement/placement.h"
#include "support/random_job.h"
#include "support/rank_run.h"
#include "techniques/pipeline/pipeline_schedule.h"

namespace snug {
namespace {

constexpr int kSteps = 3;

// A model of tests/parity with so many layers.
std::string family_of(const std::string& family, int64_t layers) {
  if (family == "mlp") return fmt::format("mlp:24x{}", layers);
  return with_layers(tests_dir() + "/parity/" + family + "/config.json", layers);
}

class Pipeline : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }

  static DrawnRecipe job(const std::string& family, int64_t layers, int64_t pp, int64_t accum) {
    DrawnRecipe job{.model = family_of(family, layers), .build = {.batch = 2, .seq = 12}};
    job.recipe.mesh.pp = pp;
    job.recipe.accum = accum;
    job.text =
        fmt::format("{} of {} layers, {} stages, {} micro-batches", family, layers, pp, accum);
    return job;
  }

  static DrawnRecipe without_bubble(DrawnRecipe job) {
    job.recipe.pp_schedule = PipelineSchedule::zero_bubble;
    job.text += ", zero-bubble";
    return job;
  }

  // In chunks of one layer or more, where there are as many.
  static DrawnRecipe interleaved(DrawnRecipe job, int64_t chunks) {
    job.recipe.mesh.chunks = chunks;
    job.text += fmt::format(", interleaved:{}", chunks);
    return job;
  }

  static RankResult without_stages(const DrawnRecipe& job) {
    Recipe recipe = job.recipe;
    recipe.mesh = {};
    recipe.pp_schedule = {};
    return run(job, recipe);
  }
  static RankResult run(const DrawnRecipe& job, const Recipe& recipe) {
    const std::string disk = ::testing::TempDir();
    return run_ranks(job.model, job.build, recipe, kSteps, {.offload_dir = disk});
  }

  // What a plan says is what a run takes, on every rank.
  static void expect_planned_bytes(const RankResult& result) {
    for (const auto& spaces : result.bytes) {
      for (const RankSpaceBytes& b : spaces) {
        EXPECT_EQ(b.allocated, b.planned);
        EXPECT_EQ(b.measured, b.written);
      }
    }
  }

  // What each rank's arena takes, in bytes.
  static std::string arenas(const RankResult& result) {
    std::string out;
    for (const auto& spaces : result.bytes)
      out += fmt::format("{}{}", out.empty() ? "" : " ", spaces[0].planned);
    return out;
  }

  static std::string expect_same(const DrawnRecipe& job) {
    SCOPED_TRACE(job.text);
    const RankResult one = without_stages(job);
    const RankResult stages = run(job, job.recipe);
    EXPECT_EQ(stages.losses, one.losses);
    EXPECT_EQ(stages.evaluated, one.evaluated);
    EXPECT_EQ(stages.weights.size(), one.weights.size());
    for (const auto& [name, bytes] : one.weights)
      EXPECT_TRUE(stages.weights.at(name) == bytes) << name;
    expect_planned_bytes(stages);
    return arenas(stages);
  }

  static std::string expect_close(const DrawnRecipe& job, float relative) {
    SCOPED_TRACE(job.text);
    const RankResult one = without_stages(job);
    const RankResult stages = run(job, job.recipe);
    EXPECT_EQ(stages.losses.size(), one.losses.size());
    EXPECT_EQ(stages.losses[0], one.losses[0]) << "before the first update all bits are the same";
    for (size_t i = 0; i < one.losses.size(); ++i)
      EXPECT_NEAR(stages.losses[i], one.losses[i], relative * one.losses[i]) << i;
    EXPECT_NEAR(stages.evaluated, one.evaluated, relative * one.evaluated);
    EXPECT_EQ(stages.weights.size(), one.weights.size());
    expect_planned_bytes(stages);
    return arenas(stages);
  }
};

TEST_F(Pipeline, AnyMicroBatchCountHasBitsOfOneDevice) {
  for (const int64_t pp : {2, 3, 4})
    for (const int64_t accum : {1, 2, 3, 4, 5, 7, 8, 11}) expect_same(job("llama", 5, pp, accum));
}

TEST_F(Pipeline, GradientsOfWeightsMayWait) {
  for (const int64_t pp : {2, 3, 4})
    for (const int64_t accum : {1, 2, 3, 4, 5, 7, 8, 11, 14})
      expect_same(without_bubble(job("llama", 5, pp, accum)));
  for (const char* family : {"mistral_window", "gpt_neox", "phi3", "mlp"})
    expect_same(without_bubble(job(family, 4, 3, 7)));
  for (const char* family : {"gpt2", "bert"})
    expect_close(without_bubble(job(family, 4, 3, 7)), 1e-5F);
}

TEST_F(Pipeline, StagesMayHaveSeveralChunksOfLayers) {
  for (const auto& [pp, chunks] : {std::pair{2, 2}, {2, 4}, {3, 2}, {4, 2}})
    for (const int64_t rounds : {1, 2, 3, 5, 6})
      expect_same(interleaved(job("llama", 9, pp, pp * rounds), chunks));
  for (const char* family : {"mistral_window", "gpt_neox", "phi3", "mlp"})
    expect_same(interleaved(job(family, 6, 3, 9), 2));
  for (const char* family : {"gpt2", "bert"})
    expect_close(interleaved(job(family, 6, 3, 9), 2), 1e-5F);
}

TEST_F(Pipeline, SharedTablesAreClose) {
  for (const int64_t pp : {2, 3})
    for (const int64_t accum : {1, 4, 7}) expect_close(job("gpt2", 4, pp, accum), 1e-5F);
}

TEST_F(Pipeline, FamiliesHaveTheBitsOfOneDevice) {
  for (const char* family :
       {"llama", "mistral", "mistral_window", "gpt_neox", "olmo2", "phi3", "stablelm", "mlp"})
    expect_same(job(family, 4, 2, 5));
  for (const char* family :
       {"gpt2", "llama3", "opt", "qwen2", "qwen3", "bert", "stablelm_parallel"})
    expect_close(job(family, 4, 2, 5), 1e-5F);
}

// --- counted from the programs ------------------------------------------------------------------

// Every stage's module, placed.
std::vector<Module> placed_stages(const DrawnRecipe& job) {
  std::vector<Module> stages = compile_ranks(job);
  for (Module& stage : stages) place(stage);
  return stages;
}

TEST_F(Pipeline, BytesDoNotGrowWithMicroBatches) {
  for (const int64_t pp : {2, 4}) {
    for (const int schedule : {0, 1, 2}) {
      const auto scheduled = [&](int64_t accum) {
        const DrawnRecipe plain = job("llama", 8, pp, accum);
        return schedule == 0   ? plain
               : schedule == 1 ? without_bubble(plain)
                               : interleaved(plain, 2);
      };
      for (const int64_t accum : {24, 28}) {
        const std::vector<Module> few = placed_stages(scheduled(accum));
        const std::vector<Module> many = placed_stages(scheduled(accum + 48));
        for (size_t stage = 0; stage < few.size(); ++stage)
          EXPECT_EQ(few[stage].arena_bytes[0], many[stage].arena_bytes[0])
              << scheduled(accum).text << ", stage " << stage;
      }
    }
  }
}

// What lives from one program of a step to another.
int64_t kept_bytes(const Module& stage) {
  int64_t bytes = 0;
  for (const Value& value : stage.values)
    if (value.shared() && value.category == Category::activations) bytes += value.type.bytes();
  return bytes;
}

// Where weight gradients are delayed, a stage has as many micro-batches under way as the first,
// which does as before; what they do not read is kept for fewer.
TEST_F(Pipeline, DelayedGradientsKeepMoreMicroBatches) {
  const DrawnRecipe plain = job("llama", 4, 4, 16);
  const std::vector<Module> before = placed_stages(plain);
  const std::vector<Module> stages = placed_stages(without_bubble(plain));
  EXPECT_EQ(kept_bytes(stages[0]), kept_bytes(before[0]));
  for (size_t stage = 1; stage < stages.size(); ++stage) {
    std::map<std::string, int64_t> places;  // by what is kept
    for (const Value& value : stages[stage].values)
      if (const size_t at = value.name.find(".kept@"); at != std::string::npos)
        ++places[value.name.substr(0, at)];
    std::set<int64_t> counts;
    for (const auto& [name, count] : places) counts.insert(count);
    // From forward to weights 4, to backward 3, 2 and 1, from there to weights 2, 3 and 4; of four.
    const std::set<int64_t> expected[] = {{}, {2, 4}, {2, 4}, {1, 4}};
    EXPECT_EQ(counts, expected[stage]) << stage;
    EXPECT_GT(kept_bytes(stages[stage]), kept_bytes(before[stage])) << stage;
  }
}

// Stage s of p keeps what p - s micro-batches need for backward, or all where there are fewer.
TEST_F(Pipeline, StageKeepsOneMicroBatchPerLaterStage) {
  const std::vector<Module> stages = placed_stages(job("llama", 4, 4, 8));
  // Its layers are alike. The last one has one under way, whose values are local.
  const int64_t each = kept_bytes(stages[1]) / 3;
  EXPECT_GT(each, 0);
  EXPECT_EQ(kept_bytes(stages[1]), 3 * each);
  EXPECT_EQ(kept_bytes(stages[2]), 2 * each);
  EXPECT_EQ(kept_bytes(stages[3]), 0);
  // The first one has no received input to keep, and tokens instead.
  EXPECT_EQ(kept_bytes(stages[0]) % 4, 0);
}

// Seconds of ops where a forward of a chunk takes 1, its backward 2, and nothing else takes any.
std::vector<double> one_and_two(const Module&, const Program& program) {
  std::map<std::tuple<int32_t, int32_t, Phase>, double> ops;  // of one forward or backward
  const auto unit_of = [](const Op& op) { return std::tuple(op.micro_batch, op.chunk, op.phase); };
  const auto counts = [&](const Op& op) {
    return is_training(program.role) && op.def->comm == Comm::none;
  };
  for (const Op& op : program.ops)
    if (counts(op)) ++ops[unit_of(op)];
  std::vector<double> out;
  for (const Op& op : program.ops)
    out.push_back(!counts(op) ? 0 : (op.phase == Phase::forward ? 1 : 2) / ops.at(unit_of(op)));
  return out;
}

PipelineCost cost_of(const DrawnRecipe& job, const ProgramSeconds& seconds) {
  const std::vector<Module> stages = compile_ranks(job);
  std::vector<const Module*> modules;
  for (const Module& stage : stages) modules.push_back(&stage);
  return pipeline_cost(modules, seconds);
}

// The bubble that is published for interleaved stages: (p - 1) / v of a micro-batch, where the chunks
// are alike.
TEST_F(Pipeline, ChunksDivideBubble) {
  for (const auto& [pp, chunks] : {std::pair{2, 2}, {2, 4}, {3, 2}, {3, 3}, {4, 2}, {4, 3}}) {
    for (const int64_t rounds : {1, 2, 4, 7}) {
      const DrawnRecipe chunked = interleaved(job("llama", pp * chunks, pp, pp * rounds), chunks);
      const PipelineCost cost = cost_of(chunked, one_and_two);
      const double formula = 3.0 * static_cast<double>(pp * rounds * chunks + pp - 1);
      EXPECT_NEAR(cost.step_seconds / formula, 1, 0.03) << chunked.text;
      EXPECT_NEAR(1 - ideal_bubble(chunked.recipe),
                  3.0 * static_cast<double>(pp * rounds * chunks) / formula, 1e-9);
    }
  }
}

// Published: the first stage keeps p v + p - 1 chunks of a micro-batch. Here each chunk has a fixed
// number of places, a divisor of what a repeated program takes: a few more.
TEST_F(Pipeline, InterleavedStagesKeepBuffersPerChunk) {
  const std::vector<Module> stages = placed_stages(interleaved(job("llama", 8, 4, 24), 2));
  std::map<int32_t, std::set<int64_t>> counts;  // by layer
  std::map<std::pair<int32_t, std::string>, int64_t> places;
  for (const Value& value : stages[0].values)
    if (const size_t at = value.name.find(".kept@"); at != std::string::npos && value.layer >= 0)
      ++places[{value.layer, value.name.substr(0, at)}];
  for (const auto& [kept, count] : places) counts[kept.first].insert(count);
  // Of these 12 at most 11 are in use at once.
  EXPECT_EQ(counts.at(0), std::set<int64_t>{8});
  EXPECT_EQ(counts.at(4), std::set<int64_t>{4});
}

// The last program of interleaved stages has backwards alone, and prefetches one layer ahead.
TEST_F(Pipeline, LastProgramPrefetches) {
  DrawnRecipe shared = interleaved(job("llama", 8, 2, 8), 2);
  shared.recipe.sharding = {.ranks = 2, .level = 3, .threshold = 0};
  const Module stage = compile_ranks(shared)[0];
  const Program& last = stage.program(ProgramRole::training_last);
  EXPECT_EQ(last.micro_batches, 0);
  // By layer: where it is first gathered, and where it is then used.
  std::map<int32_t, size_t> gathered, used;
  for (size_t at = 0; at < last.ops.size(); ++at) {
    const Op& op = last.ops[at];
    if (op.layer == kNoLayer) continue;
    if (op.def->collective == CollectiveKind::gather) gathered.emplace(op.layer, at);
    if (op.def->comm == Comm::none && gathered.contains(op.layer)) used.emplace(op.layer, at);
  }
  std::vector<std::pair<size_t, size_t>> in_order;  // when used, when gathered
  for (const auto& [layer, at] : used) in_order.emplace_back(at, gathered.at(layer));
  std::ranges::sort(in_order);
  ASSERT_GT(in_order.size(), 2U);
  for (size_t i = 1; i < in_order.size(); ++i)
    EXPECT_LT(in_order[i].second, in_order[i - 1].first) << i;
}

// With a forward of 1 and a backward of 2 on every stage: the bubble of the papers,
// (p - 1) / (m + p - 1), in a step of m + p - 1 such pairs.
TEST_F(Pipeline, BubbleMatchesFormula) {
  const auto& seconds = one_and_two;
  for (const int64_t pp : {2, 3, 4}) {
    for (const int64_t accum : {2, 4, 9, 16}) {
      const std::vector<Module> stages = compile_ranks(job("llama", 5, pp, accum));
      std::vector<const Module*> modules;
      for (const Module& stage : stages) modules.push_back(&stage);
      const PipelineCost cost = pipeline_cost(modules, seconds);
      const double formula = 3.0 * static_cast<double>(accum + pp - 1);
      // A message goes before its forward or backward has ended: a little better.
      EXPECT_LE(cost.step_seconds, formula + 1e-9) << pp << " stages, " << accum;
      EXPECT_GE(cost.step_seconds, 0.97 * formula) << pp << " stages, " << accum;
      EXPECT_NEAR(cost.bubble(), 1 - 3.0 * static_cast<double>(accum) / formula, 0.02);
      // On one core ops wait for the core alone.
      const double all = 3.0 * static_cast<double>(accum * pp);
      EXPECT_NEAR(pipeline_cost(modules, seconds, {.cores = 1}).step_seconds, all, 1e-9 * all);
      const auto pairs = static_cast<double>(pp);
      EXPECT_EQ(pipeline_cost(modules, seconds, {.cores = pairs}).step_seconds, cost.step_seconds);
    }
  }
}

// With gradients of weights that take a third: the bubble that is published for that order in as much
// memory, (p - 1) x (forward + backward - weights), which is a third of that of 1F1B.
TEST_F(Pipeline, DelayedWeightGradientsCutBubbleToAThird) {
  const auto seconds = [](const Module&, const Program& program) {
    std::map<int32_t, size_t> sent;  // by micro-batch: its last message to the stage before
    for (size_t at = 0; at < program.ops.size(); ++at)
      if (program.ops[at].phase == Phase::backward && program.ops[at].def->comm == Comm::send)
        sent[program.ops[at].micro_batch] = at;
    const bool waits = !sent.empty();
    const auto part_of = [&](size_t at) {
      const Op& op = program.ops[at];
      if (op.phase == Phase::forward) return 0;
      const auto last = sent.find(op.micro_batch);
      return waits && last != sent.end() && at < last->second ? 1 : 2;
    };
    const auto counts = [&](const Op& op) {
      return is_training(program.role) && op.def->comm == Comm::none;
    };
    std::map<std::pair<int32_t, int>, double> ops;  // of one part
    for (size_t at = 0; at < program.ops.size(); ++at)
      if (counts(program.ops[at])) ++ops[{program.ops[at].micro_batch, part_of(at)}];
    std::vector<double> out;
    for (size_t at = 0; at < program.ops.size(); ++at) {
      const int part = part_of(at);
      const double whole = part == 2 && !waits ? 2 : 1;  // the first stage's backward is one part
      out.push_back(counts(program.ops[at]) ? whole / ops.at({program.ops[at].micro_batch, part})
                                            : 0);
    }
    return out;
  };
  for (const int64_t pp : {2, 3, 4}) {
    for (const int64_t accum : {1, 2, 4, 9, 16}) {
      const std::vector<Module> stages = compile_ranks(without_bubble(job("llama", 5, pp, accum)));
      std::vector<const Module*> modules;
      for (const Module& stage : stages) modules.push_back(&stage);
      const PipelineCost cost = pipeline_cost(modules, seconds);
      Recipe recipe;
      recipe.mesh.pp = pp;
      recipe.accum = accum;
      recipe.pp_schedule = PipelineSchedule::zero_bubble;
      const double formula = static_cast<double>(3 * accum) / (1 - ideal_bubble(recipe));
      const int64_t published = 3 * accum + pp - 1;  // where there are as many micro-batches
      EXPECT_NEAR(formula, static_cast<double>(published + std::max<int64_t>(0, pp - accum)), 1e-9);
      EXPECT_NEAR(cost.step_seconds / formula, 1, 0.03) << pp << " stages, " << accum;
    }
  }
}

// A recipe of the other random tests, over stages and data-parallel ranks.
DrawnRecipe draw_pipeline(int seed) {
  const DrawnRankJob drawn = draw_rank_job(seed);
  DrawnRecipe job = static_cast<const DrawnRecipe&>(drawn);
  const Key key = random_key(59, static_cast<uint64_t>(seed), hash_name("pipeline"));
  uint64_t draws = 0;
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(philox(key, draws++)[0] % static_cast<uint64_t>(n));
  };
  constexpr const char* kFamilies[] = {"llama", "mistral_window", "olmo2", "phi3",
                                       "mlp",   "gpt2",           "qwen2", "bert"};
  const std::string family = kFamilies[below(std::size(kFamilies))];
  int64_t layers = 4 + below(3);
  if (family == "mlp" || family == "bert") job.build.packed = false;
  if (family == "mlp") {
    job.build.seq = 1;
    job.recipe.adapters = {};
  }
  Recipe& r = job.recipe;
  r.mesh.pp = 2 + below(3);
  r.accum = 1 + below(9);
  r.micro_group = 1;
  if (std::exchange(r.update_in_backward, false)) r.clip = below(2) == 0 ? 0 : 1;
  r.sharding.ranks = 1 + below(3);
  r.sharding.group = 0;
  if (!r.sharding.on()) r.sharding.level = 0;
  std::erase_if(r.offload.rules, [](const auto& x) {
    return x.item == OffloadItem::activations || x.item == OffloadItem::params;
  });
  const std::string schedule = draw_schedule(r, below(3), layers);
  job.model = family_of(family, layers);
  job.text =
      fmt::format("seed {}: {} of {} layers, pp {}{}, {} micro-batches, dp {}; {}", seed, family,
                  layers, r.mesh.pp, schedule, r.accum, r.sharding.ranks, drawn.text);
  return job;
}

TEST_F(Pipeline, RandomJobsHaveTheBitsOfOneDevice) {
  const auto failures_so_far = [] {
    return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  };
  for (int seed = 0; seed < seeds_to_try(8); ++seed) {
    const int before = failures_so_far();
    const DrawnRecipe job = draw_pipeline(seed);
    const bool tied = job.model.find("gpt2") != std::string::npos ||
                      job.model.find("qwen2") != std::string::npos ||
                      job.model.find("bert") != std::string::npos;
    // A repeat that begins with what int8 has rounded is no original, which a later stage reads.
    const RecomputePolicy::Kind kind = job.recipe.recompute.kind;
    const bool rounded =
        job.recipe.compress != CompressKind::none &&
        (kind == RecomputePolicy::Kind::every || kind == RecomputePolicy::Kind::sqrt);
    // A frozen table has no gradient to add to.
    const bool close = (tied && !job.recipe.adapters.on()) || rounded;
    const std::string bytes =
        close ? expect_close(job, job.recipe.precision == Dtype::f32 ? 1e-3F : 0.03F)
              : expect_same(job);
    const bool failed = failures_so_far() > before;
    if (failed || std::getenv("SNUG_SEEDS") != nullptr)
      fmt::print("{}, {}; bytes by rank {}\n",
                 failed  ? "FAILED"
                 : close ? "close"
                         : "same bits",
                 job.text, bytes);
  }
}

}  // namespace
}  // namespace snug

// What the passes of jobs of several ranks make of a two-layer model: one text per pass, of the rank that
// shows it best. Where ranks exchange anything, all of them verify together.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "passes/passes.h"
#include "passes/testing/two_layers.h"
#include "techniques/accumulate/accumulate.h"
#include "techniques/offload/offload.h"
#include "techniques/pipeline/pipeline.h"
#include "techniques/tensor/tensor_parallel.h"
#include "techniques/zero/zero.h"

namespace snug {
namespace {

void expect_golden_of_two(const Module& first, const Module& second, std::string_view name,
                          std::string_view what) {
  const Module* ranks[] = {&first, &second};
  EXPECT_NO_THROW(verify_ranks(ranks)) << name;
  expect_golden(second, name, what);
}

// --- data-parallel ranks -------------------------------------------------------------------------

Recipe sharded(int64_t level, int64_t rank) {
  return {.accum = 2, .sharding = {.ranks = 2, .rank = rank, .level = level, .threshold = 256}};
}

Module summed(const Recipe& recipe) {
  Module module = with_backward(two_linears_of<128>, recipe);  // of two shards each
  accumulate(module, recipe);
  sum_over_ranks(module, recipe);
  assign_lanes(module);
  return module;
}

TEST(GoldenPass, SumOverRanks) {
  expect_golden_of_two(
      summed(sharded(2, 0)), summed(sharded(2, 1)), "zero/sum_over_ranks",
      "sum_over_ranks, ZeRO-2, the second of two ranks: a matrix's gradient is this rank's\n"
      "half; all exchange blocks after each micro-batch and sum their own. Bias and norm are\n"
      "whole and wait for the last micro-batch.");
}

TEST(GoldenPass, SumOverRanksApart) {
  expect_golden(summed({.accum = 2, .sums_apart = true}), "zero/sum_over_ranks_apart",
                "sum_over_ranks on one device, sums apart: a micro-batch's gradient is complete\n"
                "before it is added, in the order in which two ranks would add theirs.");
}

Module sharded_parameters(int64_t rank) {
  const Recipe recipe = sharded(3, rank);
  Module module = summed(recipe);
  shard_parameters(module, recipe);
  offload_values(module, recipe);
  assign_lanes(module);
  return module;
}

TEST(GoldenPass, ShardParameters) {
  expect_golden_of_two(
      sharded_parameters(0), sharded_parameters(1), "zero/shard_parameters",
      "shard_parameters, ZeRO-3, the second of two ranks, after offload: a matrix is this\n"
      "rank's half; ops read wholes, which are gathered before a layer and given up after.");
}

// --- tensor-parallel ranks -----------------------------------------------------------------------

Module cut_matrices(int64_t part) {
  Module module{.name = "two layers"};
  const Forward training = add_forward(module, two_attentions, ProgramRole::training_first);
  tensor_parallel(module, "micro_first", training, {.tp = 2, .part = part});
  sweep_values(module);
  return module;
}

TEST(GoldenPass, TensorParallel) {
  Module module = cut_matrices(1);
  assign_lanes(module);
  expect_golden(
      module, "tensor/tensor_parallel",
      "tensor_parallel over 2 ranks, the second of them: words, heads and features are half\n"
      "of the model's, and between matmuls a rank has 16 of the 32 tokens.");
}

Module lowered(int64_t part) {
  Module module = cut_matrices(part);
  lower_tensor_sums(module, {.tp = 2, .part = part});
  assign_lanes(module);
  return module;
}

TEST(GoldenPass, LowerTensorSums) {
  expect_golden_of_two(
      lowered(0), lowered(1), "tensor/lower_tensor_sums",
      "lower_tensor_sums: what tensor_parallel.snug sums in one op (scatter_rows) is an\n"
      "exchange of blocks and a sum of them in the order of the ranks.");
}

Module tensor_gradients(int64_t part) {
  const Recipe recipe{.mesh = {.tp = 2, .part = part}};
  Module module{.name = "two layers"};
  Forward training = add_forward(module, two_attentions, ProgramRole::training_first);
  training = tensor_parallel(module, "micro_first", training, recipe.mesh);
  autodiff(module, "micro_first", training, recipe);
  eliminate_dead(module);
  lower_tensor_sums(module, recipe.mesh);
  accumulate(module, recipe);
  sum_over_tensor_ranks(module, recipe);
  assign_lanes(module);
  return module;
}

TEST(GoldenPass, SumOverTensorRanks) {
  expect_golden_of_two(
      tensor_gradients(0), tensor_gradients(1), "tensor/sum_over_tensor_ranks",
      "sum_over_tensor_ranks: each rank's gradients of norms are of its tokens alone; at the\n"
      "end of backward they are packed, the rows gathered and added up.");
}

// --- pipeline stages -----------------------------------------------------------------------------

Recipe staged(int64_t stage) { return {.accum = 3, .mesh = {.pp = 2, .stage = stage}}; }

Module stage_of(const Recipe& recipe) {
  Programs p = with_forward(two_attentions);
  bind_loss(p.module, "eval", p.evaluation.loss);
  autodiff(p.module, "micro_first", p.training, recipe);
  eliminate_dead(p.module);
  cut_into_stages(p.module, recipe);
  return std::move(p.module);
}

TEST(GoldenPass, CutIntoStages) {
  expect_golden(
      stage_of(staged(0)), "pipeline/cut_into_stages_0",
      "cut_into_stages, the first of two: layer 0 and the embedding; what layer 1 reads is\n"
      "sent up, and its gradient is received.");
  expect_golden(
      stage_of(staged(1)), "pipeline/cut_into_stages_1",
      "cut_into_stages, the second of two: layer 1 and the head, which is the embedding: both\n"
      "stages have it, and each a part of its gradient.");
}

Module ordered(int64_t stage) {
  Module module = stage_of(staged(stage));
  pipeline_order(module, staged(stage));
  return module;
}

TEST(GoldenPass, PipelineOrder) {
  expect_golden(
      ordered(0), "pipeline/pipeline_order",
      "pipeline_order, the first of two stages, 3 micro-batches: micro_first has two forwards\n"
      "and a backward, micro_last a forward and two backwards; what is kept has a place for\n"
      "each of two micro-batches (.kept@0, .kept@1).");
}

TEST(GoldenPass, ShareBetweenStages) {
  Recipe recipe = staged(1);
  recipe.accum = 1;
  Module module = stage_of(recipe);
  pipeline_order(module, recipe);
  share_between_stages(module, recipe);
  expect_golden(
      module, "pipeline/share_between_stages",
      "share_between_stages, the second of two: the parts of the embedding's gradient are\n"
      "exchanged and added, the first stage's first; the loss of evaluation is sent down.");
}

}  // namespace
}  // namespace snug

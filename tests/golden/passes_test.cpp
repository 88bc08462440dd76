// What each pass makes of a two-layer model, as text that can be reviewed: one file per pass, with
// nothing in it that the pass is not about. The comment above a text says what to look for.
#include <gtest/gtest.h>

#include "golden/golden.h"
#include "passes/passes.h"
#include "passes/testing/two_layers.h"
#include "settings/parse.h"
#include "techniques/accumulate/accumulate.h"
#include "techniques/adapters/adapters.h"
#include "techniques/base/store_base.h"
#include "techniques/compress/compress.h"
#include "techniques/host_update/update_on_host.h"
#include "techniques/offload/offload.h"
#include "techniques/optimizer/optimizer.h"
#include "techniques/recompute/recompute.h"
#include "techniques/update_in_backward/update_in_backward.h"

namespace snug {
namespace {

// As far as recompute, in the order of compile.cpp.
Module recomputed(const char* policy, const Recipe& recipe = {}) {
  Module module = with_backward(two_attentions, recipe);
  recompute(
      module, "micro_first",
      values_to_keep(module, "micro_first", parse_setting<RecomputePolicy>(policy, "recompute")));
  eliminate_dead(module);
  return module;
}

TEST(GoldenPass, Precision) {
  expect_golden(with_forward(two_linears, {.precision = Dtype::bf16}).module, "precision/precision",
                "precision bf16: parameters and activations are bf16; what is fed (x), a norm's\n"
                "statistics (rstd) and the loss stay f32. Both programs.");
}

// x -> linear that widens, gelu | linear that narrows -> loss.
Forward wide_and_narrow(Module& module, std::string_view program, bool) {
  constexpr int64_t B = 4, C = 8, H = 16;
  SharedValues shared(module);
  const ValueId x = shared.input("x", {Dtype::f32, {B, C}});
  const ValueId targets = shared.input("targets", {Dtype::i32, {B}});
  Builder b(module, program);
  ValueId h;
  {
    const auto layer = b.layer(0, "0");
    h = ops::linear(b, "up",
                    {.x = x, .weight = shared.param("0.up.weight", {H, C}, Role::matrix, 0)});
    h = ops::gelu(b, "act", h, /*tanh=*/true);
  }
  {
    const auto layer = b.layer(1, "1");
    h = ops::linear(b, "down",
                    {.x = h, .weight = shared.param("1.down.weight", {C, H}, Role::matrix, 1)});
  }
  return {ops::cross_entropy(b, "loss", {.logits = h, .targets = targets}), h};
}

// Forward passes with low-rank pairs, in the order of compile.cpp.
Programs with_adapters(Adapters pairs) {
  Programs p = with_forward(wide_and_narrow);
  adapters(p.module, pairs);
  return p;
}

TEST(GoldenPass, Adapters) {
  expect_golden(
      with_adapters({.rank = 2, .alpha = 8, .dropout = 0.1, .targets = {"all"}}).module,
      "adapters/adapters",
      "adapters r=2,alpha=8,dropout=0.1: the matrices are frozen; each layer adds to its output\n"
      "4 times what lora_b makes of lora_a. Only training drops out.");
}

Module with_adapter_gradients() {
  Programs p = with_adapters({.rank = 2, .alpha = 4, .targets = {"all"}});
  bind_loss(p.module, "eval", p.evaluation.loss);
  autodiff(p.module, "micro_first", p.training);
  adapter_gradients_first(p.module, "micro_first");
  eliminate_dead(p.module);
  return std::move(p.module);
}

TEST(GoldenPass, AdapterGradientsFirst) {
  Module module = with_adapter_gradients();
  std::erase_if(module.programs, [](const Program& p) { return p.name == "eval"; });
  sweep_values(module);
  expect_golden(module, "adapters/adapter_gradients_first",
                "adapter_gradients_first: 1.down narrows from 16 to 8, so 1.down.grad_input comes\n"
                "after 1.down.lora_a.grad_input and adds to it (dx_sum).");
}

TEST(GoldenPass, StoreBaseAsNf4) {
  Module module = with_adapter_gradients();
  store_base(module, BaseKind::nf4);
  expect_golden(module, "base/store_base_nf4",
                "store_base nf4: a frozen matrix is codes, two a byte, and a scale per 64 of its\n"
                "elements; every op that reads it has its own dequantized copy (.base).");
}

TEST(GoldenPass, StoreBaseAsInt8) {
  Programs p = with_adapters({.rank = 2, .alpha = 4, .targets = {"down"}});
  store_base(p.module, BaseKind::int8);
  expect_golden(p.module, "base/store_base_int8",
                "store_base int8: a byte for each element and a scale per 128 of them.");
}

TEST(GoldenPass, Autodiff) {
  expect_golden(with_backward(two_attentions), "autodiff",
                "autodiff: each parameter has a gradient that the step carries. The embedding is\n"
                "also the head: embed.grad adds to what loss.grad wrote. loss.grad computes the\n"
                "loss, too, so eliminate_dead has removed the forward op.");
}

TEST(GoldenPass, AutodiffInFp16) {
  expect_golden(
      with_backward(two_linears,
                    {.precision = Dtype::f16, .loss_scale = {.start = 65536, .dynamic = true}}),
      "autodiff_fp16",
      "autodiff under fp16: what flows back is multiplied by the loss scale; gradients of\n"
      "parameters are made in f32 (grad_dtype) and need no cast.");
}

TEST(GoldenPass, FuseRecompute) {
  Module module = with_backward(two_linears);
  fuse_recompute(module, "micro_first");
  expect_golden(
      module, "recompute/fuse_recompute",
      "fused recompute: 1.norm.grad recomputes the norm's output on the way, and its reader,\n"
      "1.linear.grad_weight, comes after it. 0.act is kept: 1.norm.grad itself reads it.");
}

TEST(GoldenPass, RecomputeFull) {
  expect_golden(recomputed("full"), "recompute/recompute_full",
                "recompute full: each layer keeps only what enters it (embed, 1.norm.h) and is\n"
                "repeated just before its backward; a repeat of random ops draws by the same key.");
}

TEST(GoldenPass, RecomputeEvery2) {
  expect_golden(recomputed("every:2"), "recompute/recompute_every_2",
                "recompute every:2: both layers are one segment, which keeps only embed and is\n"
                "repeated as a whole before layer 1's backward.");
}

TEST(GoldenPass, RecomputeAttention) {
  expect_golden(recomputed("attention"), "recompute/recompute_attention",
                "recompute attention: only mix is repeated; no [B,H,T,T] value is kept.");
}

TEST(GoldenPass, Compress) {
  Module module = recomputed("attention", {.precision = Dtype::bf16});
  compress(module, "micro_first");
  expect_golden(module, "compress/compress",
                "compress int8, after recompute attention: what is kept goes into int8 after its\n"
                "last forward reader and comes back before backward needs it. What a norm divides\n"
                "by stays exact.");
}

TEST(GoldenPass, Accumulate) {
  Module module = with_backward(two_linears);
  accumulate(module, {.accum = 4});
  expect_golden(
      module, "accumulate/accumulate",
      "accumulate 4: micro_next is micro_first, but its first write of each gradient and\n"
      "of the loss adds (_sum ports).");
}

TEST(GoldenPass, AccumulateVertically) {
  Module module = with_backward(two_linears);
  accumulate(module, {.accum = 2, .micro_group = 2});
  expect_golden(
      module, "accumulate/accumulate_vertical",
      "accumulate 2, vertical: both micro-batches go through a layer before the next; the\n"
      "second has inputs of its own and adds to the first's gradients.");
}

TEST(GoldenPass, Offload) {
  Recipe recipe{.accum = 2};
  recipe.offload = parse_setting<Offload>("grads,params@0,activations", "offload");
  recipe.offload.ahead = 0;  // so that two layers are far apart
  Module module = with_backward(two_linears);
  accumulate(module, recipe);
  offload_values(module, recipe);
  assign_lanes(module);
  expect_golden(
      module, "offload/offload",
      "offload: layer 0's weights are prefetched; gradients are evicted after they are made, and\n"
      "prefetched to be added to; what a layer keeps is in host memory until its backward. Copies\n"
      "wait for the end of the layer before the one that they overlap.");
}

TEST(GoldenPass, OffloadToDisk) {
  Recipe recipe{.accum = 2};
  recipe.offload = parse_setting<Offload>("grads=disk,params@0=disk,activations", "offload");
  recipe.offload.ahead = 0;
  Module module = with_backward(two_linears);
  accumulate(module, recipe);
  offload_values(module, recipe);
  assign_lanes(module);
  expect_golden(
      module, "offload/offload_disk",
      "offload to disk: values come through staging in host memory (disk_in, copy_in)\n"
      "and leaves the same way (copy_out, disk_out); each hop waits for what left over it.");
}

// Parameters of two layers with their gradients: all that an optimizer looks at.
Module with_gradients() {
  Module module{.name = "two layers"};
  SharedValues shared(module);
  const ValueId params[] = {shared.param("embed", {96, 64}, Role::embedding),
                            shared.param("0.qkv", {96, 64}, Role::matrix, 0),
                            shared.param("1.out", {64, 64}, Role::matrix, 1),
                            shared.param("1.bias", {64}, Role::bias, 1)};
  Param heads = *module[params[1]].param;
  heads.heads = 6;
  heads.value_heads = 2;
  module[params[1]].param = std::make_shared<const Param>(heads);
  for (const ValueId id : params) add_gradient(module, id, module[id].type.dtype);
  return module;
}

void expect_optimizer(const Recipe& recipe, const char* name, const char* what) {
  Module module = with_gradients();
  optimizer(module, recipe);
  expect_golden(module, name, what);
}

TEST(GoldenPass, OptimizerAdamW) {
  expect_optimizer(
      {.clip = 1}, "optimizer/optimizer_adamw",
      "adamw: one norm over all gradients clips them; one that is not finite turns all\n"
      "updates off. A bias does not decay.");
}

TEST(GoldenPass, FoldedUpdate) {
  Module module = with_backward(two_linears);
  Recipe recipe{.offload = parse_setting<Offload>("optimizer", "offload"), .fold_update = true};
  accumulate(module, recipe);
  optimizer(module, recipe);
  expect_golden(module, "optimizer/folded_update",
                "folded update: layer 1's updates take turns with layer 0's forward ops, and what\n"
                "reads a parameter reads its new version; `flush` makes the same updates between\n"
                "steps.");
}

TEST(GoldenPass, UpdateOnHost) {
  Recipe recipe{.clip = 1};
  recipe.offload = parse_setting<Offload>("optimizer,grads@0", "offload");
  recipe.offload.slice = 4160;
  recipe.host_update = parse_setting<HostUpdate>("0-1", "host-update");
  Module module = with_gradients();
  optimizer(module, recipe);
  update_on_host(module, recipe);
  offload_values(module, recipe);
  assign_lanes(module);
  expect_golden(
      module, "host_update/update_on_host",
      "update on the host: layers 0 and 1 are updated there, on their state where it is;\n"
      "layer 0's gradient is there, the others' and the parameters are copied, scalars\n"
      "once. What belongs to no layer is updated on the device, its state prefetched.");
}

TEST(GoldenPass, OptimizerAdamW8bit) {
  expect_optimizer({.optimizer = OptimizerKind::adamw8bit}, "optimizer/optimizer_adamw8bit",
                   "adamw8bit: matrices keep both moments as codes with a scale per 256 elements;\n"
                   "embeddings and small tensors keep f32.");
}

TEST(GoldenPass, OptimizerAdamMini) {
  expect_optimizer(
      {.optimizer = OptimizerKind::adam_mini, .state_dtype = Dtype::bf16},
      "optimizer/optimizer_adam_mini",
      "adam-mini with bf16 state: one second moment per head of queries and keys, per\n"
      "output of values and other matrices, per bias. The seed rounds m without bias.");
}

TEST(GoldenPass, OptimizerInFp16) {
  const Recipe recipe{.precision = Dtype::f16,
                      .loss_scale = {.start = 65536, .dynamic = true},
                      .optimizer = OptimizerKind::lion};
  Module module = with_backward(two_linears, recipe);
  optimizer(module, recipe);
  expect_golden(module, "optimizer/optimizer_fp16",
                "lion under fp16: masters in f32 have the parameters' names, initial values and\n"
                "places in a checkpoint; `load` and `update` round them to what forward reads. An\n"
                "overflow skips the update and shrinks the loss scale.");
}

// The same with its matrices alone to train.
Forward two_matrices(Module& module, std::string_view program, bool training) {
  const Forward forward = two_linears(module, program, training);
  for (const char* name : {"0.bias", "1.norm"}) freeze(module, name);
  return forward;
}

Module updated_in_backward(const ForwardBuilder& model, int64_t accum, OptimizerKind kind) {
  const Recipe recipe{.accum = accum, .optimizer = kind, .update_in_backward = true, .clip = 0};
  Module module = with_backward(model, recipe);
  accumulate(module, recipe);
  update_in_backward(module, recipe);
  return module;
}

TEST(GoldenPass, UpdateInBackward) {
  expect_golden(updated_in_backward(two_linears, 1, OptimizerKind::adamw),
                "update_in_backward/update_in_backward",
                "update in backward: a parameter is updated once its gradient is complete and\n"
                "backward has read the old value; gradients are locals that die there.");
}

TEST(GoldenPass, UpdateInBackwardOfSeveral) {
  expect_golden(updated_in_backward(two_matrices, 2, OptimizerKind::lion),
                "update_in_backward/update_in_backward_accum_2",
                "update in backward with 2 micro-batches: gradients are carried, and only\n"
                "micro_last updates. Norm and bias are frozen.");
}

Module in_place_granted() {
  Programs p = with_forward(two_linears);
  bind_loss(p.module, "eval", p.evaluation.loss);
  autodiff(p.module, "micro_first", p.training);
  in_place(p.module);
  return std::move(p.module);
}

TEST(GoldenPass, InPlace) {
  expect_golden(in_place_granted(), "in_place",
                "in place (\"in %x\"): granted where no op reads the bytes again. eval keeps\n"
                "nothing for backward, so that its gelu and norm take over their inputs.");
}

TEST(GoldenPass, Schedule) {
  Module module = in_place_granted();
  schedule(module, Backend::cpu);
  expect_golden(
      module, "schedule",
      "schedule: what in_place.snug shows, with scratch (workspace) for the ops that ask\n"
      "for it and the first and last op (live) of every value that has bytes of its own.");
}

}  // namespace
}  // namespace snug

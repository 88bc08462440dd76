// Programs that no pass makes yet, written by hand: sharded parameters, pipelines, state in host
// memory. They are placed, verified and run in null, so that the passes to come find everything
// they need in the program.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "golden/golden.h"
#include "ir/verifier.h"
#include "ops/basic/copy.h"
#include "ops/comm/comm.h"
#include "ops/linear/linear.h"
#include "ops/optimizer/update_rule.h"
#include "passes/passes.h"
#include "placement/placement.h"
#include "runtime/null_executor.h"

namespace snug {
namespace {

constexpr int64_t B = 8;   // rows of a micro-batch
constexpr int64_t C = 64;  // width

ValueId on(Builder& b, std::string_view lane, ValueId value, Category category) {
  b.last().lane = lane;
  b.module()[value].category = category;
  return value;
}

// Everything that a plan does to a finished program, and the proof that it may run.
void finish(Module& module) {
  schedule(module, Backend::cpu);
  place(module);
  verify(module);
  const NullRun run = run_null(module);
  for (size_t space = 0; space < kSpaces; ++space)
    EXPECT_EQ(run.high_water[space], module.arena_bytes[space]);
}

void verify_pair(const Module& first, const Module& second) {
  const Module* ranks[] = {&first, &second};
  verify_ranks(ranks);
}

// --- a parameter that two ranks hold half of each ----------------------------------------------

// The full weight exists only around its use. Gathering it again for backward is a clone of the
// first gather: recompute.
Module sharded_rank() {
  Module m{.name = "sharded linear"};
  const ValueId w =
      add_shared(m, "w.shard", {Dtype::f32, {C / 2, C}}, Category::params, Scope::persistent,
                 {.role = Role::matrix, .init = {Init::Kind::normal, 0.02}});
  const ValueId x = add_shared(m, "x", {Dtype::f32, {B, C}}, Category::inputs, Scope::step);
  const ValueId dy = add_shared(m, "dy", {Dtype::f32, {B, C}}, Category::inputs, Scope::step);
  const ValueId grad = add_shared(m, "grad.w.shard", m[w].type, Category::grads, Scope::step);
  const ValueId dx = add_shared(m, "dx", m[x].type, Category::activations, Scope::step);
  const ValueId out = add_shared(m, "y", m[x].type, Category::activations, Scope::step);

  Builder b(m, "micro_first");
  auto gather = [&](const char* name, int64_t seq) {
    return on(b, "comm.dp", ops::all_gather(b, name, w, {.axis = "dp", .ranks = 2, .seq = seq}),
              Category::comm);
  };
  const ValueId full = gather("w.gather", 0);
  b.emit_into(ops::linear_def, "linear", {x, full}, out);

  b.set_phase(Phase::backward);
  const ValueId again = gather("w.gather.again", 1);
  b.last().clone_of = "w.gather";
  b.last().after = {"linear"};  // not before the first copy is done with
  b.emit_into(ops::linear_grad_input_def, "linear.grad_input", {dy, again}, dx);
  const ValueId dw = b.emit(ops::linear_grad_weight_def, "linear.grad_weight", {x, dy})[0];
  m[dw].category = Category::grads;
  b.emit_into(ops::reduce_scatter_def, "w.reduce", {dw}, grad,
              {{"axis", "dp"}, {"ranks", 2}, {"seq", 2}});
  b.last().lane = "comm.dp";
  m.step = {{1, {"micro_first"}}};
  return m;
}

TEST(RoomForWhatComes, GatherOfAShardedParameter) {
  Module first = sharded_rank();
  Module second = sharded_rank();
  finish(first);
  finish(second);
  verify_pair(first, second);
  expect_golden(first, "sharded_parameter");
}

// --- a pipeline of two stages with two micro-batches -------------------------------------------

// Messages are numbered per direction after unrolling, and the instances' views move to their own
// micro-batch.
void settle_instances(Module& m, Program& program) {
  std::map<Comm, int64_t> next;
  for (Op& op : program.ops) {
    if (op.def->comm != Comm::none) op.attrs.set("seq", next[op.def->comm]++);
    if (op.def->comm != Comm::none)  // a lane for each direction
      op.lane = op.phase == Phase::forward ? "comm.pp.up" : "comm.pp.down";
  }
  for (Value& v : m.values) {
    if (v.name == "x.micro@1") v.view_offset = B * C;
  }
}

// The second instance adds to the gradient that the first has written.
void accumulate_into_first(Program& program, std::string_view grad_op) {
  auto instance = [&](int m) -> Op& {
    return *std::ranges::find(program.ops, fmt::format("{}@{}", grad_op, m), &Op::name);
  };
  instance(1).inputs.back() = instance(0).outputs[0];
}

// The loss is half the square of y, so that dy is y.
Module pipeline_stage(int64_t stage) {
  Module m{.name = fmt::format("pipeline stage {}", stage)};
  const ValueId w = add_shared(m, "w", {Dtype::f32, {C, C}}, Category::params, Scope::persistent,
                               {.role = Role::matrix, .init = {Init::Kind::normal, 0.02}});
  const ValueId grad = add_shared(m, "grad.w", m[w].type, Category::grads, Scope::step);
  const Type rows{Dtype::f32, {B, C}};

  Builder b(m, "micro");
  auto message = [&] { return ops::Message{.axis = "pp", .peer = 1 - stage}; };
  ValueId x;
  if (stage == 0) {
    const ValueId batch =
        add_shared(m, "x", {Dtype::f32, {2, B, C}}, Category::inputs, Scope::step);
    x = b.view(batch, "x.micro", {B, C}, 0);
  } else {
    x = on(b, "comm.pp.up", ops::recv(b, "x.recv", rows, message()), Category::comm);
  }
  ValueId dy = ops::linear(b, "linear", {.x = x, .weight = w});
  if (stage == 0) ops::send(b, "y.send", dy, message());
  b.set_phase(Phase::backward);
  if (stage == 0)
    dy = on(b, "comm.pp.down", ops::recv(b, "dy.recv", rows, message()), Category::comm);
  b.emit_into(ops::linear_grad_weight_def, "linear.grad_weight", {x, dy}, grad);
  if (stage == 1) {
    const ValueId dx = b.emit(ops::linear_grad_input_def, "linear.grad_input", {dy, w})[0];
    ops::send(b, "dx.send", dx, message());
  }

  const Program body = std::move(m.programs.back());
  m.programs.pop_back();
  Program both = unroll(m, body, 2, "step");
  // The first stage fills the pipeline before it drains it: forward of both, then backward of both.
  if (stage == 0) std::ranges::stable_sort(both.ops, {}, &Op::phase);
  settle_instances(m, both);
  accumulate_into_first(both, "linear.grad_weight");
  m.programs.push_back(std::move(both));
  m.step = {{1, {"step"}}};
  return m;
}

TEST(RoomForWhatComes, PipelineOfTwoStages) {
  Module first = pipeline_stage(0);
  Module second = pipeline_stage(1);
  finish(first);
  finish(second);
  verify_pair(first, second);
  expect_golden(first, "pipeline_stage_0");
  expect_golden(second, "pipeline_stage_1");
}

// --- an optimizer whose state lives in host memory ---------------------------------------------

constexpr int64_t kChunks = 4;
constexpr int64_t kChunkElements = 1024;

// Chunk by chunk: fetch m and v, update, bring them back. A fetch waits until the chunk two before
// it has gone, so two buffers serve for all.
Module staged_update() {
  Module m{.name = "staged update"};
  const Type all{Dtype::f32, {kChunks * kChunkElements}};
  const ValueId w = add_shared(m, "w", all, Category::params, Scope::persistent,
                               {.role = Role::matrix, .init = {Init::Kind::normal, 0.02}});
  const ValueId grad = add_shared(m, "grad.w", all, Category::grads, Scope::step);
  const ValueId lr = add_shared(m, "lr", {Dtype::f32, {}}, Category::inputs, Scope::step);
  const ValueId scale =
      add_shared(m, "clip.scale", {Dtype::f32, {}}, Category::inputs, Scope::step);
  const ValueId count =
      add_shared(m, "updates", {Dtype::i64, {}}, Category::optimizer, Scope::persistent);
  const ValueId ok = add_shared(m, "clip.finite", {Dtype::i32, {}}, Category::inputs, Scope::step);
  std::map<std::string, ValueId> state;
  for (const char* name : {"w.m", "w.v"}) {
    state[name] = add_shared(m, name, all, Category::optimizer, Scope::persistent);
    m[state[name]].space = Space::host;
  }

  Builder b(m, "update");
  b.set_phase(Phase::update);
  auto chunk_of = [&](ValueId whole, int64_t chunk) {
    return b.view(whole, fmt::format("{}.{}", m[whole].name, chunk), {kChunkElements},
                  chunk * kChunkElements);
  };
  struct Staged {
    ValueId home, here;
  };
  auto fetch = [&](const std::string& name, int64_t chunk) {
    const ValueId home = chunk_of(state[name], chunk);
    const ValueId here = ops::copy(b, fmt::format("{}.{}.fetch", name, chunk), home, Space::device);
    if (chunk >= 2) b.last().after = {fmt::format("{}.{}.back", name, chunk - 2)};
    return Staged{home, on(b, "copy_in", here, Category::staging)};
  };
  auto bring_back = [&](const std::string& name, int64_t chunk, ValueId home, ValueId next) {
    b.emit_into(ops::copy_def, fmt::format("{}.{}.back", name, chunk), {next}, home);
    b.last().lane = "copy_out";
  };

  std::vector<std::array<Staged, 2>> staged;
  auto fetch_both = [&](int64_t chunk) {
    staged.push_back({fetch("w.m", chunk), fetch("w.v", chunk)});
  };
  fetch_both(0);
  fetch_both(1);
  for (int64_t chunk = 0; chunk < kChunks; ++chunk) {
    const auto [mean, square] = staged[static_cast<size_t>(chunk)];
    ops::emit_update(b, fmt::format("w.{}.adamw", chunk),
                     ops::adamw_rule({Dtype::f32, {kChunkElements}}, {}, {}),
                     {.param = chunk_of(w, chunk),
                      .grad = chunk_of(grad, chunk),
                      .states = {mean.here, square.here},
                      .lr = lr,
                      .step = count,
                      .scale = scale},
                     ok);
    const std::vector<ValueId> next = b.last().outputs;
    bring_back("w.m", chunk, mean.home, next[1]);
    bring_back("w.v", chunk, square.home, next[2]);
    if (chunk + 2 < kChunks) fetch_both(chunk + 2);
  }
  m.step = {{1, {"update"}}};
  return m;
}

TEST(RoomForWhatComes, UpdateStagedFromHostMemory) {
  Module m = staged_update();
  finish(m);
  expect_golden(m, "staged_update");

  // Two chunks of m and of v, whatever the size of the state.
  int64_t shared = 0;
  for (const Value& v : m.values) {
    if (v.shared() && v.space == Space::device)
      shared = std::max(shared, *v.offset + round_up(v.storage_bytes(), alignment_of(v.space)));
  }
  EXPECT_EQ(m.arena_bytes[0] - shared, 2 * 2 * kChunkElements * size_of(Dtype::f32));
}

}  // namespace
}  // namespace snug

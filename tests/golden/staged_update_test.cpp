// An update written by hand, whose state is in host memory and whose buffers serve chunk after chunk:
// placed, verified and run in null. tests/gpu_train runs it on a GPU's lanes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/units.h"
#include "compile/compile.h"
#include "golden/golden.h"
#include "ir/verifier.h"
#include "ops/basic/copy.h"
#include "ops/optimizer/update_rule.h"
#include "passes/passes.h"
#include "placement/placement.h"
#include "runtime/null_executor.h"

namespace snug {
namespace {

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

constexpr int64_t kChunks = 4;
constexpr int64_t kChunkElements = 1024;

// Chunk by chunk: fetch m and v, update, write them back. A fetch waits until the chunk two before
// it is written back, so two buffers serve for all.
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
    ValueId host, here;
  };
  auto fetch = [&](const std::string& name, int64_t chunk) {
    const ValueId host = chunk_of(state[name], chunk);
    const ValueId here = ops::copy(b, fmt::format("{}.{}.fetch", name, chunk), host, Space::device);
    if (chunk >= 2) b.last().after = {fmt::format("{}.{}.back", name, chunk - 2)};
    return Staged{host, on(b, "copy_in", here, Category::staging)};
  };
  auto write_back = [&](const std::string& name, int64_t chunk, ValueId host, ValueId next) {
    b.emit_into(ops::copy_def, fmt::format("{}.{}.back", name, chunk), {next}, host);
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
    write_back("w.m", chunk, mean.host, next[1]);
    write_back("w.v", chunk, square.host, next[2]);
    if (chunk + 2 < kChunks) fetch_both(chunk + 2);
  }
  m.step = {{1, {"update"}}};
  return m;
}

TEST(StagedUpdate, UsesTwoChunksPerState) {
  Module m = staged_update();
  finish(m);
  expect_golden(m, "pipeline/staged_update");

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

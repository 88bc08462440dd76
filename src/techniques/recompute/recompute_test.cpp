// Which values each policy keeps, and what the pass repeats for those it does not. That results
// stay the same bit for bit is shown on whole runs in tests/e2e.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile.h"
#include "models/model.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::string& text, int32_t layers = 4) {
  try {
    segments_of(parse_setting<RecomputePolicy>(text, "recompute"), layers);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

TEST(RecomputePolicy, CutsLayersIntoSegments) {
  auto segments = [](const char* text) {
    return segments_of(parse_setting<RecomputePolicy>(text, "recompute"), 7);
  };
  EXPECT_THAT(segments("none"), ElementsAre());
  EXPECT_THAT(segments("attention"), ElementsAre());
  EXPECT_EQ(segments("full"), segments("every:1"));
  EXPECT_THAT(segments("every:3"), ElementsAre(Segment{0, 2}, Segment{3, 5}, Segment{6, 6}));
  EXPECT_EQ(segments("sqrt"), segments("every:3"));
  EXPECT_THAT(segments("ratio:0.4"), ElementsAre(Segment{0, 0}, Segment{1, 1}, Segment{2, 2}));
  EXPECT_THAT(segments("ratio:0"), ElementsAre());
  EXPECT_THAT(segments("list:5,1-2"), ElementsAre(Segment{5, 5}, Segment{1, 1}, Segment{2, 2}));
}

TEST(RecomputePolicy, RefusesInvalidPolicies) {
  EXPECT_THAT(refusal("ful"), HasSubstr("did you mean 'full'"));
  EXPECT_THAT(refusal("every:0"), HasSubstr("at least one layer"));
  EXPECT_THAT(refusal("every:x"), HasSubstr("every:N"));
  EXPECT_THAT(refusal("every"), HasSubstr("every:N"));
  EXPECT_THAT(refusal("full:2"), HasSubstr("is not none, full"));
  EXPECT_THAT(refusal("ratio:1.5"), HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal("ratio:nan"), HasSubstr("between 0 and 1"));
  EXPECT_THAT(refusal("list:2-x"), HasSubstr("'2-x' is not a layer"));
  EXPECT_THAT(refusal("list:0-2147483647"), HasSubstr("names layer 2147483647"));
  EXPECT_THAT(refusal("list:"), HasSubstr("not a layer"));
  EXPECT_THAT(refusal("list:1,4"), HasSubstr("names layer 4, but the model has layers 0 to 3"));
  EXPECT_THAT(refusal("auto"), HasSubstr("or auto:BYTES"));
  EXPECT_THAT(refusal("auto:"), HasSubstr("'' is not an amount of memory"));
  EXPECT_THAT(refusal("auto:4XB"), HasSubstr("--recompute 'auto:4XB': '4XB' is not an amount"));
  EXPECT_THAT(refusal("auto:-1GiB"), HasSubstr("is not an amount of memory"));
}

TEST(RecomputePolicy, TextIsUserSyntax) {
  for (const char* written :
       {"none", "full", "every:3", "sqrt", "ratio:0.4", "attention", "list:0,3,5-7", "auto:4GiB"}) {
    EXPECT_EQ(text(parse_setting<RecomputePolicy>(written, "recompute")), written);
  }
  EXPECT_EQ(parse_setting<RecomputePolicy>("auto:4GiB", "recompute").bytes, int64_t{4} << 30);
}

TEST(RecomputePolicy, ChosenTextMergesEqualNeighbours) {
  RecomputePolicy policy{.kind = RecomputePolicy::Kind::chosen};
  EXPECT_EQ(in_words(policy), "none");
  policy.chosen = {{0, 2}, {3, 5}, {6, 6}, {7, 7}, {9, 9}, {10, 10, {"mlp.act", "attn.norm"}}};
  EXPECT_EQ(in_words(policy), "layers 0-5 every:3; 6-7 full; 9 full; 10 drop mlp.act, attn.norm");
  policy.chosen = {{0, 0, {"mlp.act"}}, {1, 1}, {2, 2}};
  EXPECT_EQ(in_words(policy), "layer 0 drop mlp.act; 1-2 full");
}

Module compiled(const RecomputePolicy& policy, const char* model = "snug-tiny",
                ops::AttentionKind attention = ops::AttentionKind::flash) {
  return compile("tiny",
                 Model::load(model).forward({.batch = 2, .seq = 64, .attention = attention}),
                 {.recompute = policy});
}
Module compiled(const char* policy, ops::AttentionKind attention = ops::AttentionKind::flash) {
  return compiled(parse_setting<RecomputePolicy>(policy, "recompute"), "snug-tiny", attention);
}

int64_t repeats(const Program& program) {
  return std::count_if(program.ops.begin(), program.ops.end(),
                       [](const Op& op) { return !op.clone_of.empty(); });
}

TEST(Recompute, NoneChangesNothing) {
  EXPECT_EQ(repeats(compiled("none").program("micro_first")), 0);
}

TEST(Recompute, RepeatsForwardOpsAtMostOnce) {
  const Module module = compiled("full");
  std::vector<std::string> repeated;
  for (const Op& op : module.program("micro_first").ops) {
    if (op.clone_of.empty()) continue;
    EXPECT_EQ(op.phase, Phase::backward);
    for (ValueId id : op.outputs) EXPECT_EQ(module[id].category, Category::recompute);
    repeated.push_back(op.clone_of);
  }
  EXPECT_GT(repeated.size(), 30U) << "six layers of at least five ops";
  std::sort(repeated.begin(), repeated.end());
  EXPECT_EQ(std::unique(repeated.begin(), repeated.end()), repeated.end());
}

// Bytes that one layer leaves from forward to backward, workspaces and repeats aside.
int64_t kept_bytes(const Module& module, int32_t layer) {
  const Program& program = module.program("micro_first");
  const auto first_backward =
      std::find_if(program.ops.begin(), program.ops.end(),
                   [](const Op& op) { return op.phase == Phase::backward; }) -
      program.ops.begin();
  int64_t bytes = 0;
  for (const Value& v : module.values) {
    const bool here = v.program == module.program_index("micro_first") && v.layer == layer;
    if (here && v.live && v.live->first < first_backward && v.live->last >= first_backward) {
      bytes += v.storage_bytes();
    }
  }
  return bytes;
}

TEST(Recompute, FullKeepsOneValuePerLayer) {
  const Module module = compiled("full");
  const int64_t stream = Type{Dtype::f32, {2, 64, 256}}.bytes();
  for (int32_t layer = 1; layer < 5; ++layer) EXPECT_EQ(kept_bytes(module, layer), stream) << layer;
  EXPECT_GT(kept_bytes(compiled("none"), 1), 8 * stream);
}

TEST(Recompute, AttentionDropsOnlyAttentionValues) {
  constexpr auto standard = ops::AttentionKind::standard;
  const Module none = compiled("none", standard);
  const Module some = compiled("attention", standard);
  const Program& program = some.program("micro_first");
  EXPECT_EQ(repeats(program), 6) << "one attention per layer";
  for (const Op& op : program.ops) {
    EXPECT_TRUE(op.clone_of.empty() || op.def->selective) << op.name;
  }
  const int64_t quadratic =
      Type{Dtype::f32, {2, Model::load("snug-tiny").config().H, 64, 64}}.bytes();
  const int64_t output = Type{Dtype::f32, {2, 64, 256}}.bytes();
  EXPECT_EQ(kept_bytes(none, 2) - kept_bytes(some, 2), quadratic + output);
}

std::vector<std::string> repeated_ops(const Module& module) {
  std::vector<std::string> names;
  for (const Op& op : module.program("micro_first").ops) {
    if (!op.clone_of.empty()) names.push_back(op.clone_of);
  }
  return names;
}

TEST(Recompute, ChosenDropsOnlyNamedValues) {
  using Kind = RecomputePolicy::Kind;
  EXPECT_THAT(repeated_ops(compiled({.kind = Kind::chosen, .chosen = {{2, 2, {"mlp.act"}}}})),
              ElementsAre("layers.2.mlp.act"));
  // A norm is recomputed from its sum; the sum itself goes only by its own name.
  EXPECT_THAT(repeated_ops(compiled({.kind = Kind::chosen, .chosen = {{2, 2, {"mlp.norm"}}}})),
              ElementsAre("layers.2.mlp.norm"));
  EXPECT_THAT(repeated_ops(compiled({.kind = Kind::chosen, .chosen = {{2, 2, {"mlp.norm.h"}}}})),
              ElementsAre("layers.2.attn.out", "layers.2.mlp.norm"));
  EXPECT_THAT(repeated_ops(compiled({.kind = Kind::chosen})), ElementsAre());
}

TEST(Recompute, ChosenSegmentsMatchEvery) {
  RecomputePolicy chosen{
      .kind = RecomputePolicy::Kind::chosen,
      .chosen = segments_of(parse_setting<RecomputePolicy>("every:2", "recompute"), 6)};
  EXPECT_EQ(repeated_ops(compiled(chosen)), repeated_ops(compiled("every:2")));
}

TEST(Recompute, InputsOutsideSegmentsAreNotRecomputed) {
  // Each layer reads its input again in backward: layer 2's is the last thing that layer 1 makes.
  EXPECT_THAT(
      repeated_ops(compiled(parse_setting<RecomputePolicy>("list:1", "recompute"), "mlp:64x4")),
      ElementsAre("layers.1.act"));
  EXPECT_THAT(
      repeated_ops(compiled(parse_setting<RecomputePolicy>("full", "recompute"), "mlp:64x4")),
      ElementsAre("layers.3.act", "layers.2.act", "layers.1.act"));
}

TEST(Recompute, AutomaticPolicyMustBeChosenFirst) {
  try {
    compiled("auto:1GiB");
    FAIL() << "compiled";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::internal);
  }
}

}  // namespace
}  // namespace snug

// Which forward results the pass lets backward ops recompute, and what of the order it changes for
// that. That results stay the same bit for bit is shown on whole runs in tests/e2e.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile.h"
#include "models/model.h"
#include "passes/testing/two_layers.h"
#include "settings/parse.h"
#include "techniques/recompute/recompute.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr BuildOptions kBuild{.batch = 2, .seq = 64};

Module compiled(const char* model, bool fused_recompute, const char* policy = "none",
                BuildOptions build = kBuild) {
  return compile("small", Model::load(model).forward(build),
                 {.recompute = parse_setting<RecomputePolicy>(policy, "recompute"),
                  .fused_recompute = fused_recompute});
}

size_t position(const Program& program, std::string_view name) {
  return static_cast<size_t>(&find(program, name) - program.ops.data());
}

// What layer 1 makes in forward and backward reads, by its name in the layer.
std::vector<std::string> kept(const Module& module, int32_t layer = 1) {
  const Program& program = module.program("micro_first");
  std::vector<std::string> names;
  for (const Op& maker : program.ops) {
    if (maker.phase != Phase::forward || maker.layer != layer) continue;
    for (const ValueId made : maker.outputs) {
      const bool read = std::ranges::any_of(program.ops, [&](const Op& op) {
        return op.phase == Phase::backward && std::ranges::count(op.inputs, made) > 0;
      });
      if (read) names.emplace_back(module.name_in_layer(module[made].name, layer));
    }
  }
  return names;
}

std::vector<std::string> spared(const Module& plain, const Module& fused) {
  std::vector<std::string> names = kept(plain);
  for (const std::string& name : kept(fused)) std::erase(names, name);
  return names;
}

int64_t bytes_of(const Module& module, const std::vector<std::string>& names, int32_t layer) {
  int64_t bytes = 0;
  for (const Value& value : module.values) {
    if (value.layer == layer && value.program == module.program_index("micro_first") &&
        std::ranges::count(names, module.name_in_layer(value.name, layer)) > 0)
      bytes += value.storage_bytes();
  }
  return bytes;
}

// Bytes of layer 1 that live from forward into backward.
int64_t kept_bytes(const Module& module) {
  const Program& program = module.program("micro_first");
  const auto turn =
      std::ranges::find(program.ops, Phase::backward, &Op::phase) - program.ops.begin();
  int64_t bytes = 0;
  for (const Value& value : module.values) {
    const bool here = value.program == module.program_index("micro_first") && value.layer == 1;
    if (here && value.live && value.live->first < turn && value.live->last >= turn)
      bytes += value.storage_bytes();
  }
  return bytes;
}

TEST(FuseRecompute, LlamaLayerKeepsNeitherNormsNorGate) {
  const Module plain = compiled("snug-tiny", false);
  const Module fused = compiled("snug-tiny", true);
  EXPECT_THAT(spared(plain, fused), ElementsAre("attn.norm.y", "mlp.norm.y", "mlp.act"));
  EXPECT_EQ(kept_bytes(plain) - kept_bytes(fused),
            bytes_of(plain, {"attn.norm.y", "mlp.norm.y", "mlp.act"}, 1));
  const ModelConfig c = Model::load("snug-tiny").config();
  EXPECT_EQ(kept_bytes(plain) - kept_bytes(fused),
            kBuild.batch * kBuild.seq * (2 * c.C + c.F) * size_of(Dtype::f32));
}

TEST(FuseRecompute, OtherFamiliesToo) {
  EXPECT_THAT(spared(compiled("gpt2", false), compiled("gpt2", true)),
              ElementsAre("attn.norm.y", "mlp.norm.y", "mlp.act"));
  EXPECT_THAT(spared(compiled("qwen2.5-0.5b", false), compiled("qwen2.5-0.5b", true)),
              ElementsAre("attn.norm.y", "mlp.norm.y", "mlp.act"));
  EXPECT_THAT(spared(compiled("mlp:64x4", false), compiled("mlp:64x4", true)), ElementsAre("act"));
}

TEST(FuseRecompute, ReadersFollowRecomputingOp) {
  const Module plain = compiled("snug-tiny", false);
  const Module fused = compiled("snug-tiny", true);
  const Program& before = plain.program("micro_first");
  const Program& after = fused.program("micro_first");
  const std::pair<const char*, const char*> moved[] = {
      {"layers.1.attn.norm.grad", "layers.1.attn.qkv.grad_weight"},
      {"layers.1.mlp.norm.grad", "layers.1.mlp.gate_up.grad_weight"},
      {"layers.1.mlp.act.grad", "layers.1.mlp.down.grad_weight"}};
  for (const auto& [maker, reader] : moved) {
    SCOPED_TRACE(reader);
    EXPECT_LT(position(before, reader), position(before, maker));
    EXPECT_EQ(position(after, reader), position(after, maker) + 1);
    const Op& made_by = find(after, maker);
    EXPECT_TRUE(made_by.def->kind.ends_with("_recompute_grad")) << made_by.def->kind;
    const ValueId again = find(after, reader).inputs[0];
    EXPECT_EQ(std::ranges::count(made_by.outputs, again), 1);
    EXPECT_TRUE(fused[again].name.ends_with(".recomputed")) << fused[again].name;
    EXPECT_EQ(fused[again].category, Category::recompute);
  }
}

TEST(FuseRecompute, ChangesOnlyOrderAndKinds) {
  auto names = [](const Module& module) {
    std::vector<std::string> out;
    for (const Op& op : module.program("micro_first").ops) out.push_back(op.name);
    std::ranges::sort(out);
    return out;
  };
  EXPECT_EQ(names(compiled("snug-tiny", true)), names(compiled("snug-tiny", false)));
}

TEST(FuseRecompute, InputsOfEarlierOpAreKept) {
  // The loss reads the last norm's output, and its backward must come before that of the norm.
  const Module module = compiled("snug-tiny", true);
  EXPECT_EQ(find(module.program("micro_first"), "norm.grad").def->kind, "rms_norm_grad");
}

TEST(FuseRecompute, OnlyTrainingProgramChanges) {
  EXPECT_EQ(kinds(compiled("snug-tiny", true).program("eval")),
            kinds(compiled("snug-tiny", false).program("eval")));
}

TEST(FuseRecompute, FullRecomputeRepeatsNoMoreOps) {
  auto repeated = [](const Module& module) {
    std::vector<std::string> names;
    for (const Op& op : module.program("micro_first").ops)
      if (!op.clone_of.empty()) names.push_back(op.clone_of);
    return names;
  };
  EXPECT_LE(repeated(compiled("snug-tiny", true, "full")).size(),
            repeated(compiled("snug-tiny", false, "full")).size());
  EXPECT_THAT(repeated(compiled("snug-tiny", true, "none")), IsEmpty());
}

TEST(FuseRecompute, ModuleIsSoundForEveryPolicyAndFamily) {
  for (const char* model : {"snug-tiny", "qwen2.5-0.5b", "gpt2", "bert-base", "mlp:64x4",
                            "qwen3-0.6b", "olmo2-1b", "phi3-mini", "gemma3-1b"}) {
    for (const char* policy :
         {"none", "full", "sqrt", "every:2", "ratio:0.5", "attention", "list:1"}) {
      for (const bool in_matmul : {false, true}) {
        SCOPED_TRACE(fmt::format("{} {} {}", model, policy, in_matmul));
        BuildOptions build = kBuild;
        build.residual_in_matmul = in_matmul;
        EXPECT_NO_THROW(verify(compiled(model, true, policy, build)));
      }
    }
  }
  Module module = with_backward(two_attentions);
  fuse_recompute(module, "micro_first");
  expect_sound(module);
}

}  // namespace
}  // namespace snug

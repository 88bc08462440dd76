// What the emitted forward passes look like: op by op for one small model of each shape.
#include "models/parts/transformer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "models/families/family.h"
#include "models/model.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

constexpr const char* kGpt2 =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 12, "n_head": 3, "n_positions": 16,
                                  "vocab_size": 37})";
constexpr const char* kLlama =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 12, "vocab_size": 37,
        "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 20})";
constexpr const char* kBert =
    R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 12, "vocab_size": 37,
                                  "num_attention_heads": 3, "intermediate_size": 20})";

struct Built {
  Module module{.name = "tiny"};
  Forward forward;

  Built(const char* config, const BuildOptions& options, bool training) {
    forward = Model::from_config(parse_hf_config(config, "tiny"), "tiny")
                  .forward(options)(module, "main", training);
    verify(module);
  }
  std::vector<std::string> ops() const {
    std::vector<std::string> lines;
    for (const Op& op : module.program("main").ops) {
      lines.push_back(fmt::format("{} = {}", op.name, op.def->kind));
    }
    return lines;
  }
  const Value& shared(std::string_view name) const { return module[module.find_shared(name)]; }
  const Op& op(std::string_view name) const {
    for (const Op& op : module.program("main").ops) {
      if (op.name == name) return op;
    }
    throw internal_error("no op '{}'", name);
  }
};

TEST(Transformer, LlamaFusesResidualsWithNextNorm) {
  const Built b(kLlama, {.batch = 2, .seq = 8}, /*training=*/true);
  EXPECT_THAT(b.ops(), ElementsAre("embed = embedding",                       //
                                   "layers.0.attn.norm = rms_norm",           //
                                   "layers.0.attn.qkv = linear",              //
                                   "layers.0.attn.rope = rope",               //
                                   "layers.0.attn.mix = flash_attention",     //
                                   "layers.0.attn.out = linear",              //
                                   "layers.0.mlp.norm = residual_rms_norm",   //
                                   "layers.0.mlp.gate_up = linear",           //
                                   "layers.0.mlp.act = swiglu",               //
                                   "layers.0.mlp.down = linear",              //
                                   "layers.1.attn.norm = residual_rms_norm",  //
                                   "layers.1.attn.qkv = linear",              //
                                   "layers.1.attn.rope = rope",               //
                                   "layers.1.attn.mix = flash_attention",     //
                                   "layers.1.attn.out = linear",              //
                                   "layers.1.mlp.norm = residual_rms_norm",   //
                                   "layers.1.mlp.gate_up = linear",           //
                                   "layers.1.mlp.act = swiglu",               //
                                   "layers.1.mlp.down = linear",              //
                                   "norm = residual_rms_norm",                //
                                   "loss = linear_cross_entropy"));
  EXPECT_EQ(b.module[b.forward.loss].type, (Type{Dtype::f32, {}}));
  EXPECT_FALSE(b.forward.logits.valid());
  EXPECT_EQ(b.shared("layers.1.attn.qkv.weight").type.shape, (Shape{20, 12}));
  EXPECT_EQ(b.shared("layers.1.attn.qkv.weight").layer, 1);
  EXPECT_EQ(b.shared("layers.1.attn.qkv.weight").param->heads, 5);
  EXPECT_EQ(b.shared("layers.1.mlp.gate_up.weight").type.shape, (Shape{40, 12}));
  EXPECT_EQ(b.shared("head.weight").param->role, Role::head);
  EXPECT_EQ(b.op("layers.1.attn.mix").layer, 1);
  EXPECT_EQ(b.op("norm").layer, kNoLayer);
  EXPECT_FALSE(b.module.find_shared("seed").valid());
}

TEST(Transformer, ResidualStreamPassesThroughNorms) {
  const Built b(kLlama, {.seq = 8}, false);
  const Op& first = b.op("layers.0.mlp.norm");
  const Op& second = b.op("layers.1.attn.norm");
  EXPECT_EQ(first.inputs[0], b.op("embed").outputs[0]);
  EXPECT_EQ(first.inputs[1], b.op("layers.0.attn.out").outputs[0]);
  EXPECT_EQ(second.inputs[0], first.outputs[0]);
  EXPECT_EQ(second.inputs[1], b.op("layers.0.mlp.down").outputs[0]);
  EXPECT_EQ(b.op("norm").inputs[1], b.op("layers.1.mlp.down").outputs[0]);
}

TEST(Transformer, Gpt2DropsOutOnlyInTraining) {
  const Built train(kGpt2, {.batch = 2, .seq = 8}, true);
  const Built eval(kGpt2, {.batch = 2, .seq = 8}, false);
  EXPECT_EQ(train.op("embed.dropout").def->kind, "dropout");
  EXPECT_EQ(train.op("h.1.mlp.dropout").def->kind, "dropout");
  EXPECT_EQ(train.op("h.1.attn.mix").attrs.f("p"), 0.1);
  EXPECT_EQ(train.shared("sample").type, (Type{Dtype::i64, {}}));
  EXPECT_EQ(train.shared("seed").scope, Scope::step);
  EXPECT_THAT(eval.ops(), ::testing::Not(::testing::Contains(::testing::HasSubstr("dropout"))));
  EXPECT_FALSE(eval.module.find_shared("seed").valid());
  const Built off(kGpt2, {.seq = 8, .dropout = 0.0}, true);
  EXPECT_EQ(off.ops(), eval.ops());
}

TEST(Transformer, Gpt2KeepsConv1dLayoutsAndTiesItsHead) {
  const Built b(kGpt2, {.batch = 2, .seq = 8, .chunked_loss = false}, false);
  EXPECT_EQ(b.shared("h.0.attn.qkv.weight").type.shape, (Shape{12, 36}));
  EXPECT_EQ(b.shared("h.0.mlp.down.weight").type.shape, (Shape{48, 12}));
  EXPECT_DOUBLE_EQ(b.shared("h.0.mlp.down.weight").param->init.value,
                   0.02 / 2);  // 1 / sqrt(2 * 2 layers)
  EXPECT_EQ(b.shared("h.0.attn.norm.weight").param->init, (Init{Init::Kind::constant, 1}));
  EXPECT_FALSE(b.module.find_shared("head.weight").valid());
  EXPECT_EQ(b.op("logits").inputs[1], b.module.find_shared("embed.weight"));
  EXPECT_EQ(b.forward.logits, b.op("logits").outputs[0]);
  EXPECT_EQ(b.module[b.forward.logits].type.shape, (Shape{2, 8, 37}));
  EXPECT_EQ(b.op("loss").def->kind, "cross_entropy");
}

TEST(Transformer, FusedWholeLossIsOneChunk) {
  for (const char* config : {kGpt2, kBert}) {
    const Built b(config, {.batch = 2, .seq = 8, .chunked_loss = false, .fused_loss = true}, false);
    EXPECT_EQ(b.op("loss").def->kind, "linear_cross_entropy");
    EXPECT_EQ(b.op("loss").attrs.i("chunk"), 16) << "all tokens";
    EXPECT_FALSE(b.forward.logits.valid());
  }
  const Built chunked(kGpt2, {.seq = 8, .loss_chunk = 5, .fused_loss = true}, false);
  EXPECT_EQ(chunked.op("loss").attrs.i("chunk"), 5);
}

TEST(Transformer, BertNormsAfterResidualsAndHasOwnHead) {
  const Built b(kBert, {.batch = 2, .seq = 8, .attention = ops::AttentionKind::standard}, false);
  EXPECT_THAT(b.ops(), ElementsAre("embed = embedding",                        //
                                   "embed.norm = layer_norm",                  //
                                   "layer.0.attn.qkv = linear",                //
                                   "layer.0.attn.mix = attention",             //
                                   "layer.0.attn.out = linear",                //
                                   "layer.0.attn.norm = residual_layer_norm",  //
                                   "layer.0.mlp.up = linear",                  //
                                   "layer.0.mlp.act = gelu",                   //
                                   "layer.0.mlp.down = linear",                //
                                   "layer.0.mlp.norm = residual_layer_norm",   //
                                   "head.dense = linear",                      //
                                   "head.act = gelu",                          //
                                   "head.norm = layer_norm",                   //
                                   "loss = linear_cross_entropy"));
  EXPECT_FALSE(b.op("layer.0.attn.mix").attrs.b("causal"));
  EXPECT_FALSE(b.op("layer.0.mlp.act").attrs.b("tanh"));
  EXPECT_EQ(b.op("layer.0.mlp.norm").inputs[0], b.op("layer.0.attn.norm").outputs[1]);
}

TEST(Transformer, ChunkedAttentionUsesChunkOption) {
  const Built b(
      kLlama,
      {.batch = 2, .seq = 8, .attention = ops::AttentionKind::chunked, .attention_chunk = 3},
      /*training=*/true);
  EXPECT_EQ(b.op("layers.1.attn.mix").def->kind, "chunked_attention");
  EXPECT_EQ(b.op("layers.1.attn.mix").attrs.i("chunk"), 3);
}

// Which ops read the input `starts`, and by which port.
std::vector<std::string> readers_of_starts(const Built& b) {
  std::vector<std::string> readers;
  const ValueId starts = b.module.find_shared("starts");
  for (const Op& op : b.module.program("main").ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (starts.valid() && op.inputs[i] == starts)
        readers.push_back(fmt::format("{}: {}", op.name, op.def->inputs[i].name));
    }
  }
  return readers;
}

TEST(Transformer, PackedRowsPassStartsToPositionsAndAttention) {
  const Built llama(kLlama, {.batch = 2, .seq = 8, .packed = true}, true);
  EXPECT_EQ(llama.shared("starts").type, (Type{Dtype::i32, {2, 8}}));
  EXPECT_EQ(llama.shared("starts").category, Category::inputs);
  EXPECT_THAT(readers_of_starts(llama),
              ElementsAre("layers.0.attn.rope: starts", "layers.0.attn.mix: starts",
                          "layers.1.attn.rope: starts", "layers.1.attn.mix: starts"));
  const Built gpt2(kGpt2, {.batch = 2, .seq = 8, .packed = true}, true);
  EXPECT_THAT(readers_of_starts(gpt2),
              ElementsAre("embed: starts", "h.0.attn.mix: starts", "h.1.attn.mix: starts"));
  EXPECT_FALSE(Built(kLlama, {.batch = 2, .seq = 8}, true).module.find_shared("starts").valid());
}

TEST(Transformer, UnmaskedModelsRefusePacking) {
  const auto refusal = [](const Model& model) {
    try {
      model.forward({.batch = 2, .seq = 8, .packed = true});
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::usage);
      EXPECT_THAT(e.hint(), ::testing::HasSubstr("leave --pack out"));
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refusal(Model::from_config(parse_hf_config(kGpt2, "tiny"), "tiny")), "accepted");
  EXPECT_THAT(refusal(Model::from_config(parse_hf_config(kBert, "tiny"), "tiny")),
              ::testing::HasSubstr("model 'tiny' (bert) lets every token see the whole row"));
  EXPECT_THAT(refusal(Model::load("mlp:16x3")), ::testing::HasSubstr("takes features, not tokens"));
}

TEST(Transformer, PaddingTokenIsUntrainedAsInTransformers) {
  auto padding = [](std::string config, const std::string& more) {
    config.insert(1, more);
    return Built(config.c_str(), {.seq = 8}, true).op("embed").attrs.i("padding", -1);
  };
  EXPECT_EQ(padding(kBert, ""), 0);
  EXPECT_EQ(padding(kBert, R"("pad_token_id": null, )"), -1);
  EXPECT_EQ(padding(kLlama, ""), -1);
  EXPECT_EQ(padding(kLlama, R"("pad_token_id": 5, )"), 5);
  EXPECT_EQ(padding(kLlama, R"("pad_token_id": -1, )"), 36);
  EXPECT_EQ(padding(kGpt2, R"("pad_token_id": 5, )"), -1);
}

ModelParts parts_of(const char* config) {
  const HfConfig hf = parse_hf_config(config, "tiny");
  return find_family(hf.model_type)->parts(hf);
}

// Op by op, with names, attributes and values.
std::string text_of(const ModelParts& parts) {
  Module module{.name = "tiny"};
  build_transformer(parts, {.batch = 2, .seq = 8}, module, "main", /*training=*/true);
  verify(module);
  return print(module);
}

TEST(Transformer, TwoStacksAreBuiltAsOneDeepStack) {
  const ModelParts whole = parts_of(kBert);
  ModelParts deep = whole, two = whole;
  deep.stacks[0].L = 2;
  two.stacks.push_back(whole.stacks[0]);
  two.stacks[1].name = "upper";
  const auto renamed = [](std::string text, std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
      text.replace(at, from.size(), to);
    return text;
  };
  // The second stack counts its own layers, in programs and in checkpoints.
  EXPECT_EQ(renamed(text_of(two), "upper.0", "layer.1"),
            renamed(text_of(deep), "encoder.layer.1", "encoder.layer.0"));
}

TEST(Transformer, BlocksOfAStackMayDiffer) {
  ModelParts m = parts_of(kLlama);
  parts::Block& other = m.stacks[0].blocks.emplace_back(m.stacks[0].blocks[0]);
  other.norm_place = parts::Block::NormPlace::after_sum;
  other.mlp = {.F = 7,
               .activation = parts::Activation::relu,
               .in_tensors = {"mlp.up_proj"},
               .out_tensor = "mlp.down_proj"};
  Module module{.name = "tiny"};
  build_transformer(m, {.batch = 2, .seq = 8}, module, "main", /*training=*/true);
  verify(module);
  const auto shape = [&](const char* name) { return module[module.find_shared(name)].type.shape; };
  EXPECT_EQ(shape("layers.0.mlp.gate_up.weight"), (Shape{40, 12}));
  EXPECT_EQ(shape("layers.1.mlp.up.weight"), (Shape{7, 12}));
  const auto& ops = module.program("main").ops;
  const auto sum = std::ranges::find(ops, "layers.1.stream.add", &Op::name);
  ASSERT_NE(sum, ops.end()) << "the stream is whole before a block that norms after the sum";
  EXPECT_EQ(sum->inputs[1], std::ranges::find(ops, "layers.0.mlp.down", &Op::name)->outputs[0]);
}

TEST(Transformer, ProgramsOfOneModuleShareParametersAndInputs) {
  Module module{.name = "tiny"};
  const ForwardBuilder forward =
      Model::from_config(parse_hf_config(kGpt2, "tiny"), "tiny").forward({.batch = 2, .seq = 8});
  auto shared = [&] {
    return std::ranges::count_if(module.values, [](const Value& v) { return v.shared(); });
  };
  forward(module, "train", true);
  const auto after_one = shared();
  forward(module, "eval", false);
  verify(module);
  EXPECT_EQ(shared(), after_one);
  EXPECT_EQ(module.program("eval").ops[0].inputs, module.program("train").ops[0].inputs);
}

TEST(Transformer, ConflictingInputsOfProgramsAreBugs) {
  Module module{.name = "tiny"};
  const Model m = Model::from_config(parse_hf_config(kLlama, "tiny"), "tiny");
  m.forward({.batch = 2, .seq = 8})(module, "train", true);
  EXPECT_THROW(m.forward({.batch = 1, .seq = 8})(module, "eval", false), Error);
}

TEST(Mlp, AlternatesLinearAndGelu) {
  Module module{.name = "mlp"};
  const Forward f = Model::load("mlp:16x3").forward({.batch = 4})(module, "main", true);
  std::vector<std::string_view> kinds;
  for (const Op& op : module.program("main").ops) kinds.push_back(op.def->kind);
  EXPECT_THAT(kinds, ElementsAre("linear", "gelu", "linear", "gelu", "linear", "cross_entropy"));
  EXPECT_EQ(module[f.logits].type.shape, (Shape{4, 16}));
  EXPECT_EQ(module[module.find_shared("features")].type, (Type{Dtype::f32, {4, 16}}));
  EXPECT_EQ(module[module.find_shared("targets")].type, (Type{Dtype::i32, {4}}));
  EXPECT_EQ(module[module.find_shared("layers.2.linear.weight")].param->checkpoint[0].name,
            "layers.2.weight");
}

}  // namespace
}  // namespace snug

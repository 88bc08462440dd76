// The tensors that a checkpoint of each family has, written down from transformers' own state_dict
// (tied ones left out, as its save_pretrained does): names and shapes must be complete and unique,
// and tile their parameters.
#include <gtest/gtest.h>

#include <map>

#include "models/model.h"

namespace snug {
namespace {

using Tensors = std::map<std::string, std::string>;  // name -> shape

// Of two pieces of a tensor.
Shape rows_added(const Shape& a, const Shape& b) {
  return a.rank() == 1 ? Shape{a[0] + b[0]} : Shape{a[0] + b[0], a[1]};
}

Tensors tensors_of(const char* config) {
  Module module{.name = "tiny"};
  Model::from_config(parse_hf_config(config, "tiny"), "tiny")
      .forward({.seq = 4})(module, "eval", false);
  Tensors found;
  for (const Value& value : module.values) {
    if (value.category != Category::params) continue;
    std::map<int64_t, int64_t> ends;  // of parts, by their offsets
    std::map<std::string, Shape> here;
    for (const CheckpointPart& part : value.param->checkpoint) {
      ends[part.offset] = part.offset + part.shape.elements();
      const auto [at, added] = here.emplace(part.name, part.shape);
      if (!added) at->second = rows_added(at->second, part.shape);
    }
    for (const auto& [name, shape] : here)
      EXPECT_TRUE(found.emplace(name, shape.text()).second) << name << " twice";
    int64_t next = 0;
    for (const auto& [offset, end] : ends) {
      EXPECT_EQ(offset, next) << value.name;
      next = end;
    }
    EXPECT_EQ(next, value.type.shape.elements()) << value.name;
  }
  return found;
}

TEST(CheckpointNames, Gpt2) {
  EXPECT_EQ(
      tensors_of(
          R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 12, "n_head": 3, "n_positions": 16,
                           "vocab_size": 37})"),
      (Tensors{{"transformer.wte.weight", "[37,12]"},
               {"transformer.wpe.weight", "[16,12]"},
               {"transformer.h.0.ln_1.weight", "[12]"},
               {"transformer.h.0.ln_1.bias", "[12]"},
               {"transformer.h.0.attn.c_attn.weight", "[12,36]"},
               {"transformer.h.0.attn.c_attn.bias", "[36]"},
               {"transformer.h.0.attn.c_proj.weight", "[12,12]"},
               {"transformer.h.0.attn.c_proj.bias", "[12]"},
               {"transformer.h.0.ln_2.weight", "[12]"},
               {"transformer.h.0.ln_2.bias", "[12]"},
               {"transformer.h.0.mlp.c_fc.weight", "[12,48]"},
               {"transformer.h.0.mlp.c_fc.bias", "[48]"},
               {"transformer.h.0.mlp.c_proj.weight", "[48,12]"},
               {"transformer.h.0.mlp.c_proj.bias", "[12]"},
               {"transformer.ln_f.weight", "[12]"},
               {"transformer.ln_f.bias", "[12]"}}));
}

Tensors llama_tensors() {
  return {{"model.embed_tokens.weight", "[37,12]"},
          {"model.layers.0.self_attn.q_proj.weight", "[12,12]"},
          {"model.layers.0.self_attn.k_proj.weight", "[4,12]"},
          {"model.layers.0.self_attn.v_proj.weight", "[4,12]"},
          {"model.layers.0.self_attn.o_proj.weight", "[12,12]"},
          {"model.layers.0.mlp.gate_proj.weight", "[20,12]"},
          {"model.layers.0.mlp.up_proj.weight", "[20,12]"},
          {"model.layers.0.mlp.down_proj.weight", "[12,20]"},
          {"model.layers.0.input_layernorm.weight", "[12]"},
          {"model.layers.0.post_attention_layernorm.weight", "[12]"},
          {"model.norm.weight", "[12]"}};
}

void add_qkv_biases(Tensors& t) {
  t["model.layers.0.self_attn.q_proj.bias"] = "[12]";
  t["model.layers.0.self_attn.k_proj.bias"] = "[4]";
  t["model.layers.0.self_attn.v_proj.bias"] = "[4]";
}

std::string tiny_rotary(std::string_view model_type, std::string_view more) {
  return fmt::format(
      R"({{"model_type": "{}", "num_hidden_layers": 1, "hidden_size": 12, "vocab_size": 37,
                          "num_attention_heads": 3, "num_key_value_heads": 1, "intermediate_size": 20 {}}})",
      model_type, more);
}

TEST(CheckpointNames, LlamaAndMistral) {
  Tensors expected = llama_tensors();
  expected["lm_head.weight"] = "[37,12]";
  EXPECT_EQ(tensors_of(tiny_rotary("llama", "").c_str()), expected);
  EXPECT_EQ(tensors_of(tiny_rotary("mistral", "").c_str()), expected);
}

TEST(CheckpointNames, LlamaWithEveryBias) {
  Tensors expected = llama_tensors();
  add_qkv_biases(expected);
  expected["lm_head.weight"] = "[37,12]";
  expected["model.layers.0.self_attn.o_proj.bias"] = "[12]";
  expected["model.layers.0.mlp.gate_proj.bias"] = "[20]";
  expected["model.layers.0.mlp.up_proj.bias"] = "[20]";
  expected["model.layers.0.mlp.down_proj.bias"] = "[12]";
  EXPECT_EQ(
      tensors_of(tiny_rotary("llama", R"(, "attention_bias": true, "mlp_bias": true)").c_str()),
      expected);
}

TEST(CheckpointNames, Qwen2Tied) {
  Tensors expected = llama_tensors();
  add_qkv_biases(expected);
  EXPECT_EQ(tensors_of(tiny_rotary("qwen2", R"(, "tie_word_embeddings": true)").c_str()), expected);
}

TEST(CheckpointNames, Qwen3) {
  Tensors expected = llama_tensors();
  expected["lm_head.weight"] = "[37,12]";
  expected["model.layers.0.self_attn.q_norm.weight"] = "[4]";
  expected["model.layers.0.self_attn.k_norm.weight"] = "[4]";
  EXPECT_EQ(tensors_of(tiny_rotary("qwen3", R"(, "head_dim": 4)").c_str()), expected);
}

TEST(CheckpointNames, Olmo2) {
  Tensors expected = llama_tensors();
  expected.erase("model.layers.0.input_layernorm.weight");
  expected["lm_head.weight"] = "[37,12]";
  expected["model.layers.0.post_feedforward_layernorm.weight"] = "[12]";
  expected["model.layers.0.self_attn.q_norm.weight"] = "[12]";
  expected["model.layers.0.self_attn.k_norm.weight"] = "[4]";
  EXPECT_EQ(tensors_of(tiny_rotary("olmo2", "").c_str()), expected);
}

TEST(CheckpointNames, Phi3) {
  Tensors expected = llama_tensors();
  for (const char* part : {"self_attn.q", "self_attn.k", "self_attn.v", "mlp.gate", "mlp.up"}) {
    expected.erase(fmt::format("model.layers.0.{}_proj.weight", part));
  }
  expected["lm_head.weight"] = "[37,12]";
  expected["model.layers.0.self_attn.qkv_proj.weight"] = "[20,12]";
  expected["model.layers.0.mlp.gate_up_proj.weight"] = "[40,12]";
  EXPECT_EQ(tensors_of(tiny_rotary("phi3", R"(, "pad_token_id": null)").c_str()), expected);
}

TEST(CheckpointNames, Gemma3Tied) {
  Tensors expected = llama_tensors();
  expected["model.layers.0.self_attn.q_norm.weight"] = "[4]";
  expected["model.layers.0.self_attn.k_norm.weight"] = "[4]";
  expected["model.layers.0.pre_feedforward_layernorm.weight"] = "[12]";
  expected["model.layers.0.post_feedforward_layernorm.weight"] = "[12]";
  EXPECT_EQ(tensors_of(tiny_rotary("gemma3_text", R"(, "head_dim": 4)").c_str()), expected);
}

TEST(CheckpointNames, StableLm) {
  Tensors expected = llama_tensors();
  expected["lm_head.weight"] = "[37,12]";
  for (const char* norm : {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"})
    expected[fmt::format("model.{}.bias", norm)] = "[12]";
  const std::string half = R"(, "partial_rotary_factor": 0.5)";
  EXPECT_EQ(tensors_of(tiny_rotary("stablelm", half).c_str()), expected);
  add_qkv_biases(expected);
  expected.erase("model.layers.0.post_attention_layernorm.weight");
  expected.erase("model.layers.0.post_attention_layernorm.bias");
  const std::string more = half + R"(, "use_parallel_residual": true, "use_qkv_bias": true)";
  EXPECT_EQ(tensors_of(tiny_rotary("stablelm", more).c_str()), expected);
}

TEST(CheckpointNames, GptNeoX) {
  Tensors expected{{"gpt_neox.embed_in.weight", "[37,12]"},
                   {"gpt_neox.layers.0.attention.query_key_value.weight", "[36,12]"},
                   {"gpt_neox.layers.0.attention.dense.weight", "[12,12]"},
                   {"gpt_neox.layers.0.mlp.dense_h_to_4h.weight", "[20,12]"},
                   {"gpt_neox.layers.0.mlp.dense_h_to_4h.bias", "[20]"},
                   {"gpt_neox.layers.0.mlp.dense_4h_to_h.weight", "[12,20]"},
                   {"gpt_neox.layers.0.mlp.dense_4h_to_h.bias", "[12]"},
                   {"embed_out.weight", "[37,12]"}};
  for (const char* norm :
       {"layers.0.input_layernorm", "layers.0.post_attention_layernorm", "final_layer_norm"}) {
    expected[fmt::format("gpt_neox.{}.weight", norm)] = "[12]";
    expected[fmt::format("gpt_neox.{}.bias", norm)] = "[12]";
  }
  const std::string half = R"(, "rotary_pct": 0.5)";
  EXPECT_EQ(tensors_of(tiny_rotary("gpt_neox", half + R"(, "attention_bias": false)").c_str()),
            expected);
  expected["gpt_neox.layers.0.attention.query_key_value.bias"] = "[36]";
  expected["gpt_neox.layers.0.attention.dense.bias"] = "[12]";
  EXPECT_EQ(tensors_of(tiny_rotary("gpt_neox", half).c_str()), expected);
}

TEST(CheckpointNames, Opt) {
  Tensors expected{{"model.decoder.embed_tokens.weight", "[37,12]"},
                   {"model.decoder.embed_positions.weight", "[18,12]"},
                   {"model.decoder.layers.0.fc1.weight", "[20,12]"},
                   {"model.decoder.layers.0.fc1.bias", "[20]"},
                   {"model.decoder.layers.0.fc2.weight", "[12,20]"},
                   {"model.decoder.layers.0.fc2.bias", "[12]"}};
  for (const char* part : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    expected[fmt::format("model.decoder.layers.0.self_attn.{}.weight", part)] = "[12,12]";
    expected[fmt::format("model.decoder.layers.0.self_attn.{}.bias", part)] = "[12]";
  }
  for (const char* norm :
       {"layers.0.self_attn_layer_norm", "layers.0.final_layer_norm", "final_layer_norm"}) {
    expected[fmt::format("model.decoder.{}.weight", norm)] = "[12]";
    expected[fmt::format("model.decoder.{}.bias", norm)] = "[12]";
  }
  EXPECT_EQ(tensors_of(R"({"model_type": "opt", "num_hidden_layers": 1, "hidden_size": 12,
                           "vocab_size": 37, "num_attention_heads": 3, "ffn_dim": 20,
                           "max_position_embeddings": 16})"),
            expected);
}

TEST(CheckpointNames, Bert) {
  EXPECT_EQ(
      tensors_of(
          R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 12, "vocab_size": 37,
                           "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16})"),
      (Tensors{{"bert.embeddings.word_embeddings.weight", "[37,12]"},
               {"bert.embeddings.position_embeddings.weight", "[16,12]"},
               {"bert.embeddings.token_type_embeddings.weight", "[2,12]"},
               {"bert.embeddings.LayerNorm.weight", "[12]"},
               {"bert.embeddings.LayerNorm.bias", "[12]"},
               {"bert.encoder.layer.0.attention.self.query.weight", "[12,12]"},
               {"bert.encoder.layer.0.attention.self.query.bias", "[12]"},
               {"bert.encoder.layer.0.attention.self.key.weight", "[12,12]"},
               {"bert.encoder.layer.0.attention.self.key.bias", "[12]"},
               {"bert.encoder.layer.0.attention.self.value.weight", "[12,12]"},
               {"bert.encoder.layer.0.attention.self.value.bias", "[12]"},
               {"bert.encoder.layer.0.attention.output.dense.weight", "[12,12]"},
               {"bert.encoder.layer.0.attention.output.dense.bias", "[12]"},
               {"bert.encoder.layer.0.attention.output.LayerNorm.weight", "[12]"},
               {"bert.encoder.layer.0.attention.output.LayerNorm.bias", "[12]"},
               {"bert.encoder.layer.0.intermediate.dense.weight", "[20,12]"},
               {"bert.encoder.layer.0.intermediate.dense.bias", "[20]"},
               {"bert.encoder.layer.0.output.dense.weight", "[12,20]"},
               {"bert.encoder.layer.0.output.dense.bias", "[12]"},
               {"bert.encoder.layer.0.output.LayerNorm.weight", "[12]"},
               {"bert.encoder.layer.0.output.LayerNorm.bias", "[12]"},
               {"cls.predictions.bias", "[37]"},
               {"cls.predictions.transform.dense.weight", "[12,12]"},
               {"cls.predictions.transform.dense.bias", "[12]"},
               {"cls.predictions.transform.LayerNorm.weight", "[12]"},
               {"cls.predictions.transform.LayerNorm.bias", "[12]"}}));
}

}  // namespace
}  // namespace snug

#include "formats/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

HfConfig parse(std::string_view text) { return parse_hf_config(text, "config.json"); }

// The sentence of the error that `body` throws with `code`; the test fails when it throws none.
template <typename Body>
std::string refusal(Body body, ExitCode code = ExitCode::bad_input) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "nothing was refused";
  return "";
}

TEST(HfConfig, LlamaDefaultsAreThoseOfTransformers) {
  const HfConfig c = parse(R"({"model_type": "llama"})");
  EXPECT_EQ(c.vocab_size, 32000);
  EXPECT_EQ(c.hidden_size, 4096);
  EXPECT_EQ(c.intermediate_size, 11008);
  EXPECT_EQ(c.num_hidden_layers, 32);
  EXPECT_EQ(c.num_key_value_heads, 32);
  EXPECT_EQ(c.head_dim, 128);
  EXPECT_EQ(c.max_position_embeddings, 2048);
  EXPECT_EQ(c.norm_eps, 1e-6);
  EXPECT_EQ(c.rope, HfRope{});
  EXPECT_EQ(c.dtype, "float32");
  EXPECT_FALSE(c.tie_word_embeddings || c.qkv_bias || c.mlp_bias || c.sliding_window);
}

TEST(HfConfig, Qwen2DefaultsAndBiases) {
  const HfConfig c = parse(R"({"model_type": "qwen2"})");
  EXPECT_EQ(c.vocab_size, 151936);
  EXPECT_EQ(c.intermediate_size, 22016);
  EXPECT_EQ(c.num_key_value_heads, 32);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(c.attention_output_bias);
  EXPECT_FALSE(c.sliding_window);
}

TEST(HfConfig, MistralKvHeadsAbsentAndNullDiffer) {
  EXPECT_EQ(parse(R"({"model_type": "mistral"})").num_key_value_heads, 8);
  EXPECT_EQ(parse(R"({"model_type": "mistral"})").sliding_window, 4096);
  const HfConfig c =
      parse(R"({"model_type": "mistral", "num_key_value_heads": null, "sliding_window": null})");
  EXPECT_EQ(c.num_key_value_heads, 32);
  EXPECT_FALSE(c.sliding_window);
}

TEST(HfConfig, Gpt2DefaultsAndOtherSpellings) {
  const HfConfig c = parse(R"({"model_type": "gpt2", "n_inner": null, "hidden_size": 96})");
  EXPECT_EQ(c.hidden_size, 96);
  EXPECT_EQ(c.intermediate_size, 4 * 96);
  EXPECT_EQ(c.activation, HfActivation::gelu_tanh);
  EXPECT_EQ(c.attention_dropout, 0.1);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_THAT(
      refusal([] { parse(R"({"model_type": "gpt2", "n_layer": 2, "num_hidden_layers": 3})"); }),
      HasSubstr("n_layer is 2 but num_hidden_layers is 3"));
}

TEST(HfConfig, BertDefaults) {
  const HfConfig c = parse(R"({"model_type": "bert"})");
  EXPECT_EQ(c.type_vocab_size, 2);
  EXPECT_EQ(c.norm_eps, 1e-12);
  EXPECT_EQ(c.activation, HfActivation::gelu);
  EXPECT_EQ(c.residual_dropout, 0.1);
}

TEST(HfConfig, PaddingIsWhatTheFamilyGivesItsEmbedding) {
  auto padding = [](std::string_view family, std::string_view id) {
    return parse(fmt::format(R"({{"model_type": "{}", "vocab_size": 10, "pad_token_id": {}}})",
                             family, id))
        .padding_token;
  };
  EXPECT_EQ(parse(R"({"model_type": "bert"})").padding_token, 0);
  EXPECT_EQ(padding("bert", "null"), std::nullopt);
  for (const char* family : {"llama", "qwen2", "mistral"}) {
    EXPECT_EQ(parse(fmt::format(R"({{"model_type": "{}"}})", family)).padding_token, std::nullopt);
    EXPECT_EQ(padding(family, "null"), std::nullopt);
    EXPECT_EQ(padding(family, "9"), 9);
    EXPECT_EQ(padding(family, "-1"), 9) << "torch counts from the end";
    EXPECT_EQ(padding(family, "-10"), 0);
  }
  EXPECT_EQ(padding("gpt2", "3"), std::nullopt);
  EXPECT_EQ(padding("gpt2", "50257"), std::nullopt) << "gpt2's embedding never sees it";
}

TEST(HfConfig, BothSpellingsOfRopeMeanTheSame) {
  const HfConfig v4 =
      parse(R"({"model_type": "llama", "rope_theta": 500000.0, "torch_dtype": "bfloat16",
    "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                     "original_max_position_embeddings": 8192}})");
  const HfConfig v5 = parse(R"({"model_type": "llama", "dtype": "bfloat16",
    "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000, "factor": 8.0, "low_freq_factor": 1,
                        "high_freq_factor": 4, "original_max_position_embeddings": 8192}})");
  EXPECT_EQ(v4.rope.kind, HfRope::Kind::llama3);
  EXPECT_EQ(v4.rope.theta, 500000);
  EXPECT_EQ(v4.rope.original_positions, 8192);
  EXPECT_EQ(v4.rope, v5.rope);
  EXPECT_EQ(v4.dtype, v5.dtype);

  const HfConfig linear =
      parse(R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 2.5}})");
  EXPECT_EQ(linear.rope.kind, HfRope::Kind::linear);
  EXPECT_EQ(linear.rope.factor, 2.5);
}

TEST(HfConfig, DamagedJsonSaysWhere) {
  const std::string said = refusal([] { parse("{\n  \"model_type\": \"llama\",\n  oops\n}"); });
  EXPECT_THAT(said, HasSubstr("config.json"));
  EXPECT_THAT(said, HasSubstr("line 3, column 3"));
  EXPECT_THAT(refusal([] { parse(""); }), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal([] { parse(R"({"model_type": "llama", "rope_theta": 1e999})"); }),
              HasSubstr("1e999"));
  EXPECT_THAT(refusal([] { parse(std::string(1'000'000, '[')); }), HasSubstr("64 levels"));
  EXPECT_THAT(refusal([] { parse("[1, 2]"); }),
              HasSubstr("an array ([1,2]) instead of a JSON object"));
}

// Each row is refused with a sentence that names the field.
struct Refused {
  const char* json;
  const char* says;
};

class HfConfigRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(HfConfigRefuses, ByName) {
  EXPECT_THAT(refusal([&] { parse(GetParam().json); }), HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    WrongValues, HfConfigRefuses,
    ::testing::Values(
        Refused{R"({})", "model_type is missing"},
        Refused{R"({"model_type": 3})", "model_type is a number (3), not a string"},
        Refused{R"({"model_type": "lama"})", "did you mean 'llama'?"},
        Refused{R"({"model_type": "bloom"})", "'bloom', a family that Snug does not support"},
        Refused{R"({"model_type": "llama", "num_hidden_layers": "12"})",
                "num_hidden_layers is a string (\"12\"), not a whole number"},
        Refused{R"({"model_type": "llama", "hidden_size": 64.5})",
                "hidden_size is a number (64.5)"},
        Refused{R"({"model_type": "llama", "hidden_size": true})",
                "hidden_size is a boolean (true)"},
        Refused{R"({"model_type": "llama", "hidden_size": null})", "hidden_size is null"},
        Refused{R"({"model_type": "llama", "vocab_size": 0})",
                "vocab_size is 0 and must be at least 1"},
        Refused{R"({"model_type": "llama", "num_hidden_layers": -1})", "num_hidden_layers is -1"},
        Refused{R"({"model_type": "llama", "hidden_size": 9223372036854775807})",
                "hidden_size is 9223372036854775807, more than"},
        Refused{R"({"model_type": "llama", "hidden_size": 18446744073709551615})",
                "hidden_size is 18446744073709551615, more than"},
        Refused{R"({"model_type": "llama", "hidden_size": 1e30})", "not a whole number"},
        Refused{R"({"model_type": "llama", "num_attention_heads": 16384, "num_key_value_heads": 1,
                    "hidden_size": 16384, "head_dim": 4096})",
                "columns that Snug takes"},
        Refused{R"({"model_type": "llama", "vocab_size": 10, "pad_token_id": 10})",
                "pad_token_id is 10, which is not one of the 10 rows"},
        Refused{R"({"model_type": "bert", "vocab_size": 10, "pad_token_id": -11})",
                "pad_token_id is -11"},
        Refused{R"({"model_type": "llama", "pad_token_id": 18446744073709551615})",
                "pad_token_id is 18446744073709551615"},
        Refused{R"({"model_type": "llama", "pad_token_id": 1.5})",
                "pad_token_id is a number (1.5), not a whole number"},
        Refused{R"({"model_type": "gpt2", "n_head": 7})",
                "n_head is 7 and does not divide the width of 768"},
        Refused{R"({"model_type": "llama", "num_key_value_heads": 5})",
                "num_key_value_heads is 5 and does not divide the 32 attention heads"},
        Refused{R"({"model_type": "llama", "hidden_size": 96, "num_attention_heads": 32})",
                "head_dim is 3; rotary positions need an even one"},
        Refused{R"({"model_type": "llama", "rms_norm_eps": 0})",
                "rms_norm_eps is 0 and must be positive"},
        Refused{R"({"model_type": "gpt2", "attn_pdrop": 1.0})", "attn_pdrop is 1"},
        Refused{R"({"model_type": "llama", "tie_word_embeddings": "yes"})", "not true or false"},
        Refused{R"({"model_type": "llama", "rope_scaling": "linear"})", "rope_scaling is a string"},
        Refused{R"({"model_type": "llama", "rope_theta": -1})", "rope_theta is -1"},
        Refused{R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear", "factor": 0}})",
                "rope_scaling.factor is 0"},
        Refused{R"({"model_type": "llama", "rope_scaling": {"rope_type": "linear"}})",
                "rope_scaling.factor is missing"},
        Refused{R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8}})",
                "rope_scaling.low_freq_factor is missing"},
        Refused{R"({"model_type": "llama", "rope_scaling": {"rope_type": "llama3", "factor": 8,
                    "low_freq_factor": 4, "high_freq_factor": 4}})",
                "must exceed low_freq_factor"},
        Refused{R"({"model_type": "llama", "rope_theta": 1, "rope_parameters": {"rope_theta": 2}})",
                "rope_parameters.rope_theta is 2 but rope_theta is 1"},
        Refused{R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2},
                    "rope_parameters": {"rope_type": "default"}})",
                "rope_scaling says something else than rope_parameters"}));

INSTANTIATE_TEST_SUITE_P(
    WhatIsNotSupported, HfConfigRefuses,
    ::testing::Values(
        Refused{R"({"model_type": "llama", "rope_scaling": {"type": "dynamic", "factor": 2}})",
                "rope_scaling.type is 'dynamic'"},
        Refused{R"({"model_type": "qwen2", "rope_scaling": {"rope_type": "yarn", "factor": 4}})",
                "rope_scaling.rope_type is 'yarn'"},
        Refused{R"({"model_type": "llama", "rope_parameters": {"rope_type": "longrope"}})",
                "rope_parameters.rope_type is 'longrope'"},
        Refused{
            R"({"model_type": "llama", "rope_parameters": {"full_attention": {"rope_theta": 1}}})",
            "rope_parameters.full_attention is set"},
        Refused{R"({"model_type": "llama", "partial_rotary_factor": 0.5})",
                "partial_rotary_factor is 0.5"},
        Refused{R"({"model_type": "llama", "rope_parameters": {"partial_rotary_factor": 0.5}})",
                "rope_parameters.partial_rotary_factor is 0.5"},
        Refused{R"({"model_type": "llama", "quantization_config": {"bits": 4}})",
                "quantization_config is set"},
        Refused{R"({"model_type": "llama", "hidden_act": "relu"})", "hidden_act is 'relu'"},
        Refused{R"({"model_type": "gpt2", "activation_function": "relu"})",
                "activation_function is 'relu'"},
        Refused{R"({"model_type": "gpt2", "activation_function": "silu"})",
                "activation_function is 'silu'"},
        Refused{R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})",
                "scale_attn_by_inverse_layer_idx is true"},
        Refused{R"({"model_type": "gpt2", "reorder_and_upcast_attn": true})",
                "reorder_and_upcast_attn is true"},
        Refused{R"({"model_type": "gpt2", "scale_attn_weights": false})",
                "scale_attn_weights is false"},
        Refused{R"({"model_type": "gpt2", "add_cross_attention": true})",
                "add_cross_attention is true"},
        Refused{R"({"model_type": "gpt2", "pruned_heads": {"0": [1]}})",
                "pruned_heads is not empty"},
        Refused{R"({"model_type": "bert", "position_embedding_type": "relative_key"})",
                "position_embedding_type is 'relative_key'"},
        Refused{R"({"model_type": "bert", "is_decoder": true})", "is_decoder is true"},
        Refused{R"({"model_type": "bert", "tie_word_embeddings": false})",
                "tie_word_embeddings is false"},
        Refused{R"({"model_type": "mistral", "attention_bias": true})", "attention_bias is true"},
        Refused{R"({"model_type": "qwen2", "mlp_bias": true})", "mlp_bias is true"},
        Refused{
            R"({"model_type": "qwen2", "layer_types": ["full_attention", "sliding_attention"]})",
            "layer_types holds \"sliding_attention\""},
        Refused{R"({"model_type": "qwen2", "layer_types": ["chunked_attention"]})",
                "layer_types holds \"chunked_attention\""},
        Refused{R"({"model_type": "qwen3", "use_sliding_window": true, "num_hidden_layers": 3,
                    "layer_types": ["full_attention", "sliding_attention"]})",
                "layer_types has 2 entries for 3 layers"},
        Refused{R"({"model_type": "phi3", "rope_scaling": {"type": "su", "long_factor": [1]}})",
                "rope_scaling.type is 'su'"},
        Refused{R"({"model_type": "phi3", "rope_scaling": {"type": "longrope"}})",
                "rope_scaling.type is 'longrope'"},
        Refused{R"({"model_type": "phi3", "partial_rotary_factor": 0.75})",
                "partial_rotary_factor is 0.75"},
        Refused{R"({"model_type": "phi3", "vocab_size": 100})",
                "pad_token_id is missing; phi3 means 32000 then"},
        Refused{R"({"model_type": "gemma3_text", "final_logit_softcapping": 30.0})",
                "final_logit_softcapping is set"},
        Refused{R"({"model_type": "gemma3_text", "hidden_activation": "silu"})",
                "hidden_activation is 'silu'"},
        Refused{R"({"model_type": "gemma3_text", "use_bidirectional_attention": true})",
                "use_bidirectional_attention is true"},
        Refused{R"({"model_type": "gemma3_text", "rope_local_base_freq": 5,
                    "rope_parameters": {"sliding_attention": {"rope_theta": 6}}})",
                "rope_parameters.sliding_attention.rope_theta is 6 but rope_local_base_freq is 5"},
        Refused{R"({"model_type": "gemma3_text", "rope_parameters": {
                    "sliding_attention": {"rope_type": "linear", "factor": 2}}})",
                "rope_parameters.sliding_attention.rope_type is 'linear'"}));

TEST(HfConfig, WhatDoesNotTouchTheComputationIsAccepted) {
  EXPECT_NO_THROW(parse(R"({"model_type": "llama", "pretraining_tp": 2, "use_cache": false,
    "transformers_version": "4.40.1", "bos_token_id": 1, "eos_token_id": [2, 3], "rope_scaling": null,
    "head_dim": null, "attention_dropout": null, "quantization_config": null, "torch_dtype": null})"));
}

TEST(HfConfig, MistralsAndPhisLayersAllHaveTheWindow) {
  for (const char* family : {"mistral", "phi3"}) {
    const HfConfig c = parse(fmt::format(
        R"({{"model_type": "{}", "sliding_window": 64, "layer_types": null}})", family));
    EXPECT_EQ(c.sliding_window, 64);
    EXPECT_TRUE(c.has_window(0) && c.has_window(31)) << family;
    EXPECT_EQ(check_sequence(c, 128), "");
  }
  EXPECT_FALSE(parse(R"({"model_type": "llama", "sliding_window": 64})").has_window(0));
}

TEST(HfConfig, SomeLayersOfQwenHaveAWindow) {
  auto qwen = [](std::string_view more) {
    return parse(fmt::format(R"({{"model_type": "qwen2", "sliding_window": 64 {}}})", more));
  };
  EXPECT_FALSE(qwen("").sliding_window);
  EXPECT_FALSE(qwen(R"(, "use_sliding_window": true, "max_window_layers": 32)").sliding_window);
  const HfConfig from_28 = qwen(R"(, "use_sliding_window": true)");
  EXPECT_FALSE(from_28.has_window(27));
  EXPECT_TRUE(from_28.has_window(28));
  const HfConfig named = qwen(R"(, "use_sliding_window": true, "num_hidden_layers": 3,
      "layer_types": ["sliding_attention", "full_attention", "full_attention"])");
  EXPECT_TRUE(named.has_window(0));
  EXPECT_FALSE(named.has_window(1));
}

TEST(HfConfig, EverySixthLayerOfGemma3HasNoWindow) {
  const HfConfig c = parse(R"({"model_type": "gemma3_text", "sliding_window": 512})");
  EXPECT_EQ(c.num_hidden_layers, 26);
  EXPECT_EQ(c.window_layers, (std::vector<bool>{true, true, true, true, true, false}));
  EXPECT_FALSE(c.has_window(23));
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.local_theta, 1e4);
  EXPECT_EQ(c.padding_token, 0);
  EXPECT_EQ(c.query_scalar, 256);
  EXPECT_TRUE(c.tie_word_embeddings);
}

TEST(HfConfig, BothSpellingsOfGemma3sRopeMeanTheSame) {
  const HfConfig v4 = parse(R"({"model_type": "gemma3_text", "rope_theta": 5e5,
      "rope_local_base_freq": 2e4, "rope_scaling": {"rope_type": "linear", "factor": 8.0}})");
  const HfConfig v5 = parse(R"({"model_type": "gemma3_text", "rope_parameters": {
      "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}}})");
  EXPECT_EQ(v4.rope.kind, HfRope::Kind::linear);
  EXPECT_EQ(v4.rope, v5.rope);
  EXPECT_EQ(v4.local_theta, 2e4);
  EXPECT_EQ(v4.local_theta, v5.local_theta);
}

// As they are on the hub, without the fields that no computation reads.
TEST(HfConfig, ReadsPublishedConfigurations) {
  const HfConfig smollm = parse(R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "bos_token_id": 0, "eos_token_id": 0, "hidden_act": "silu",
      "hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536,
      "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
      "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30,
      "num_key_value_heads": 3, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
      "rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000,
      "tie_word_embeddings": true, "torch_dtype": "bfloat16", "vocab_size": 49152})");
  EXPECT_EQ(smollm.head_dim, 64);
  EXPECT_TRUE(smollm.tie_word_embeddings);
  EXPECT_EQ(smollm.rope.theta, 1e5);
  const HfConfig qwen3 = parse(R"({"architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 1024,
      "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960,
      "max_window_layers": 28, "model_type": "qwen3", "num_attention_heads": 16,
      "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06,
      "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
      "tie_word_embeddings": true, "use_sliding_window": false, "vocab_size": 151936})");
  EXPECT_EQ(qwen3.head_dim, 128);
  EXPECT_FALSE(qwen3.qkv_bias);
  const HfConfig phi3 = parse(R"({"architectures": ["Phi3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 3072,
      "intermediate_size": 8192, "max_position_embeddings": 4096, "model_type": "phi3",
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
      "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.1,
      "rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047,
      "tie_word_embeddings": false, "vocab_size": 32064})");
  EXPECT_EQ(phi3.sliding_window, 2047);
  EXPECT_EQ(phi3.residual_dropout, 0.1);
  const HfConfig gemma3 = parse(R"({"architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
      "attention_dropout": 0.0, "attn_logit_softcapping": null, "cache_implementation": "hybrid",
      "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
      "hidden_size": 1152, "intermediate_size": 6912, "max_position_embeddings": 32768,
      "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
      "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256,
      "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null,
      "rope_theta": 1000000, "sliding_window": 512, "sliding_window_pattern": 6,
      "vocab_size": 262144})");
  EXPECT_EQ(gemma3.head_dim, 256);
  EXPECT_EQ(gemma3.activation, HfActivation::gelu_tanh);
}

TEST(HfConfig, LearnedPositionsEndAndRotaryOnesGetANote) {
  for (const char* family : {"gpt2", "bert"}) {
    const HfConfig c =
        parse(fmt::format(R"({{"model_type": "{}", "max_position_embeddings": 48}})", family));
    EXPECT_EQ(check_sequence(c, 48), "");
    EXPECT_THAT(refusal([&] { check_sequence(c, 49); }, ExitCode::usage),
                HasSubstr("48 positions"));
  }
  const HfConfig llama = parse(R"({"model_type": "llama"})");
  EXPECT_EQ(check_sequence(llama, 2048), "");
  EXPECT_THAT(check_sequence(llama, 2049), HasSubstr("2048 positions"));
}

// Every family comes back from its own JSON as it was, and keeps what Snug does not know.
TEST(HfConfig, WritesWhatItReads) {
  for (
      const char* text : {
          R"({"model_type": "gpt2", "n_embd": 96, "n_head": 6, "n_inner": 200, "resid_pdrop": 0.25})",
          R"({"model_type": "llama", "num_key_value_heads": 4, "head_dim": 64, "attention_bias": true,
               "rope_theta": 5e5, "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 1,
               "high_freq_factor": 4, "original_max_position_embeddings": 8192}})",
          R"({"model_type": "llama", "rope_parameters": {"rope_type": "linear", "factor": 3.0}})",
          R"({"model_type": "qwen2", "tie_word_embeddings": true, "use_sliding_window": true,
               "sliding_window": 100})",
          R"({"model_type": "mistral", "pad_token_id": -1})",
          R"({"model_type": "bert", "hidden_size": 96, "type_vocab_size": 3})",
          R"({"model_type": "qwen3", "head_dim": 96, "attention_bias": true, "num_hidden_layers": 3,
               "use_sliding_window": true,
               "layer_types": ["full_attention", "sliding_attention", "full_attention"]})",
          R"({"model_type": "olmo2", "num_key_value_heads": 8, "pad_token_id": null})",
          R"({"model_type": "phi3", "resid_pdrop": 0.1, "sliding_window": 2047})",
          R"({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0},
               "num_hidden_layers": 8, "query_pre_attn_scalar": 168, "sliding_window": 77})",
      }) {
    const HfConfig before = parse(text);
    const HfConfig after = parse(to_json(before));
    EXPECT_EQ(after.hidden_size, before.hidden_size);
    EXPECT_EQ(after.intermediate_size, before.intermediate_size);
    EXPECT_EQ(after.num_attention_heads, before.num_attention_heads);
    EXPECT_EQ(after.num_key_value_heads, before.num_key_value_heads);
    EXPECT_EQ(after.head_dim, before.head_dim);
    EXPECT_EQ(after.rope, before.rope);
    EXPECT_EQ(after.qkv_bias, before.qkv_bias);
    EXPECT_EQ(after.attention_output_bias, before.attention_output_bias);
    EXPECT_EQ(after.tie_word_embeddings, before.tie_word_embeddings);
    EXPECT_EQ(after.residual_dropout, before.residual_dropout);
    EXPECT_EQ(after.type_vocab_size, before.type_vocab_size);
    EXPECT_EQ(after.sliding_window, before.sliding_window);
    EXPECT_EQ(after.window_layers, before.window_layers);
    EXPECT_EQ(after.local_theta, before.local_theta);
    EXPECT_EQ(after.query_scalar, before.query_scalar);
    EXPECT_EQ(after.padding_token, before.padding_token);
    EXPECT_EQ(to_json(after), to_json(before));
  }
}

TEST(HfConfig, WritesForTransformersAndKeepsUnknownKeys) {
  const auto json = nlohmann::json::parse(to_json(parse(
      R"({"model_type": "qwen2", "eos_token_id": 7, "torch_dtype": "bfloat16", "rope_theta": 1e6})")));
  EXPECT_EQ(json["architectures"], nlohmann::json::array({"Qwen2ForCausalLM"}));
  EXPECT_EQ(json["eos_token_id"], 7);
  EXPECT_EQ(json["dtype"], "float32");
  EXPECT_EQ(json["torch_dtype"], "float32");
  const HfConfig plain = parse(R"({"model_type": "qwen2"})");
  EXPECT_EQ(nlohmann::json::parse(to_json(plain, Dtype::bf16))["dtype"], "bfloat16");
  EXPECT_EQ(nlohmann::json::parse(to_json(plain, Dtype::f16))["torch_dtype"], "float16");
  EXPECT_EQ(json["rope_theta"], 1e6);
  EXPECT_EQ(json["rope_scaling"], nullptr);
  EXPECT_EQ(json["rope_parameters"],
            (nlohmann::json{{"rope_type", "default"}, {"rope_theta", 1e6}}));
}

TEST(HfConfig, LoadsAFileOrItsDirectory) {
  const auto dir =
      std::filesystem::path(::testing::TempDir()) / fmt::format("hf_config_test.{}", getpid());
  std::filesystem::create_directories(dir);
  std::filesystem::remove(dir / "config.json");
  EXPECT_THAT(refusal([&] { load_hf_config(dir); }), HasSubstr("has no config.json"));
  EXPECT_THAT(refusal([&] { load_hf_config(dir / "config.json"); }), HasSubstr("cannot read"));
  write_file_atomically(dir / "config.json", R"({"model_type": "gpt2", "n_layer": 3})");
  EXPECT_EQ(load_hf_config(dir).num_hidden_layers, 3);
  EXPECT_EQ(load_hf_config(dir / "config.json").num_hidden_layers, 3);
}

TEST(HfConfig, AnotherFamilyOrVersionIsNoTypingError) {
  for (const char* family : {"qwen4", "gemma2", "albert", "roberta", "llama4", "gpt_neo"}) {
    try {
      parse_hf_config(fmt::format(R"({{"model_type": "{}"}})", family), "config.json");
      ADD_FAILURE() << family;
    } catch (const Error& error) {
      EXPECT_EQ(error.what(),
                fmt::format("config.json: model_type is '{}', a family that Snug does "
                            "not support",
                            family));
      EXPECT_EQ(error.hint(),
                "supported: gpt2, llama, qwen2, qwen3, mistral, olmo2, phi3, gemma3_text, bert");
    }
  }
}

}  // namespace
}  // namespace snug

#include "models/families/hf_config.h"

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

TEST(HfConfig, LlamaDefaultsMatchTransformers) {
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

TEST(HfConfig, PaddingFollowsFamily) {
  auto padding = [](std::string_view family, std::string_view id) {
    return parse(fmt::format(R"({{"model_type": "{}", "vocab_size": 10, "pad_token_id": {}}})",
                             family, id))
        .padding_token;
  };
  EXPECT_EQ(parse(R"({"model_type": "bert"})").padding_token, 0);
  EXPECT_EQ(padding("bert", "null"), std::nullopt);
  for (const char* family : {"llama", "qwen2", "mistral", "stablelm"}) {
    EXPECT_EQ(parse(fmt::format(R"({{"model_type": "{}"}})", family)).padding_token, std::nullopt);
    EXPECT_EQ(padding(family, "null"), std::nullopt);
    EXPECT_EQ(padding(family, "9"), 9);
    EXPECT_EQ(padding(family, "-1"), 9) << "torch counts from the end";
    EXPECT_EQ(padding(family, "-10"), 0);
  }
  EXPECT_EQ(padding("gpt2", "3"), std::nullopt);
  EXPECT_EQ(padding("gpt_neox", "3"), std::nullopt);
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

TEST(HfConfig, DamagedJsonReportsPosition) {
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

TEST(HfConfig, IrrelevantFieldsAreAccepted) {
  EXPECT_NO_THROW(parse(R"({"model_type": "llama", "pretraining_tp": 2, "use_cache": false,
    "transformers_version": "4.40.1", "bos_token_id": 1, "eos_token_id": [2, 3], "rope_scaling": null,
    "head_dim": null, "attention_dropout": null, "quantization_config": null, "torch_dtype": null})"));
}

TEST(HfConfig, AllMistralAndPhiLayersHaveWindow) {
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

TEST(HfConfig, BothRopeSpellingsOfGemma3AreEqual) {
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
  const HfConfig stablelm = parse(R"({"architectures": ["StableLmForCausalLM"],
      "hidden_act": "silu", "hidden_size": 2560, "intermediate_size": 6912,
      "layer_norm_eps": 1e-05, "max_position_embeddings": 4096, "model_type": "stablelm",
      "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
      "partial_rotary_factor": 0.25, "rope_theta": 10000, "tie_word_embeddings": false,
      "torch_dtype": "bfloat16", "use_qkv_bias": false, "vocab_size": 50304})");
  EXPECT_EQ(stablelm.head_dim, 80);
  EXPECT_EQ(stablelm.rotary_dim(), 20);
  EXPECT_EQ(stablelm.norm_eps, 1e-5);
  const HfConfig pythia = parse(R"({"architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu",
      "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 4096,
      "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
      "num_attention_heads": 16, "num_hidden_layers": 24, "rotary_emb_base": 10000,
      "rotary_pct": 0.25, "tie_word_embeddings": false, "torch_dtype": "float16",
      "use_parallel_residual": true, "vocab_size": 50304})");
  const HfConfig opt = parse(R"({"_remove_final_layer_norm": false,
      "activation_function": "relu", "architectures": ["OPTForCausalLM"], "attention_dropout": 0.0,
      "bos_token_id": 2, "do_layer_norm_before": true, "dropout": 0.1, "ffn_dim": 8192,
      "hidden_size": 2048, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
      "model_type": "opt", "num_attention_heads": 32, "num_hidden_layers": 24, "pad_token_id": 1,
      "torch_dtype": "float16", "vocab_size": 50272, "word_embed_proj_dim": 2048})");
  EXPECT_EQ(opt.activation, HfActivation::relu);
  EXPECT_EQ(opt.padding_token, 1);
  EXPECT_TRUE(opt.tie_word_embeddings && opt.qkv_bias && !opt.rotary);
  EXPECT_EQ(pythia.rotary_dim(), 16);
  EXPECT_TRUE(pythia.parallel_residual && pythia.qkv_bias && pythia.mlp_bias);
}

TEST(HfConfig, LearnedPositionsEndRotaryGetNote) {
  for (const char* family : {"gpt2", "opt", "bert"}) {
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
TEST(HfConfig, WrittenConfigReadsBack) {
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
          R"({"model_type": "stablelm", "num_key_value_heads": 8, "partial_rotary_factor": 0.5,
               "use_parallel_residual": true, "use_qkv_bias": true})",
          R"({"model_type": "gpt_neox", "rotary_pct": 0.5, "rotary_emb_base": 5e4,
               "attention_bias": false, "use_parallel_residual": false, "hidden_dropout": 0.1})",
          R"({"model_type": "opt", "hidden_size": 96, "ffn_dim": 200, "dropout": 0.2,
               "activation_function": "gelu", "enable_bias": false, "init_std": 0.006})",
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
    EXPECT_EQ(after.parallel_residual, before.parallel_residual);
    EXPECT_EQ(after.initializer_range, before.initializer_range);
    EXPECT_EQ(after.activation, before.activation);
    EXPECT_EQ(to_json(after), to_json(before));
  }
}

TEST(HfConfig, WritesTransformersConfigWithUnknownKeys) {
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

TEST(HfConfig, OtherFamilyOrVersionIsNotATypo) {
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
                "supported: gpt2, opt, bert, llama, qwen2, mistral, qwen3, olmo2, phi3, "
                "gemma3_text, stablelm, gpt_neox");
    }
  }
}

}  // namespace
}  // namespace snug

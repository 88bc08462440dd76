// What is wrong in a config.json, and what is right but not supported: each by its name.
#include <gtest/gtest.h>

#include "formats/hf_config.h"
#include "formats/testing.h"

namespace snug {
namespace {

// Each row is refused with a sentence that names the field.
struct Refused {
  const char* json;
  const char* says;
};

class HfConfigRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(HfConfigRefuses, ByName) {
  testing::expect_error(ExitCode::bad_input, GetParam().says,
                        [&] { parse_hf_config(GetParam().json, "config.json"); });
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
                "rope_parameters.sliding_attention.rope_type is 'linear'"},
        Refused{R"({"model_type": "stablelm", "qk_layernorm": true})", "qk_layernorm is true"},
        Refused{R"({"model_type": "stablelm", "hidden_dropout": 0.1})", "hidden_dropout is not 0"},
        Refused{R"({"model_type": "stablelm", "partial_rotary_factor": 1.5})",
                "partial_rotary_factor is 1.5, more than a whole head"},
        Refused{R"({"model_type": "stablelm", "hidden_size": 12, "num_attention_heads": 1,
                    "num_key_value_heads": 1, "partial_rotary_factor": 0.3})",
                "partial_rotary_factor is 0.3: 3 of a head's 12 elements turn"},
        Refused{R"({"model_type": "gpt_neox", "rotary_pct": 0.01})",
                "rotary_pct is 0.01: 0 of a head's 96 elements turn"},
        Refused{R"({"model_type": "gpt_neox", "rotary_pct": 0.5,
                    "rope_parameters": {"partial_rotary_factor": 0.25}})",
                "rope_parameters.partial_rotary_factor is 0.25 but rotary_pct is 0.5"},
        Refused{R"({"model_type": "gpt_neox", "rotary_emb_base": 5,
                    "rope_parameters": {"rope_theta": 6}})",
                "rope_parameters.rope_theta is 6 but rotary_emb_base is 5"},
        Refused{R"({"model_type": "gpt_neox", "hidden_act": "silu"})", "hidden_act is 'silu'"}));

}  // namespace
}  // namespace snug

// Writing config.json: the fields that Snug knows, over those of the file that the model was read
// from.
#include "formats/hf_config.h"
#include "formats/hf_fields.h"

namespace snug {
namespace {

std::string_view architecture_of(std::string_view model_type) {
  if (model_type == "gpt2") return "GPT2LMHeadModel";
  if (model_type == "qwen2") return "Qwen2ForCausalLM";
  if (model_type == "qwen3") return "Qwen3ForCausalLM";
  if (model_type == "olmo2") return "Olmo2ForCausalLM";
  if (model_type == "phi3") return "Phi3ForCausalLM";
  if (model_type == "gemma3_text") return "Gemma3ForCausalLM";
  if (model_type == "stablelm") return "StableLmForCausalLM";
  if (model_type == "gpt_neox") return "GPTNeoXForCausalLM";
  if (model_type == "opt") return "OPTForCausalLM";
  if (model_type == "mistral") return "MistralForCausalLM";
  if (model_type == "bert") return "BertForMaskedLM";
  return "LlamaForCausalLM";
}

// Sets `key`, or the other spelling of it where the file uses that one.
template <typename T>
void set(HfJson& json, const char* key, const char* other, const T& value) {
  json[json.contains(other) && !json.contains(key) ? other : key] = value;
}

void write_gpt2(const HfConfig& c, HfJson& json) {
  set(json, "n_embd", "hidden_size", c.hidden_size);
  set(json, "n_layer", "num_hidden_layers", c.num_hidden_layers);
  set(json, "n_head", "num_attention_heads", c.num_attention_heads);
  set(json, "n_positions", "max_position_embeddings", c.max_position_embeddings);
  json["n_inner"] = c.intermediate_size;
  json["activation_function"] = c.hidden_act;
  json["layer_norm_epsilon"] = c.norm_eps;
  json["embd_pdrop"] = c.embedding_dropout;
  json["attn_pdrop"] = c.attention_dropout;
  json["resid_pdrop"] = c.residual_dropout;
}

void write_opt(const HfConfig& c, HfJson& json) {
  json["hidden_size"] = json["word_embed_proj_dim"] = c.hidden_size;
  json["ffn_dim"] = c.intermediate_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json["activation_function"] = c.hidden_act;
  json["enable_bias"] = c.mlp_bias;
  json["dropout"] = c.residual_dropout;
  json["attention_dropout"] = c.attention_dropout;
  json["init_std"] = c.initializer_range;
}

void write_sizes(const HfConfig& c, HfJson& json) {
  json["hidden_size"] = c.hidden_size;
  json["intermediate_size"] = c.intermediate_size;
  json["num_hidden_layers"] = c.num_hidden_layers;
  json["num_attention_heads"] = c.num_attention_heads;
  json["max_position_embeddings"] = c.max_position_embeddings;
  json[c.model_type == "gemma3_text" ? "hidden_activation" : "hidden_act"] = c.hidden_act;
}

void write_bert(const HfConfig& c, HfJson& json) {
  write_sizes(c, json);
  json["type_vocab_size"] = c.type_vocab_size;
  json["layer_norm_eps"] = c.norm_eps;
  json["hidden_dropout_prob"] = c.residual_dropout;
  json["attention_probs_dropout_prob"] = c.attention_dropout;
}

HfJson rope_scaling(const HfRope& rope) {
  switch (rope.kind) {
    case HfRope::Kind::standard:
      return nullptr;
    case HfRope::Kind::linear:
      return {{"rope_type", "linear"}, {"factor", rope.factor}};
    case HfRope::Kind::llama3:
      break;
  }
  return {{"rope_type", "llama3"},
          {"factor", rope.factor},
          {"low_freq_factor", rope.low_freq_factor},
          {"high_freq_factor", rope.high_freq_factor},
          {"original_max_position_embeddings", rope.original_positions}};
}

// Qwen's windows are said by max_window_layers too, which stays as it was.
void write_windows(const HfConfig& c, HfJson& json) {
  const bool gemma = c.model_type == "gemma3_text";
  if (gemma || c.model_type == "mistral" || c.model_type == "phi3") {
    json["sliding_window"] = c.sliding_window ? HfJson(*c.sliding_window) : HfJson(nullptr);
  }
  const bool qwen = c.model_type == "qwen2" || c.model_type == "qwen3";
  if (!gemma && !(qwen && json.contains("layer_types"))) return;
  HfJson types = HfJson::array();
  for (int64_t i = 0; i < c.num_hidden_layers; ++i) {
    types.push_back(c.has_window(i) ? "sliding_attention" : "full_attention");
  }
  json["layer_types"] = std::move(types);
}

// Both spellings, which agree: transformers 4 reads rope_theta and rope_scaling, 5 reads
// rope_parameters.
void write_rope(const HfConfig& c, HfJson& json) {
  const HfJson scaling = rope_scaling(c.rope);
  HfJson parameters = scaling.is_null() ? HfJson{{"rope_type", "default"}} : scaling;
  parameters["rope_theta"] = c.rope.theta;
  if (c.model_type == "gpt_neox") {
    json["rotary_emb_base"] = c.rope.theta;
    json["rotary_pct"] = c.rope.part;
  } else {
    json["rope_theta"] = c.rope.theta;
  }
  if (c.model_type == "stablelm") json["partial_rotary_factor"] = c.rope.part;
  if (c.rope.part != 1) parameters["partial_rotary_factor"] = c.rope.part;
  json["rope_scaling"] = scaling;
  if (c.model_type != "gemma3_text") {
    json["rope_parameters"] = parameters;
    return;
  }
  json["rope_local_base_freq"] = c.local_theta;
  json["rope_parameters"] = {
      {"full_attention", parameters},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", c.local_theta}}}};
}

void write_partial(const HfConfig& c, HfJson& json) {
  const bool neox = c.model_type == "gpt_neox";
  write_sizes(c, json);
  if (!neox) json["num_key_value_heads"] = c.num_key_value_heads;
  json["layer_norm_eps"] = c.norm_eps;
  json["use_parallel_residual"] = c.parallel_residual;
  json["attention_dropout"] = c.attention_dropout;
  if (neox) json["hidden_dropout"] = c.residual_dropout;
  json[neox ? "attention_bias" : "use_qkv_bias"] = c.qkv_bias;
  write_rope(c, json);
}

void write_rotary(const HfConfig& c, HfJson& json) {
  write_sizes(c, json);
  json["num_key_value_heads"] = c.num_key_value_heads;
  json["head_dim"] = c.head_dim;
  json["rms_norm_eps"] = c.norm_eps;
  json["attention_dropout"] = c.attention_dropout;
  if (c.model_type != "qwen2" && c.model_type != "mistral" && c.model_type != "phi3") {
    json["attention_bias"] = c.qkv_bias;
  }
  if (c.model_type == "llama") json["mlp_bias"] = c.mlp_bias;
  if (c.model_type == "phi3") json["resid_pdrop"] = c.residual_dropout;
  if (c.model_type == "gemma3_text") json["query_pre_attn_scalar"] = c.query_scalar;
  write_windows(c, json);
  write_rope(c, json);
}

const char* torch_name(Dtype dtype) {
  if (dtype == Dtype::bf16) return "bfloat16";
  return dtype == Dtype::f16 ? "float16" : "float32";
}

}  // namespace

std::string to_json(const HfConfig& c, Dtype weights) {
  HfJson json = parse_json_object(c.original.empty() ? "{}" : c.original, "config.json");
  json["architectures"] = HfJson::array({architecture_of(c.model_type)});
  json["model_type"] = c.model_type;
  json["dtype"] = json["torch_dtype"] = torch_name(weights);
  json["vocab_size"] = c.vocab_size;
  if (c.model_type != "opt") json["initializer_range"] = c.initializer_range;
  json["tie_word_embeddings"] = c.tie_word_embeddings;
  if (c.model_type == "gpt2") {
    write_gpt2(c, json);
  } else if (c.model_type == "opt") {
    write_opt(c, json);
  } else if (c.model_type == "bert") {
    write_bert(c, json);
  } else if (c.model_type == "stablelm" || c.model_type == "gpt_neox") {
    write_partial(c, json);
  } else {
    write_rotary(c, json);
  }
  return json.dump(2) + "\n";
}

}  // namespace snug

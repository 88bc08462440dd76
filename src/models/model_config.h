// A model as the forward pass sees it: sizes and choices, whatever family they came from, and the
// names that its tensors have in a checkpoint. A file per family (gpt2.cpp, llama.cpp, gemma3.cpp)
// says how a config.json becomes one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "formats/hf_config.h"
#include "ops/attention/rope.h"

namespace snug {

enum class NormKind : uint8_t { layer_norm, rms_norm };
// Where norms are: of what a part reads (most families), of its sum with the residual stream (BERT),
// of what it adds to the stream (OLMo 2), or of both what it reads and what it adds (Gemma).
enum class NormPlace : uint8_t { before, after_sum, after_part, around_part };
// Of queries and keys, before their positions: none, each head alone, or all heads of a token.
enum class QkNormKind : uint8_t { none, head, token };
enum class Activation : uint8_t { gelu, gelu_tanh, relu, swiglu, geglu };
enum class Positions : uint8_t { learned, rope };

// Checkpoint tensors without their ".weight" and ".bias". Those of a layer begin with
// "<layer>.<i>."; a packed parameter names its parts in the order in which they are packed.
struct TensorNames {
  std::string embedding, positions, types, embedding_norm;
  std::string layer;
  std::vector<std::string> qkv;     // three, or one that is packed in the checkpoint itself
  std::vector<std::string> mlp_in;  // gate and up, or one
  std::string attention_out, attention_norm, mlp_out;
  std::string mlp_norm;  // none: both parts of a layer read one norm
  std::string q_norm, k_norm;
  std::string attention_part_norm, mlp_part_norm;  // of what the parts add
  std::string final_norm;
  std::string transform, transform_norm, head_bias;  // a masked-language head
  std::string head;                                  // not in the checkpoint when tied
};

struct ModelConfig {
  std::string name;
  std::string family;
  bool transformer = true;  // else an MLP on rows of features: no tokens, sequences or attention

  int64_t L = 0;         // layers
  int64_t C = 0;         // width
  int64_t H = 0;         // attention heads
  int64_t K = 0;         // key and value heads
  int64_t D = 0;         // size of a head
  int64_t F = 0;         // inner width of the MLP
  int64_t V = 0;         // vocabulary
  int64_t padding = -1;  // >= 0: the token whose embedding the lookup does not train
  int64_t max_positions = 0;
  int64_t first_position = 0;  // rows of a learned table before that of the first position
  int64_t types = 0;           // > 0: token-type embeddings

  NormKind norm = NormKind::rms_norm;
  double norm_eps = 1e-6;
  double norm_offset = 0;  // is added to the weights of norms
  NormPlace norm_place = NormPlace::before;
  bool parallel = false;  // both parts of a layer read the stream as it enters it (GPT-NeoX)
  QkNormKind qk_norm = QkNormKind::none;
  Activation activation = Activation::swiglu;
  Positions positions = Positions::rope;
  double rope_theta = 10000;
  int64_t rotary_dim = 0;  // elements of a head that turn; 0: all
  ops::RopeScaling rope_scaling;
  double local_theta = 0;  // > 0: the base of layers with a window, which are not scaled
  bool causal = true;
  int64_t window = 0;               // > 0: tokens that a query of some layers sees at most
  std::vector<bool> window_layers;  // which, over and over; empty: all
  double score_scale = 0;           // 0: 1 / sqrt(D)
  double embedding_scale = 1;
  bool masked_head = false;  // dense, activation and norm before the head, and a bias on it
  bool tied = false;         // the head is the embedding table
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  bool weight_in_out = false;  // linear weights are stored [in, out]
  bool qkv_by_head = false;    // the checkpoint packs q, k and v of one head after another

  double init_std = 0.02;
  double residual_init_std = 0.02;  // of the projections that write to the residual stream
  double embedding_dropout = 0;
  double attention_dropout = 0;
  double residual_dropout = 0;

  std::string layer_name;  // what layers are called in programs: "h", "layers"
  TensorNames names;

  bool gated() const { return activation == Activation::swiglu || activation == Activation::geglu; }
  bool norms_parts() const {
    return norm_place == NormPlace::after_part || norm_place == NormPlace::around_part;
  }
  bool has_window(int64_t layer) const {
    if (window == 0 || window_layers.empty()) return window > 0;
    return window_layers[static_cast<size_t>(layer) % window_layers.size()];
  }

  // Decoder layers of rms norm, rotary attention and swiglu, and nothing else.
  bool like_llama() const {
    return transformer && causal && norm == NormKind::rms_norm && positions == Positions::rope &&
           activation == Activation::swiglu && norm_place == NormPlace::before &&
           qk_norm == QkNormKind::none && window == 0;
  }
};

// What all families read in the same way; each then adds its own.
ModelConfig common_config(const HfConfig& hf);

ModelConfig gpt2_config(const HfConfig& hf);
ModelConfig llama_config(const HfConfig& hf);  // llama, qwen2, mistral
ModelConfig qwen3_config(const HfConfig& hf);
ModelConfig olmo2_config(const HfConfig& hf);
ModelConfig phi3_config(const HfConfig& hf);
ModelConfig gemma3_config(const HfConfig& hf);
ModelConfig stablelm_config(const HfConfig& hf);
ModelConfig gpt_neox_config(const HfConfig& hf);
ModelConfig opt_config(const HfConfig& hf);
ModelConfig bert_config(const HfConfig& hf);

// By hf.model_type.
ModelConfig model_config(const HfConfig& hf);

}  // namespace snug

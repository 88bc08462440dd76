// What a transformer is made of: an embedding, stacks of blocks, and a head. A family
// (models/families) chooses the parts; transformer.h builds them.
//
// A tensor is named as in a checkpoint, without ".weight" and ".bias". One packed parameter may have
// several names, in the order in which they are packed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/rotary/rope.h"

namespace snug {
namespace parts {

struct Norm {
  enum class Kind : uint8_t { layer_norm, rms_norm } kind = Kind::rms_norm;
  double eps = 1e-6;
  double offset = 0;  // is added to the weights
};

struct Embedding {
  int64_t V = 0, C = 0;        // vocabulary, width
  int64_t padding = -1;        // >= 0: the token whose embedding the lookup does not train
  int64_t positions = 0;       // > 0: learned, so many
  int64_t first_position = 0;  // rows of their table before that of the first position
  int64_t types = 0;           // > 0: token types
  double scale = 1;
  double init_std = 0.02;
  double dropout = 0;
  Norm norm;
  std::string tokens_tensor, positions_tensor, types_tensor;
  std::string norm_tensor;  // none: no norm
};

// Rotary positions of queries and keys.
struct Rope {
  double theta = 10000;
  int64_t dim = 0;  // elements of a head that turn; 0: all
  ops::RopeScaling scaling;
};

struct Attention {
  // Of queries and keys, before their positions: none, each head alone, or all heads of a token.
  enum class QkNorm : uint8_t { none, head, token };

  int64_t H = 0, K = 0, D = 0;  // heads, key and value heads, size of a head
  bool causal = true;
  int64_t window = 0;        // > 0: tokens that a query sees at most
  double score_scale = 0;    // 0: 1 / sqrt(D)
  std::optional<Rope> rope;  // none: the embedding has positions
  QkNorm qk_norm = QkNorm::none;
  bool qkv_bias = false, out_bias = false;
  bool qkv_by_head = false;  // the checkpoint packs q, k and v of one head after another
  double dropout = 0;
  std::vector<std::string> qkv_tensors;  // three, or one that is packed in the checkpoint itself
  std::string out_tensor, q_norm_tensor, k_norm_tensor;
};

enum class Activation : uint8_t { gelu, gelu_tanh, relu, swiglu, geglu };

struct Mlp {
  int64_t F = 0;  // inner width
  Activation activation = Activation::swiglu;
  bool bias = false;
  std::vector<std::string> in_tensors;  // gate and up, or one
  std::string out_tensor;

  bool gated() const { return activation == Activation::swiglu || activation == Activation::geglu; }
};

// Attention and an MLP, each added to the residual stream. Tensors are named within the layer.
struct Block {
  // Where norms are: of what a part reads (most families), of its sum with the residual stream
  // (BERT), of what it adds to the stream (OLMo 2), or of both what it reads and what it adds
  // (Gemma).
  enum class NormPlace : uint8_t { before, after_sum, after_part, around_part };

  Attention attention;
  Mlp mlp;
  Norm norm;
  NormPlace norm_place = NormPlace::before;
  bool parallel = false;  // both parts read the stream as it enters the block (GPT-NeoX)
  double residual_dropout = 0;
  bool weight_in_out = false;  // linear weights are stored [in, out]
  double init_std = 0.02;
  double residual_init_std = 0.02;  // of the projections that write to the residual stream
  std::string attention_norm_tensor;
  std::string mlp_norm_tensor;                                   // none: both parts read one norm
  std::string attention_part_norm_tensor, mlp_part_norm_tensor;  // of what the parts add

  bool norms_parts() const {
    return norm_place == NormPlace::after_part || norm_place == NormPlace::around_part;
  }
};

struct Stack {
  std::string name;      // of its layers in programs: "h", "layers"
  std::string tensors;   // of its layers in a checkpoint: tensors of layer i begin "<tensors>.<i>."
  int64_t L = 0, C = 0;  // layers, width
  std::vector<Block> blocks;  // of the first layers, and again of those after them
  Norm norm;                  // of what leaves the stack
  std::string norm_tensor;    // none: no norm

  const Block& block(int64_t layer) const {
    return blocks[static_cast<size_t>(layer) % blocks.size()];
  }
};

struct Head {
  // A masked-language head: dense, activation and norm before the vocabulary, and a bias on it.
  struct Transform {
    Activation activation = Activation::gelu;
    Norm norm;
    std::string dense_tensor, norm_tensor, bias_tensor;
  };
  bool tied = false;  // the head is the embedding table
  double init_std = 0.02;
  std::string tensor;  // not in the checkpoint when tied
  std::optional<Transform> transform;
};

}  // namespace parts

struct ModelParts {
  std::string family;
  int64_t max_positions = 0;  // that it was made for
  parts::Embedding embedding;
  std::vector<parts::Stack> stacks;  // each reads what the one before it gives
  parts::Head head;
};

}  // namespace snug

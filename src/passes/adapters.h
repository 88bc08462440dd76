// Low-rank adapters (LoRA): what --lora asks for. Every parameter of the model is frozen, and beside
// each chosen linear layer W comes a pair of small ones: y = x W^T + (alpha / r) (x A^T) B^T.
//
//   parse_adapters("r=16,alpha=32,targets=qkvo,dropout=0.05")
//
// The pass that adds them is `adapters` (passes/passes.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

struct Adapters {
  int64_t rank = 0;  // 0: none, and the model itself is trained
  double alpha = 0;
  double dropout = 0;  // of what A reads
  // "all" linear layers, "qkvo" (those of attention), or the last words of their names in a
  // checkpoint: "q_proj".
  std::vector<std::string> targets;

  bool on() const { return rank > 0; }
  double scale() const { return alpha / static_cast<double>(rank); }
  friend bool operator==(const Adapters&, const Adapters&) = default;
};

// Throws a usage error for anything else; "none" is none.
Adapters parse_adapters(std::string_view text);
std::string text(const Adapters& adapters);

// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view layer_word(std::string_view tensor);

// What PEFT calls the two tensors beside a weight, "model.layers.0.self_attn.q_proj.weight".
std::string lora_tensor(std::string_view weight, std::string_view which);
// The weight's name, of what lora_tensor makes of it; empty where it is something else.
std::string weight_of_lora_tensor(std::string_view tensor, std::string_view which);
// "q_proj" of what lora_tensor makes.
std::string_view target_of_lora_tensor(std::string_view tensor);

}  // namespace snug

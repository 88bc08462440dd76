// What PEFT calls the tensors of LoRA adapters.
//
//   lora_tensor("model.layers.0.self_attn.q_proj.weight", "lora_A");
//   // base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight
#pragma once

#include <string>
#include <string_view>

namespace snug {

// "q_proj" of "model.layers.0.self_attn.q_proj.weight".
std::string_view layer_word(std::string_view tensor);
// "model.layers.0.self_attn.q_proj" of it.
std::string_view without_weight(std::string_view tensor);

// One of the two tensors of a weight's adapter, lora_A or lora_B.
std::string lora_tensor(std::string_view weight, std::string_view which);
// The weight's name, of what lora_tensor makes of it; empty where it is something else.
std::string weight_of_lora_tensor(std::string_view tensor, std::string_view which);
// "q_proj" of what lora_tensor makes.
std::string_view target_of_lora_tensor(std::string_view tensor);

}  // namespace snug

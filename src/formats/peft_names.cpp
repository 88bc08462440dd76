#include "formats/peft_names.h"

#include <fmt/format.h>

namespace snug {
namespace {

constexpr std::string_view kWeight = ".weight";
constexpr std::string_view kPeftBase = "base_model.model.";  // before the model's own names

}  // namespace

std::string_view without_weight(std::string_view tensor) {
  return tensor.ends_with(kWeight) ? tensor.substr(0, tensor.size() - kWeight.size()) : tensor;
}

std::string_view layer_word(std::string_view tensor) {
  const std::string_view name = without_weight(tensor);
  return name.substr(name.rfind('.') + 1);
}

std::string lora_tensor(std::string_view weight, std::string_view which) {
  return fmt::format("{}{}.{}{}", kPeftBase, without_weight(weight), which, kWeight);
}

std::string weight_of_lora_tensor(std::string_view tensor, std::string_view which) {
  const std::string ending = fmt::format(".{}{}", which, kWeight);
  if (!tensor.starts_with(kPeftBase) || !tensor.ends_with(ending)) return "";
  tensor.remove_prefix(kPeftBase.size());
  tensor.remove_suffix(ending.size());
  return std::string(tensor) + std::string(kWeight);
}

std::string_view target_of_lora_tensor(std::string_view tensor) {
  const std::string_view pair = without_weight(tensor);
  return layer_word(pair.substr(0, pair.rfind('.')));
}

}  // namespace snug

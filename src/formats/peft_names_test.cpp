#include "formats/peft_names.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

constexpr const char* kWeight = "model.layers.1.self_attn.k_proj.weight";

TEST(PeftNames, PrefixTheWeightName) {
  const std::string a = lora_tensor(kWeight, "lora_A"), b = lora_tensor(kWeight, "lora_B");
  EXPECT_EQ(a, "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight");
  EXPECT_EQ(weight_of_lora_tensor(a, "lora_A"), kWeight);
  EXPECT_EQ(target_of_lora_tensor(b), "k_proj");
}

TEST(PeftNames, OthersBelongToNoWeight) {
  EXPECT_EQ(weight_of_lora_tensor(lora_tensor(kWeight, "lora_A"), "lora_B"), "");
  EXPECT_EQ(weight_of_lora_tensor("model.layers.1.lora_A.weight", "lora_A"), "");
}

TEST(PeftNames, LayersAreCalledByTheirLastWord) {
  EXPECT_EQ(layer_word(kWeight), "k_proj");
  EXPECT_EQ(layer_word("lm_head.weight"), "lm_head");
  EXPECT_EQ(without_weight(kWeight), "model.layers.1.self_attn.k_proj");
  EXPECT_EQ(without_weight("mlp.bias"), "mlp.bias");
}

}  // namespace
}  // namespace snug

#include "formats/peft_config.h"

#include <gmock/gmock.h>

#include "formats/testing.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

PeftConfig parse_peft(std::string_view text) {
  return PeftConfig::parse(text, "a/adapter_config.json");
}

void expect_peft_refused(std::string_view text, std::string_view sentence) {
  testing::expect_error(ExitCode::bad_input, sentence, [&] { parse_peft(text); });
}

TEST(PeftConfig, ReadsConfigsOfPeft) {
  const PeftConfig c = parse_peft(R"({
    "alpha_pattern": {}, "auto_mapping": null, "base_model_name_or_path": "Qwen/Qwen2.5-7B",
    "bias": "none", "fan_in_fan_out": false, "inference_mode": true, "init_lora_weights": true,
    "layers_to_transform": null, "loftq_config": {}, "lora_alpha": 32, "lora_dropout": 0.05,
    "modules_to_save": null, "peft_type": "LORA", "r": 16, "rank_pattern": {},
    "target_modules": ["v_proj", "q_proj"], "task_type": "CAUSAL_LM", "use_rslora": false})");
  EXPECT_EQ(c.rank, 16);
  EXPECT_EQ(c.alpha, 32);
  EXPECT_EQ(c.dropout, 0.05);
  EXPECT_THAT(c.targets, ElementsAre("v_proj", "q_proj"));
  EXPECT_EQ(c.base, "Qwen/Qwen2.5-7B");
}

TEST(PeftConfig, ConfigReadsBack) {
  const PeftConfig c{
      .rank = 4, .alpha = 2.5, .targets = {"c_attn"}, .base = "gpt2", .in_out = true};
  const PeftConfig again = parse_peft(c.json());
  EXPECT_EQ(again.rank, 4);
  EXPECT_EQ(again.alpha, 2.5);
  EXPECT_THAT(again.targets, ElementsAre("c_attn"));
  EXPECT_TRUE(again.in_out);
}

TEST(PeftConfig, OtherKindsAreNamed) {
  expect_peft_refused(R"({"peft_type": "IA3", "r": 4})", "peft_type is 'IA3': only LORA");
  expect_peft_refused(R"({"r": 4, "use_dora": true})", "use_dora is true, which is not understood");
  expect_peft_refused(R"({"r": 4, "modules_to_save": ["lm_head"]})",
                      R"(modules_to_save is ["lm_head"])");
  expect_peft_refused(R"({"r": 4, "bias": "all"})", "bias is 'all'");
  expect_peft_refused(R"({"r": 4, "target_modules": ".*q"})", "is the pattern '.*q'");
}

TEST(PeftConfig, DamagedOnesAreRefused) {
  expect_peft_refused("{", "a/adapter_config.json");
  expect_peft_refused("[]", "a/adapter_config.json");
  expect_peft_refused(R"({"target_modules": ["q"]})", "r is missing");
  expect_peft_refused(R"({"r": 0, "target_modules": ["q"]})", "r is 0");
  expect_peft_refused(R"({"r": 4})", "target_modules is missing");
  expect_peft_refused(R"({"r": 4, "target_modules": []})", "target_modules");
  expect_peft_refused(R"({"r": 4, "target_modules": [3]})", "target_modules");
  expect_peft_refused(R"({"r": 4, "lora_alpha": -1, "target_modules": ["q"]})", "lora_alpha");
  expect_peft_refused(R"({"r": 4, "lora_dropout": 1, "target_modules": ["q"]})", "lora_dropout");
}

}  // namespace
}  // namespace snug

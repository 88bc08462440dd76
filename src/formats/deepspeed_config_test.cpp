#include "formats/deepspeed_config.h"

#include <gtest/gtest.h>

#include <set>

#include "formats/testing.h"

namespace snug {
namespace {

DeepSpeedConfig deepspeed(std::string_view text) { return DeepSpeedConfig::parse(text, "ds.json"); }

void expect_no_config(std::string_view text, const std::string& why) {
  SCOPED_TRACE(text);
  testing::expect_error(ExitCode::bad_input, why, [&] { deepspeed(text); });
}

TEST(DeepSpeedConfig, UsesDefaultsForMissingOrAutoValues) {
  const DeepSpeedConfig config = deepspeed(
      R"({"zero_optimization": {"stage": 2, "reduce_bucket_size": "auto"}, "fp16": {"enabled": "auto"}})");
  EXPECT_EQ(config.whole("zero_optimization.stage"), 2);
  EXPECT_EQ(config.whole("zero_optimization.reduce_bucket_size"), 500'000'000);
  EXPECT_TRUE(config.is_automatic("zero_optimization.reduce_bucket_size"));
  EXPECT_FALSE(config.has("zero_optimization.reduce_bucket_size"));
  EXPECT_FALSE(config.flag("fp16.enabled"));
  EXPECT_TRUE(config.flag("zero_optimization.contiguous_gradients"));
  EXPECT_EQ(config.text("zero_optimization.offload_param.device"), "none");
  EXPECT_EQ(config.number("optimizer.params.lr"), 1e-3);
}

TEST(DeepSpeedConfig, ReadsTypesAsDeepSpeedDoes) {
  const DeepSpeedConfig config = deepspeed(
      R"({"zero_optimization": {"stage": "3", "sub_group_size": 5e8, "overlap_comm": "yes",
          "offload_param": null}, "fp16": {"enabled": 1}, "data_types": {"grad_accum_dtype": "bfloat16"}})");
  EXPECT_EQ(config.whole("zero_optimization.stage"), 3);
  EXPECT_EQ(config.whole("zero_optimization.sub_group_size"), 500'000'000);
  EXPECT_TRUE(config.flag("zero_optimization.overlap_comm"));
  EXPECT_TRUE(config.flag("fp16.enabled"));
  EXPECT_EQ(config.text("data_types.grad_accum_dtype"), "bf16");
}

TEST(DeepSpeedConfig, AcceptsOldAndShortNames) {
  EXPECT_EQ(deepspeed(R"({"zero_optimization": {"max_live_parameters": 7}})")
                .whole("zero_optimization.stage3_max_live_parameters"),
            7);
  EXPECT_TRUE(deepspeed(R"({"bfloat16": {"enabled": true}})").flag("bf16.enabled"));
  EXPECT_EQ(deepspeed(R"({"zero_optimization": true})").whole("zero_optimization.stage"), 1);
  expect_no_config(R"({"bf16": {}, "bfloat16": {}})", "bfloat16 is another name of bf16");
  expect_no_config(
      R"({"zero_optimization": {"stage3_max_live_parameters": 1, "max_live_parameters": 1}})",
      "is another name of zero_optimization.stage3_max_live_parameters");
}

TEST(DeepSpeedConfig, RefusesUnknownKeysAsDeepSpeed) {
  expect_no_config(R"({"zero_optimization": {"stag": 1}})",
                   "zero_optimization.stag is no key of DeepSpeed - did you mean 'stage'?");
  expect_no_config(R"({"fp16": {"enable": true}})", "did you mean 'enabled'?");
  expect_no_config(R"({"bf16": {"loss_scale": 0}})", "bf16.loss_scale is no key");
  expect_no_config(R"({"zero_optimization": {"offload_param": {"path": "x"}}})", "is no key");
  expect_no_config(R"({"optimizer": {"params": {"learning_rate": 1}}})", "is no parameter");
  for (const char* block : {"", "aio", "activation_checkpointing", "flops_profiler"}) {
    SCOPED_TRACE(block);
    const std::string inner = R"({"unheard_of": 1})";
    const DeepSpeedConfig config =
        deepspeed(*block == '\0' ? inner : fmt::format(R"({{"{}": {}}})", block, inner));
    ASSERT_EQ(config.entries().size(), 1U);
    EXPECT_EQ(config.entries()[0].key, nullptr) << "passed over";
  }
}

TEST(DeepSpeedConfig, RefusesWrongTypesWithTheKey) {
  expect_no_config(R"({"zero_optimization": {"stage": 4}})", "ZeRO's stages are 0, 1, 2 and 3");
  expect_no_config(R"({"zero_optimization": {"stage": 1.5}})", "stage is 1.5 and must be a whole");
  expect_no_config(R"({"zero_optimization": {"stage": null}})", "stage is null and must be");
  expect_no_config(R"({"zero_optimization": {"reduce_bucket_size": -1}})", "not be negative");
  expect_no_config(R"({"zero_optimization": {"overlap_comm": "maybe"}})", "true or false");
  expect_no_config(R"({"zero_optimization": {"offload_param": {"device": "gpu"}}})",
                   "offload_param.device is \"gpu\" and must be none, cpu or nvme");
  expect_no_config(R"({"zero_optimization": 2})", "where DeepSpeed has a block");
  expect_no_config(R"({"train_batch_size": "many"})", "train_batch_size is \"many\"");
  expect_no_config(R"({"train_batch_size": 1e300})", "must be a whole number");
  expect_no_config(R"({"gradient_clipping": [1]})", "must be a number");
  expect_no_config(R"({"optimizer": {"params": {"betas": [0.9]}}})", "a list of two numbers");
  expect_no_config(R"({"train_batch_size": 1, "train_batch_size": 2})", "is there twice");
  expect_no_config(R"({"zero_optimization": {"cpu_offload": true, "offload_optimizer": {}}})",
                   "cpu_offload is deprecated, and offload_optimizer, which replaces it");
}

TEST(DeepSpeedConfig, TableHasEveryKeyOnceWithItsEffect) {
  std::set<std::string> paths;
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    EXPECT_TRUE(paths.insert(key.path()).second) << key.path();
    EXPECT_FALSE(key.here.empty()) << key.path();
    EXPECT_LE(key.here.size(), 90U) << key.path();
  }
}

}  // namespace
}  // namespace snug

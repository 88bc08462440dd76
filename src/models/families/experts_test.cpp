#include "models/families/experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/families/hf_config.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

ExpertsCount count(const char* model_type, const char* text) {
  const OrderedJson json = parse_json_object(text, "config.json");
  return count_experts(JsonFields(json, "config.json"), model_type);
}

// As transformers counts them, with the share of the experts that a token meets.
TEST(Experts, CountsPublishedModels) {
  EXPECT_EQ(count("mixtral", R"({"vocab_size": 32000})"),
            (ExpertsCount{46'702'792'704, 12'879'925'248}));
  EXPECT_EQ(count("qwen3_moe", R"({"head_dim": 128, "num_hidden_layers": 48})"),
            (ExpertsCount{30'532'122'624, 3'353'032'704}));
  EXPECT_EQ(count("qwen2_moe", "{}"), (ExpertsCount{14'315'784'192, 2'689'173'504}));
  EXPECT_EQ(count("olmoe", R"({"intermediate_size": 1024})"),
            (ExpertsCount{6'919'161'856, 1'282'017'280}));
  EXPECT_EQ(count("deepseek_v3", "{}"), (ExpertsCount{671'026'404'352, 37'552'282'624}));
  EXPECT_EQ(count("deepseek_v2", R"({"vocab_size": 102400, "hidden_size": 2048,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "num_hidden_layers": 27,
      "num_attention_heads": 16, "n_shared_experts": 2, "n_routed_experts": 64,
      "q_lora_rank": null, "first_k_dense_replace": 1})"),
            (ExpertsCount{15'706'484'224, 2'661'150'208}));
}

TEST(Experts, AreRefusedWithTheirNeeds) {
  try {
    parse_hf_config(R"({"model_type": "mixtral"})", "config.json");
    ADD_FAILURE() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::bad_input);
    EXPECT_THAT(e.what(), HasSubstr("model_type is 'mixtral', a mixture of experts"));
    EXPECT_THAT(e.hint(), HasSubstr("46,702,792,704 parameters, 12,879,925,248 of them active"));
    EXPECT_THAT(e.hint(), HasSubstr("GiB in bf16"));
  }
}

TEST(Experts, RefusesInvalidModels) {
  EXPECT_THROW(count("mixtral", R"({"num_experts_per_tok": 9})"), Error);
  EXPECT_THROW(count("qwen3_moe", R"({"moe_intermediate_size": 0})"), Error);
  EXPECT_THROW(count("mixtral", R"({"hidden_size": 1048576, "intermediate_size": 8388608,
                                     "num_local_experts": 65536})"),
               Error);
}

}  // namespace
}  // namespace snug

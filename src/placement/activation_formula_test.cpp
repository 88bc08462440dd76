// What a GPT layer keeps, counted from the program, against the published formula: zero bytes of
// residual.
#include "placement/activation_formula.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "placement/plan.h"

namespace snug {
namespace {

constexpr int64_t kLayers = 3;

MemoryBreakdown gpt_account(const GptLayer& p) {
  const std::string json = fmt::format(
      R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": {}, "n_head": {}, "n_positions": {},
          "vocab_size": 311, "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1}})",
      kLayers, p.h, p.a, p.s);
  const Model model = Model::from_config(parse_hf_config(json, "test"), "gpt");
  const BuildOptions options{.batch = p.b, .seq = p.s, .attention = ops::AttentionKind::standard};
  return make_plan("gpt", model.forward(options), {}).memory;
}

TEST(ActivationFormula, PlannerKeepsFormulaBytes) {
  for (const GptLayer& p : {GptLayer{64, 2, 96, 4}, GptLayer{128, 1, 64, 8}, GptLayer{33, 3, 40, 5},
                            GptLayer{1024, 8, 768, 12}, GptLayer{2048, 1, 1600, 25}}) {
    const MemoryBreakdown memory = gpt_account(p);
    int64_t seen = 0;
    for (const LayerBreakdown& layer : memory.layers) {
      if (layer.layer == kNoLayer) continue;
      ++seen;
      const ActivationFormula f = activation_formula(p);
      EXPECT_EQ(layer.kept - f.total(), 0) << "layer " << layer.layer << "\n"
                                           << render_activation_formula(f, layer.kept);
    }
    EXPECT_EQ(seen, kLayers);
  }
}

TEST(ActivationFormula, PublishedTermIsTheKnownOne) {
  const GptLayer p{.s = 2048, .b = 1, .h = 12288, .a = 96};  // GPT-3
  EXPECT_EQ(activation_formula(p).published, 2048LL * 12288 * (34 + 5 * 96 * 2048 / 12288));
}

TEST(ActivationFormula, DifferencesHaveNameAndSign) {
  const ActivationFormula f = activation_formula({.s = 8, .b = 2, .h = 16, .a = 4});
  for (const ActivationTerm& term : f.differences) {
    EXPECT_FALSE(term.name.empty());
    EXPECT_NE(term.bytes, 0);
  }
  const std::string text = render_activation_formula(f, f.total() - 5);
  EXPECT_THAT(text, testing::HasSubstr("published"));
  EXPECT_THAT(text, testing::ContainsRegex("residual +- +5\n"));
}

TEST(ActivationFormula, SixteenBitsWidenNothing) {
  const GptLayer wide{.s = 8, .b = 2, .h = 16, .a = 4};
  GptLayer narrow = wide;
  narrow.element_bytes = 2;
  EXPECT_EQ(activation_formula(wide).differences.size(),
            activation_formula(narrow).differences.size() + 2);
}

}  // namespace
}  // namespace snug

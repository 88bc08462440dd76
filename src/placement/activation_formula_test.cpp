// The published activation bytes of a GPT layer (Korthikanti et al., 2022: sbh(34 + 5as/h) in 16
// bits; GELU MLP of 4h, dropout, standard attention), and every way in which our programs differ
// from it, each a named signed term. LayerBreakdown::kept counts what a program really keeps: the
// two agree to the byte, which checks the planner.
//
//   ActivationFormula f = activation_formula({.s = 1024, .b = 8, .h = 768, .a = 12});
//   memory.layers[1].kept - f.total() == 0
//
// Of the two norm inputs in the formula a layer of ours owns its second and its successor's first:
// the residual sum takes the bytes of the layer's own output. The count is the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>

#include "base/units.h"
#include "models/model.h"
#include "placement/plan.h"

namespace snug {
namespace {

// The paper's letters: sequence, micro-batch, hidden width, attention heads.
struct GptLayer {
  int64_t s = 0, b = 0, h = 0, a = 0;
  int64_t element_bytes = 4;  // of an activation
};

struct ActivationTerm {
  std::string name;
  int64_t bytes = 0;
};

struct ActivationFormula {
  int64_t published = 0;  // sbh(34 + 5as/h)
  std::vector<ActivationTerm> differences;

  int64_t total() const;
};

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t out = 1;
  for (int64_t f : factors) out = checked_mul(out, f, "the activation formula");
  return out;
}

int64_t ActivationFormula::total() const {
  int64_t bytes = published;
  for (const ActivationTerm& term : differences) bytes += term.bytes;
  return bytes;
}

ActivationFormula activation_formula(const GptLayer& l) {
  const int64_t tokens = product({l.s, l.b});
  const int64_t hidden = product({tokens, l.h});       // elements of one [b,s,h]
  const int64_t scores = product({tokens, l.a, l.s});  // elements of one [b,a,s,s]
  const int64_t w = l.element_bytes;

  // The 34: norm inputs 4, norm outputs 4, q, k and v 6, attention's output 2, the MLP's inside 16,
  // two masks of 1 byte. The 5: softmax 2, its dropout's output 2, that dropout's mask 1.
  ActivationFormula f{product({34, hidden}) + product({5, scores}), {}};
  auto differ = [&](std::string name, int64_t bytes) {
    f.differences.push_back({std::move(name), bytes});
  };
  if (w != 2) {
    differ(fmt::format("16 sbh elements of {} bytes, not 2", w), product({16, hidden, w - 2}));
    differ(fmt::format("2 as²b elements of {} bytes, not 2", w), product({2, scores, w - 2}));
  }
  differ("mask after attention: drawn again, not stored", -hidden);
  differ("mask after the MLP: drawn again, not stored", -hidden);
  differ("mask on the softmax: drawn again, not stored", -scores);
  differ("dropped-out softmax: recomputed from the softmax", -product({scores, w}));
  differ("mean and 1/std of both norms, fp32", product({tokens, 2, 2, 4}));
  return f;
}

// The terms, what was counted, and the residual between them.
std::string render_activation_formula(const ActivationFormula& formula, int64_t counted) {
  auto row = [](std::string_view name, int64_t bytes, std::string_view sign) {
    return fmt::format("  {:<56} {} {:>22}\n", name, sign,
                       format_exact(bytes < 0 ? -bytes : bytes));
  };
  std::string out = row("published: sbh(34 + 5as/h), 16 bits", formula.published, " ");
  for (const ActivationTerm& term : formula.differences) {
    out += row(term.name, term.bytes, term.bytes < 0 ? "-" : "+");
  }
  out += row("expected of our program", formula.total(), "=");
  out += row("counted from the program", counted, " ");
  const int64_t residual = counted - formula.total();
  return out + row("residual", residual, residual < 0 ? "-" : " ");
}

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
  EXPECT_THAT(text, ::testing::HasSubstr("published"));
  EXPECT_THAT(text, ::testing::ContainsRegex("residual +- +5\n"));
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

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
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

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

ActivationFormula activation_formula(const GptLayer& layer);

// The terms, what was counted, and the residual between them.
std::string render_activation_formula(const ActivationFormula& formula, int64_t counted);

}  // namespace snug

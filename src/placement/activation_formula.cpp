#include "placement/activation_formula.h"

#include <fmt/format.h>

#include <initializer_list>

#include "base/units.h"

namespace snug {
namespace {

int64_t product(std::initializer_list<int64_t> factors) {
  int64_t out = 1;
  for (int64_t f : factors) out = checked_mul(out, f, "the activation formula");
  return out;
}

}  // namespace

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

}  // namespace snug

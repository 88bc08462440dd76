// Attributes of embedding and embedding_grad. `padding`: the token whose row gets no gradient from
// the lookup; absent: every row does. `scale`: what the table's rows are multiplied by; absent: 1.
// `first_position`, also of embedding_grad_positions: the row of a sample's first token; absent: 0.
//
// Where ranks share the words (and add up what they look up): `first`, the first word of this rank's
// table, of all `words`; words that are not here give zeros. `others_here`: false where another rank adds positions and
// types; their gradient is that of the sum.
#pragma once

#include "base/units.h"
#include "kernels/float_kernels.h"

namespace snug::ops {

constexpr int64_t kNoPadding = -1;  // equals no token

inline int64_t padding_of(const Attrs& attrs) { return attrs.i("padding", kNoPadding); }

inline void set_padding(Attrs& attrs, int64_t padding) {
  if (padding != kNoPadding) attrs.set("padding", padding);
}

inline int64_t first_word(const Attrs& attrs) { return attrs.i("first", 0); }
inline bool others_here(const Attrs& attrs) { return attrs.b("others_here", true); }

// A token's row of a table of `rows`; `rows` itself where the word is not here or has no gradient.
constexpr int32_t row_of_word(int32_t token, int64_t first, int64_t rows, int64_t padding) {
  const int64_t row = token - first;
  return static_cast<int32_t>(row < 0 || row >= rows || token == padding ? rows : row);
}

inline void require_padding(const OpView& op, int64_t rows) {
  if (!op.attrs.has("padding") || op.attrs.has("first")) return;
  const int64_t padding = padding_of(op.attrs);
  op.require(padding >= 0 && padding < rows, "padding token {} is not one of the {} rows", padding,
             rows);
}

// Bytes of the positions of that many tokens, where embedding_grad_positions writes them to scratch:
// what follows them is aligned.
inline int64_t positions_scratch(int64_t tokens) {
  return round_up(checked_mul(tokens, size_of(Dtype::i32), "positions"), 256);
}

inline int64_t first_position(const Attrs& attrs) { return attrs.i("first_position", 0); }

inline void set_first_position(Attrs& attrs, int64_t first) {
  if (first != 0) attrs.set("first_position", first);
}

inline double scale_of(const Attrs& attrs) { return attrs.f("scale", 1); }

// The same in the type of the first input, which it multiplies.
inline float rounded_scale(const KernelArgs& a) {
  return visit_float(a.in(0).type->dtype, [&](auto rounded) {
    store(rounded, static_cast<float>(scale_of(a.attrs)));
    return float(rounded);
  });
}

inline void set_scale(Attrs& attrs, double scale) {
  if (scale != 1) attrs.set("scale", scale);
}

}  // namespace snug::ops

// The attribute `padding` of embedding and embedding_grad: the token whose row gets no gradient
// from the lookup. Absent: every row does.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

constexpr int64_t kNoPadding = -1;  // equals no token

inline int64_t padding_of(const Attrs& attrs) { return attrs.i("padding", kNoPadding); }

inline void set_padding(Attrs& attrs, int64_t padding) {
  if (padding != kNoPadding) attrs.set("padding", padding);
}

inline void require_padding(const OpView& op, int64_t rows) {
  if (!op.attrs.has("padding")) return;
  const int64_t padding = padding_of(op.attrs);
  op.require(padding >= 0 && padding < rows, "padding token {} is not one of the {} rows", padding,
             rows);
}

}  // namespace snug::ops

// The two layouts of a weight: [out, in], or [in, out] where the op says so.
#pragma once

#include "base/units.h"
#include "ir/op_def.h"

namespace snug::ops {

// Where ranks add up what they make of parts of the input, one of them adds the bias: absent means here.
// The gradient is that of the sum.
constexpr const char* kBiasHere = "bias_here";

constexpr const char* kWeightInOut = "weight_in_out";

struct WeightLayout {
  int64_t out, in;
  bool in_out;

  static WeightLayout of(const Shape& weight, const Attrs& attrs) {
    const bool in_out = attrs.b(kWeightInOut, false);
    return {weight[in_out ? 1 : 0], weight[in_out ? 0 : 1], in_out};
  }
  Shape shape() const { return in_out ? Shape{in, out} : Shape{out, in}; }
  size_t at(int64_t o, int64_t i) const {
    return static_cast<size_t>(in_out ? i * out + o : o * in + i);
  }
};

// Of x [rows, in] times a weight; the two GEMMs of backward take as many.
inline int64_t matmul_flops(const Shape& x, const Shape& weight) {
  constexpr const char* what = "the flops of a GEMM";
  return checked_mul(2, checked_mul(x.rows(), weight.elements(), what), what);
}

}  // namespace snug::ops

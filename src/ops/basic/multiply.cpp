#include "ops/basic/multiply.h"

#include "ops/basic/basic_cuda.h"
#include "ops/basic/elementwise.h"

namespace snug::ops {
namespace {

// da = dy * b and db = dy * a.
void grad(GradContext& g) {
  const ValueId dy = g.dout(0);
  if (g.wants(0)) g.set(0, g.emit(multiply_def, {dy, g.in(1)}, {}, "grad_a")[0]);
  if (g.wants(1)) g.set(1, g.emit(multiply_def, {dy, g.in(0)}, {}, "grad_b")[0]);
}

}  // namespace

const OpDef multiply_def =
    elementwise<std::multiplies<>>("multiply", grad, SNUG_CUDA_KERNEL(multiply_cuda));

ValueId multiply(Builder& b, std::string_view name, ValueId x, ValueId y) {
  return b.emit(multiply_def, name, {x, y})[0];
}

}  // namespace snug::ops

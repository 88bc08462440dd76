#include "ops/basic/add.h"

#include "ops/basic/basic_cuda.h"
#include "ops/basic/elementwise.h"

namespace snug::ops {
namespace {

void grad(GradContext& g) {
  g.set(0, g.dout(0));
  g.set(1, g.dout(0));
}

}  // namespace

const OpDef add_def = elementwise<std::plus<>>("add", grad, SNUG_CUDA_KERNEL(add_cuda));

ValueId add(Builder& b, std::string_view name, ValueId a, ValueId other) {
  return b.emit(add_def, name, {a, other})[0];
}

}  // namespace snug::ops

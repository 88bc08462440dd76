#include "plan/op_work.h"

#include <algorithm>
#include <vector>

namespace snug {

namespace {

bool has_odd_matrix(const Module& module, const std::vector<ValueId>& values) {
  return std::ranges::any_of(values, [&](ValueId id) {
    if (!id.valid() || module[id].type.shape.rank() < 2) return false;
    const auto& [dtype, shape] = module[id].type;
    const auto odd = [&](int64_t n) { return n * size_of(dtype) % 16 != 0; };
    const Category category = module[id].category;
    const bool weight = category == Category::params || category == Category::grads;
    return odd(shape.back()) || (weight && odd(shape.rows()));
  });
}

}  // namespace

uint32_t kernel_bits(const Module& module, const Op& op, Backend backend) {
  constexpr size_t kInputs = 31;
  uint32_t bits = 0;
  for (size_t i = 0; i < op.inputs.size() && i < kInputs; ++i)
    if (op.def->port_of_input(i).optional() && op.inputs[i].valid()) bits |= uint32_t{1} << i;
  const bool odd = backend == Backend::cuda &&
                   (has_odd_matrix(module, op.inputs) || has_odd_matrix(module, op.outputs));
  return odd ? bits | kOdd : bits;
}

OpWork work_of(const Module& module, const Op& op, Backend backend, const Math& math) {
  const Cost cost = cost_of(module, op, backend);
  const Dtype dtype = kernel_dtype(module, op);
  return {.kind = std::string(op.def->kind),
          .dtype = dtype,
          .tf32 = math.tf32 && dtype == Dtype::f32,
          .has = kernel_bits(module, op, backend),
          .flops = static_cast<double>(cost.flops),
          .bytes = static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written),
          .exps = static_cast<double>(cost.exps)};
}

}  // namespace snug

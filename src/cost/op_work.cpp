#include "cost/op_work.h"

#include <algorithm>
#include <vector>

namespace snug {
namespace {

// Of the values in the kernel's own type: targets and statistics are no matrices.
bool has_odd_rows(const Module& module, Dtype dtype, const std::vector<ValueId>& values) {
  return std::ranges::any_of(values, [&](ValueId id) {
    if (!id.valid() || module[id].type.dtype != dtype) return false;
    const Shape& shape = module[id].type.shape;
    return shape.rank() >= 2 && shape.back() * size_of(dtype) % 16 != 0;
  });
}

// Does an output have to take the input's bytes? Then the kernel is the same without it.
bool is_next_version(const Op& op, size_t input) {
  return std::ranges::any_of(
      op.def->alias, [&](const Alias& a) { return a.must && a.input == static_cast<int>(input); });
}

uint32_t server_bits(Server server) {
  if (server == Server::tensor_cores) return kOwnTensorCores;
  return server == Server::plain_tiles ? kPlainTiles : 0;
}

}  // namespace

bool is_arithmetic(const Cost& cost) {
  // Operations for each byte. Elementwise ops, norms and updates stay below 20, matmuls and
  // attention at training shapes are beyond 100.
  constexpr int64_t kArithmetic = 25;
  return cost.flops / kArithmetic > cost.bytes_read + cost.bytes_written;
}

bool is_large_matmul(const Op& op, const Cost& cost) {
  return op.def->matmul && is_arithmetic(cost);
}

uint32_t kernel_bits(const Module& module, const Op& op, Backend backend, const Cost& cost,
                     const Math& math) {
  constexpr size_t kInputs = 28;
  uint32_t bits = 0;
  for (size_t i = 0; i < op.inputs.size() && i < kInputs; ++i)
    if (op.def->port_of_input(i).optional() && op.inputs[i].valid() && !is_next_version(op, i))
      bits |= uint32_t{1} << i;
  const bool matmul = backend == Backend::cuda && is_large_matmul(op, cost);
  const Dtype dtype = kernel_dtype(module, op);
  if (matmul && (has_odd_rows(module, dtype, op.inputs) || has_odd_rows(module, dtype, op.outputs)))
    bits |= kOdd;
  if (cost.variant) bits |= kVariant;
  return backend == Backend::cuda ? bits | server_bits(served_on_gpu(module, op, math).by) : bits;
}

Roof roof_of(const DeviceSpec& device, const OpWork& work) {
  const bool plain = (work.has & kPlainTiles) != 0;
  return device.roof(plain ? Dtype::f32 : work.dtype, {.tf32 = work.tf32 && !plain}, work.flops,
                     work.bytes);
}

OpWork work_of(const Module& module, const Op& op, Backend backend, const Math& math) {
  const Cost cost = cost_of(module, op, backend);
  const Dtype dtype = kernel_dtype(module, op);
  return {.kind = std::string(op.def->kind),
          .dtype = dtype,
          .tf32 = math.tf32 && dtype == Dtype::f32,
          .has = kernel_bits(module, op, backend, cost, math),
          .flops = static_cast<double>(cost.flops),
          .bytes = static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written),
          .exps = static_cast<double>(cost.exps)};
}

}  // namespace snug

#include "plan/op_work.h"

namespace snug {

uint32_t optional_inputs(const Op& op) {
  uint32_t has = 0;
  for (size_t i = 0; i < op.inputs.size() && i < 32; ++i)
    if (op.def->port_of_input(i).optional() && op.inputs[i].valid()) has |= uint32_t{1} << i;
  return has;
}

OpWork work_of(const Module& module, const Op& op, Backend backend, const Math& math) {
  const Cost cost = cost_of(module, op, backend);
  const Dtype dtype = kernel_dtype(module, op);
  return {.kind = std::string(op.def->kind),
          .dtype = dtype,
          .tf32 = math.tf32 && dtype == Dtype::f32,
          .has = optional_inputs(op),
          .flops = static_cast<double>(cost.flops),
          .bytes = static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written),
          .exps = static_cast<double>(cost.exps)};
}

}  // namespace snug

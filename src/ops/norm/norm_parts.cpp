#include "ops/norm/norm_parts.h"

#include "ops/infer.h"

namespace snug::ops {
namespace {

void require_like(const OpView& op, size_t port, const Type& want) {
  op.require(op.in(port) == want, "{} {} does not match x {}: it must be {}",
             op.def.inputs[port].name, op.in(port).text(), op.in(0).text(), want.text());
}

Type row_vector(const OpView& op) {
  op.require(op.shape(0).rank() >= 1, "x {} has no axis to normalise", op.in(0).text());
  return {op.in(0).dtype, {op.shape(0).back()}};
}

Type statistic(const OpView& op) { return {Dtype::f32, {op.shape(0).rows()}}; }

}  // namespace

std::vector<Type> infer_norm(const OpView& op) {
  const Type param = row_vector(op);
  for (size_t i = 1; i < op.size(); ++i) {
    require_like(op, i, op.def.inputs[i].name == "delta" ? op.in(0) : param);
  }
  std::vector<Type> types;
  for (const Port& port : op.def.outputs) {
    types.push_back(port.aux() ? statistic(op) : op.in(0));
  }
  return types;
}

std::vector<Type> infer_norm_grad(const OpView& op) {
  const Type param = row_vector(op);
  require_like(op, 1, param);
  std::vector<Type> types(op.def.outputs.size(), {grad_dtype(op, param.dtype), param.shape});
  types[0] = op.in(0);
  const auto dy = static_cast<size_t>(op.def.input_port("dy"));
  for (size_t i = 2; i < dy; ++i) require_like(op, i, statistic(op));
  require_like(op, dy, types[0]);
  for (const Accumulate& a : op.def.accumulate) {
    require_sum(op, static_cast<size_t>(a.input), types[static_cast<size_t>(a.output)]);
  }
  return types;
}

}  // namespace snug::ops

#include "ops/norm/norm_parts.h"

#include <cmath>

#include "base/units.h"
#include "ops/infer.h"
#include "ops/norm/norm_cpu.h"
#include "ops/norm/norm_cuda.h"

namespace snug::ops {
namespace {

void require_like(const OpView& op, size_t port, const Type& want) {
  if (op.in(port) == want) return;  // no text is made of types that agree
  op.require(false, "{} {} does not match x {}: it must be {}", op.def.inputs[port].name,
             op.in(port).text(), op.in(0).text(), want.text());
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
  if (op.def.outputs.back().name == "y") types.back() = op.in(0);
  if (op.def.inputs.back().name == "bias") require_like(op, op.def.inputs.size() - 1, param);
  const auto dy = static_cast<size_t>(op.def.input_port("dy"));
  for (size_t i = 2; i < dy; ++i) require_like(op, i, statistic(op));
  require_like(op, dy, types[0]);
  for (const Accumulate& a : op.def.accumulate) {
    require_sum(op, static_cast<size_t>(a.input), types[static_cast<size_t>(a.output)]);
  }
  return types;
}

// --- samples -------------------------------------------------------------------------------------

namespace {

// The mean or the rstd of every row of the first input.
Fill row_statistic(bool centered, bool mean_itself) {
  Fill fill;
  fill.compute = [=](RefTensor& self, std::span<const RefTensor> earlier) {
    const std::vector<double>& x = earlier[0].v;
    const auto C = static_cast<size_t>(earlier[0].shape().back());
    for (size_t r = 0; r < self.v.size(); ++r) {
      double mean = 0;
      double variance = 0;
      for (size_t i = r * C; centered && i < (r + 1) * C; ++i) {
        mean += x[i] / static_cast<double>(C);
      }
      for (size_t i = r * C; i < (r + 1) * C; ++i) {
        variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(C);
      }
      self.v[r] = mean_itself ? mean : 1 / std::sqrt(variance + 1e-6);
    }
  };
  return fill;
}

}  // namespace

std::vector<Sample> recompute_samples(const OpDef& def, bool centered) {
  const auto sample = [&](const char* name, Dtype dtype, const Shape& x) {
    Sample s{name, {}};
    for (const Port& port : def.inputs) {
      const bool stream = port.name == "x" || port.name == "dy";
      const bool statistic = port.name == "mean" || port.name == "rstd";
      if (port.optional()) {
        s.inputs.push_back({{dtype, {}}, Fill::absent()});
      } else if (statistic) {
        s.inputs.push_back(
            {{Dtype::f32, {x.rows()}}, row_statistic(centered, port.name == "mean")});
      } else {
        s.inputs.push_back({{dtype, stream ? x : Shape{x.back()}}});
      }
    }
    return s;
  };
  return {sample("one row", Dtype::f32, {1, 8}),
          sample("odd width", Dtype::f32, {3, 5, 37}),
          sample("many rows", Dtype::f32, {2, 70, 48}),
          sample("bf16, odd width", Dtype::bf16, {3, 5, 37}),
          sample("bf16, many rows", Dtype::bf16, {2, 70, 48}),
          sample("f16, many rows", Dtype::f16, {2, 70, 48})};
}

int64_t norm_grad_scratch(const OpView& op, Backend backend, int64_t params) {
  if (backend == Backend::cpu) return norm_grad_workspace(op.shape(0), params);
  const Type& x = op.in(0);
  const int warps = norm_row_warps(x.shape.back(), size_of(x.dtype));
  return checked_mul(norm_grad_blocks(x.shape.rows(), warps) * params,
                     x.shape.back() * size_of(Dtype::f32), "a norm's scratch");
}

}  // namespace snug::ops

#include "ops/compress/int8.h"

#include <algorithm>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/compress/int8_cpu.h"
#include "ops/compress/int8_cuda.h"
#include "ops/compress/int8_scale.h"

namespace snug::ops {
namespace {

enum Port : size_t { kPayload, kScales };

Type scales_of(const Shape& payload) {
  return {Dtype::f32, {ceil_div(payload.elements(), kInt8Block)}};
}

std::vector<Type> infer_quantize(const OpView& op) {
  op.require(takes_int8(op.in(0).dtype),
             "x {} cannot be compressed to int8, only f32, bf16 and f16 can; leave it as it is",
             op.in(0).text());
  return {{Dtype::i8, op.shape(0)}, scales_of(op.shape(0))};
}

std::vector<Type> infer_dequantize(const OpView& op) {
  op.require(op.in(kPayload).dtype == Dtype::i8, "payload {} is not i8", op.in(kPayload).text());
  op.require(op.in(kScales) == scales_of(op.shape(kPayload)),
             "scales {} do not belong to payload {}: one per {} elements makes {}",
             op.in(kScales).text(), op.in(kPayload).text(), kInt8Block,
             scales_of(op.shape(kPayload)).text());
  const auto to = parse_dtype(op.attrs.s("to"));
  op.require(to && takes_int8(*to), "'{}' is not f32, bf16 or f16", op.attrs.s("to"));
  return {{*to, op.shape(kPayload)}};
}

// Magnitude, comparison, multiplication, rounding.
Cost cost_quantize(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 4 * op.shape(0).elements()};
}
Cost cost_dequantize(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = op.shape(kPayload).elements()};
}

// In float like the kernel: in double, a value close to the middle of two levels could round to the
// other one.
void reference_quantize(const RefArgs& a) {
  const std::vector<double>& x = a.in(0).v;
  for (size_t at = 0; at < x.size(); at += kInt8Block) {
    const size_t end = std::min(x.size(), at + kInt8Block);
    double absmax = 0;
    for (size_t i = at; i < end; ++i) absmax = std::max(absmax, std::abs(x[i]));
    const Int8Scale scale = Int8Scale::of(static_cast<float>(absmax));
    a.out(kScales).v[at / kInt8Block] = scale.scale;
    for (size_t i = at; i < end; ++i) {
      a.out(kPayload).v[i] = scale.quantize(static_cast<float>(x[i]));
    }
  }
}

void reference_dequantize(const RefArgs& a) {
  std::vector<double>& x = a.out(0).v;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = a.in(kPayload).v[i] * a.in(kScales).v[i / kInt8Block];
  }
}

std::vector<Sample> samples_quantize() {
  auto sample = [](const char* name, Shape shape, Fill fill) {
    return Sample{name, {{{Dtype::f32, shape}, std::move(fill)}}};
  };
  // 127 in every block makes the scale 1: all halves are ties.
  const auto halves = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) {
      self.v[i] = i % kInt8Block == 0 ? 127 : static_cast<double>(i % 101) - 50.5;
    }
  };
  return {sample("one block", {128}, Fill::normal()),
          sample("a short last block", {3, 5, 19}, Fill::normal(2)),
          sample("several threads' worth", {2, 9001}, Fill::normal(0.01)),
          sample("ties", {4, 96}, Fill{.compute = halves}),
          sample("zeros", {300}, Fill::constant(0)),
          sample("a scalar", {}, Fill::constant(-3))};
}

std::vector<Sample> samples_dequantize() {
  const auto levels = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = static_cast<double>(i * 37 % 255) - 127;
  };
  auto sample = [&](Dtype to, Shape shape) {
    return Sample{fmt::format("{} to {}", shape.text(), name_of(to)),
                  {{{Dtype::i8, shape}, Fill{.compute = levels}}, {scales_of(shape)}},
                  {{"to", std::string(name_of(to))}}};
  };
  return {sample(Dtype::f32, {3, 5, 19}), sample(Dtype::f32, {2, 9001}), sample(Dtype::bf16, {128}),
          sample(Dtype::f16, {7, 100}), sample(Dtype::f32, {})};
}

}  // namespace

// Neither op has an axis to split along: blocks run on over the ends of rows.
const OpDef quantize_int8_def{
    .kind = "quantize_int8",
    .inputs = {"x"},
    .outputs = {"payload", "scales"},
    .infer = infer_quantize,
    .cost = cost_quantize,
    .kernels = float_kernels(quantize_int8_cpu, {.run = SNUG_CUDA_KERNEL(quantize_int8_cuda)}),
    .reference = reference_quantize,
    .samples = samples_quantize,
};

const OpDef dequantize_int8_def{
    .kind = "dequantize_int8",
    .inputs = {"payload", "scales"},
    .outputs = {"x"},
    .infer = infer_dequantize,
    .cost = cost_dequantize,
    .exact = {kScales},
    .kernels = kernels_for({Dtype::i8}, dequantize_int8_cpu,
                           {.run = SNUG_CUDA_KERNEL(dequantize_int8_cuda)}),
    .reference = reference_dequantize,
    .samples = samples_dequantize,
};

Int8 quantize_int8(Builder& b, std::string_view name, ValueId x) {
  const std::vector<ValueId> out = b.emit(quantize_int8_def, name, {x});
  return {.payload = out[kPayload], .scales = out[kScales]};
}

ValueId dequantize_int8(Builder& b, std::string_view name, const Int8& from, Dtype to) {
  return b.emit(dequantize_int8_def, name, {from.payload, from.scales},
                {{"to", std::string(name_of(to))}})[0];
}

}  // namespace snug::ops

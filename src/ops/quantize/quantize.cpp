#include "ops/quantize/quantize.h"

#include <algorithm>

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/quantize/int8_scale.h"
#include "ops/quantize/nf4_levels.h"
#include "ops/quantize/quantize_cpu.h"
#include "ops/quantize/quantize_cuda.h"

namespace snug::ops {
namespace {

enum Port : size_t { kPayload, kScales };

// --- facts, of whatever format -------------------------------------------------------------------

template <const Format& format>
std::vector<Type> infer_quantize(const OpView& op) {
  op.require(can_be_quantized(op.in(0).dtype),
             "x {} cannot be compressed to {}, only f32, bf16 and f16 can; leave it as it is",
             op.in(0).text(), format.name);
  return {format.payload_type(op.shape(0)), format.scales_type(op.shape(0))};
}

template <const Format& format>
std::vector<Type> infer_dequantize(const OpView& op) {
  const std::string_view payload = op.def.inputs[kPayload].name;
  op.require(
      op.in(kPayload).dtype == format.payload && (format.packed == 1 || op.shape(0).rank() > 0),
      "{} {} is not {}", payload, op.in(kPayload).text(), name_of(format.payload));
  const Shape whole = format.whole_of(op.shape(kPayload));
  op.require(op.in(kScales) == format.scales_type(whole),
             "scales {} do not belong to {} {}: one per {} elements makes {}",
             op.in(kScales).text(), payload, op.in(kPayload).text(), format.block,
             format.scales_type(whole).text());
  const auto to = parse_dtype(op.attrs.s("to"));
  op.require(to && can_be_quantized(*to), "'{}' is not f32, bf16 or f16", op.attrs.s("to"));
  return {{*to, whole}};
}

// Magnitude, comparison, multiplication, rounding.
Cost cost_quantize(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 4 * op.shape(0).elements()};
}
Cost cost_dequantize(const OpView&, std::span<const Type> outputs, Backend) {
  return {.flops = outputs[0].shape.elements()};
}

// --- int8 ----------------------------------------------------------------------------------------

// In float like the kernel: in double, a value close to the middle of two levels could round to the
// other one.
void reference_quantize_int8(const RefArgs& a) {
  const std::vector<double>& x = a.in(0).v;
  for (size_t at = 0; at < x.size(); at += kInt8.block) {
    const size_t end = std::min<size_t>(x.size(), at + kInt8.block);
    double absmax = 0;
    for (size_t i = at; i < end; ++i) absmax = std::max(absmax, std::abs(x[i]));
    const Int8Scale scale = Int8Scale::of(static_cast<float>(absmax));
    a.out(kScales).v[at / kInt8.block] = scale.scale;
    for (size_t i = at; i < end; ++i) {
      a.out(kPayload).v[i] = scale.quantize(static_cast<float>(x[i]));
    }
  }
}

void reference_dequantize_int8(const RefArgs& a) {
  std::vector<double>& x = a.out(0).v;
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = a.in(kPayload).v[i] * a.in(kScales).v[i / kInt8.block];
  }
}

std::vector<Sample> samples_quantize_int8() {
  auto sample = [](const char* name, Shape shape, Fill fill) {
    return Sample{name, {{{Dtype::f32, shape}, std::move(fill)}}};
  };
  // 127 in every block makes the scale 1: all halves are ties.
  const auto halves = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) {
      self.v[i] = i % kInt8.block == 0 ? 127 : static_cast<double>(i % 101) - 50.5;
    }
  };
  return {sample("one block", {128}, Fill::normal()),
          sample("a short last block", {3, 5, 19}, Fill::normal(2)),
          sample("several threads' worth", {2, 9001}, Fill::normal(0.01)),
          sample("ties", {4, 96}, Fill{.compute = halves}),
          sample("zeros", {300}, Fill::constant(0)),
          sample("a scalar", {}, Fill::constant(-3))};
}

std::vector<Sample> samples_dequantize_int8() {
  const auto levels = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = static_cast<double>(i * 37 % 255) - 127;
  };
  auto sample = [&](Dtype to, Shape shape) {
    return Sample{
        fmt::format("{} to {}", shape.text(), name_of(to)),
        {{kInt8.payload_type(shape), Fill{.compute = levels}}, {kInt8.scales_type(shape)}},
        {{"to", std::string(name_of(to))}}};
  };
  return {sample(Dtype::f32, {3, 5, 19}), sample(Dtype::f32, {2, 9001}), sample(Dtype::bf16, {128}),
          sample(Dtype::f16, {7, 100}), sample(Dtype::f32, {})};
}

// --- nf4 -----------------------------------------------------------------------------------------

void reference_dequantize_nf4(const RefArgs& a) {
  std::vector<double>& x = a.out(0).v;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto byte = static_cast<uint32_t>(a.in(kPayload).v[i / 2]);
    const uint32_t code = i % 2 == 0 ? byte >> 4 : byte & 15;
    x[i] = double{kNf4Levels[code]} * a.in(kScales).v[i / kNf4.block];
  }
}

std::vector<Sample> samples_dequantize_nf4() {
  const auto bytes = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = static_cast<double>(i * 37 % 256);
  };
  auto sample = [&](Dtype to, Shape codes) {
    return Sample{
        fmt::format("{} to {}", codes.text(), name_of(to)),
        {{{kNf4.payload, codes}, Fill{.compute = bytes}}, {kNf4.scales_type(kNf4.whole_of(codes))}},
        {{"to", std::string(name_of(to))}}};
  };
  return {sample(Dtype::f32, {32}), sample(Dtype::f32, {6, 80}), sample(Dtype::f32, {3, 5, 7}),
          sample(Dtype::bf16, {40, 96}), sample(Dtype::f16, {64, 32})};
}

}  // namespace

// No op has an axis to split along: blocks run on over the ends of rows.
const OpDef quantize_int8_def{
    .kind = "quantize_int8",
    .inputs = {"x"},
    .outputs = {"payload", "scales"},
    .infer = infer_quantize<kInt8>,
    .cost = cost_quantize,
    .kernels = float_kernels(quantize_int8_cpu, {.run = SNUG_CUDA_KERNEL(quantize_int8_cuda)}),
    .reference = reference_quantize_int8,
    .samples = samples_quantize_int8,
};

const OpDef dequantize_int8_def{
    .kind = "dequantize_int8",
    .inputs = {"payload", "scales"},
    .outputs = {"x"},
    .infer = infer_dequantize<kInt8>,
    .cost = cost_dequantize,
    .exact = {kScales},
    .kernels = kernels_for({kInt8.payload}, dequantize_int8_cpu,
                           {.run = SNUG_CUDA_KERNEL(dequantize_int8_cuda)}),
    .reference = reference_dequantize_int8,
    .samples = samples_dequantize_int8,
};

const OpDef dequantize_nf4_def{
    .kind = "dequantize_nf4",
    .inputs = {"codes", "scales"},
    .outputs = {"x"},
    .infer = infer_dequantize<kNf4>,
    .cost = cost_dequantize,
    .kernels = kernels_for({kNf4.payload}, dequantize_nf4_cpu,
                           {.run = SNUG_CUDA_KERNEL(dequantize_nf4_cuda)}),
    .reference = reference_dequantize_nf4,
    .samples = samples_dequantize_nf4,
};

Quantized quantize(Builder& b, std::string_view name, const Format& format, ValueId x) {
  const std::vector<ValueId> out = b.emit(*format.quantize, name, {x});
  return {.payload = out[kPayload], .scales = out[kScales]};
}

ValueId dequantize(Builder& b, std::string_view name, const Format& format, const Quantized& from,
                   Dtype to) {
  return b.emit(*format.dequantize, name, {from.payload, from.scales},
                {{"to", std::string(name_of(to))}})[0];
}

}  // namespace snug::ops

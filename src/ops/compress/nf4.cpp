#include "ops/compress/nf4.h"

#include "base/units.h"
#include "kernels/float_kernels.h"
#include "ops/compress/nf4_cpu.h"
#include "ops/compress/nf4_cuda.h"
#include "ops/infer.h"

namespace snug::ops {
namespace {

enum Port : size_t { kCodes, kScales };

Type nf4_scales_of(const Shape& codes) {
  return {Dtype::f32, {ceil_div(2 * codes.elements(), kNf4Block)}};
}

std::vector<Type> infer(const OpView& op) {
  const Shape& codes = op.shape(kCodes);
  op.require(op.in(kCodes).dtype == Dtype::u8 && codes.rank() >= 1, "codes {} are not bytes",
             op.in(kCodes).text());
  op.require(op.in(kScales) == nf4_scales_of(codes),
             "scales {} do not belong to codes {}: one per {} elements makes {}",
             op.in(kScales).text(), op.in(kCodes).text(), kNf4Block, nf4_scales_of(codes).text());
  const auto to = parse_dtype(op.attrs.s("to"));
  op.require(to && is_model_float(*to), "'{}' is not f32, bf16 or f16", op.attrs.s("to"));
  return {{*to, codes.with_back(2 * codes.back())}};
}

Cost cost(const OpView& op, std::span<const Type>, Backend) {
  return {.flops = 2 * op.shape(kCodes).elements()};
}

void reference(const RefArgs& a) {
  std::vector<double>& x = a.out(0).v;
  for (size_t i = 0; i < x.size(); ++i) {
    const auto byte = static_cast<uint32_t>(a.in(kCodes).v[i / 2]);
    const uint32_t code = i % 2 == 0 ? byte >> 4 : byte & 15;
    x[i] = double{kNf4Levels[code]} * a.in(kScales).v[i / kNf4Block];
  }
}

std::vector<Sample> samples() {
  const auto bytes = [](RefTensor& self, std::span<const RefTensor>) {
    for (size_t i = 0; i < self.v.size(); ++i) self.v[i] = static_cast<double>(i * 37 % 256);
  };
  auto sample = [&](Dtype to, Shape codes) {
    return Sample{fmt::format("{} to {}", codes.text(), name_of(to)),
                  {{{Dtype::u8, codes}, Fill{.compute = bytes}}, {nf4_scales_of(codes)}},
                  {{"to", std::string(name_of(to))}}};
  };
  return {sample(Dtype::f32, {32}), sample(Dtype::f32, {6, 80}), sample(Dtype::f32, {3, 5, 7}),
          sample(Dtype::bf16, {40, 96}), sample(Dtype::f16, {64, 32})};
}

}  // namespace

// No axis to split along: blocks run on over the ends of rows.
const OpDef dequantize_nf4_def{
    .kind = "dequantize_nf4",
    .inputs = {"codes", "scales"},
    .outputs = {"x"},
    .infer = infer,
    .cost = cost,
    .kernels = kernels_for({Dtype::u8}, dequantize_nf4_cpu,
                           {.run = SNUG_CUDA_KERNEL(dequantize_nf4_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId dequantize_nf4(Builder& b, std::string_view name, const Nf4& from, Dtype to) {
  return b.emit(dequantize_nf4_def, name, {from.codes, from.scales},
                {{"to", std::string(name_of(to))}})[0];
}

}  // namespace snug::ops

#include "ops/basic/assign.h"

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/basic/basic_cuda.h"
#include "ops/infer.h"

namespace snug::ops {
namespace {

enum In : size_t { kTarget, kSource };

std::vector<Type> infer(const OpView& op) {
  op.require(op.shape(kTarget) == op.shape(kSource) && is_model_float(op.in(kSource).dtype),
             "target {} cannot be made from {}", op.in(kTarget).text(), op.in(kSource).text());
  return {op.in(kTarget)};
}

Cost cost(const OpView& op, std::span<const Type> outputs, Backend) {
  return {.bytes_read = op.in(kSource).bytes(), .bytes_written = outputs[0].bytes()};
}

void reference(const RefArgs& a) { a.out(0).v = a.in(kSource).v; }

std::vector<Sample> samples() {
  std::vector<Sample> out;
  for (const Dtype to : {Dtype::bf16, Dtype::f16, Dtype::f32}) {
    for (const Dtype from : {Dtype::f32, Dtype::bf16}) {
      out.push_back({fmt::format("{} from {}", name_of(to), name_of(from)),
                     {{{to, {3, 4101}}}, {{from, {3, 4101}}}}});
    }
  }
  return out;
}

void assign_cpu(const KernelArgs& a) {
  visit_float(a.in(kTarget).type->dtype, [&](auto to) {
    visit_float(a.in(kSource).type->dtype, [&](auto from) {
      auto* y = a.out<decltype(to)>(0);
      const auto* x = a.in<decltype(from)>(kSource);
      for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
        for (int64_t i = begin; i < end; ++i) store(y[i], static_cast<float>(x[i]));
      });
    });
  });
}

}  // namespace

const OpDef assign_def{
    .kind = "assign",
    .inputs = {"target", "source"},
    .outputs = {"target"},
    .infer = infer,
    .cost = cost,
    .alias = {{.output = 0, .input = kTarget, .must = true}},
    .splits = {{"rows", {0, 0}, {0}}},
    .kernels = float_kernels(assign_cpu, {.run = SNUG_CUDA_KERNEL(assign_cuda)}),
    .reference = reference,
    .samples = samples,
};

ValueId assign(Builder& b, std::string_view name, ValueId target, ValueId source) {
  return b.emit(assign_def, name, {target, source})[0];
}

}  // namespace snug::ops

#include "ops/comm/pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

std::vector<Type> infer_pack(const OpView& op) {
  const int64_t unit = op.attrs.i("unit", kPackUnit);
  int64_t elements = 0;
  for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i) {
    op.require(op.in(i).dtype == op.in(0).dtype, "{} and {} in one row", op.in(0).text(),
               op.in(i).text());
    elements = checked_add(elements, packed(op.shape(i).elements(), unit), "a row");
  }
  return {{op.in(0).dtype, {elements}}};
}

void pack_cpu(const KernelArgs& a) {
  const int64_t size = size_of(a.out(0).type->dtype), unit = a.attrs.i("unit", kPackUnit);
  std::byte* row = a.out<std::byte>(0);
  for (const Tensor& part : a.inputs) {
    const int64_t bytes = part.type->bytes(), taken = packed(part.elements(), unit) * size;
    std::memcpy(row, part.as<const std::byte>(), static_cast<size_t>(bytes));
    std::memset(row + bytes, 0, static_cast<size_t>(taken - bytes));
    row += taken;
  }
}

void reference_pack(const RefArgs& a) {
  const int64_t unit = a.attrs.i("unit", kPackUnit);
  auto row = a.out(0).v.begin();
  for (const RefTensor* part : a.inputs) {
    std::ranges::copy(part->v, row);
    row += packed(static_cast<int64_t>(part->v.size()), unit);
  }
}

std::vector<Sample> samples_pack() {
  const auto sample = [](const char* name, std::initializer_list<Shape> parts, Dtype dtype,
                         Attrs attrs = {}) {
    Sample out{name, {}, std::move(attrs)};
    for (const Shape& shape : parts) out.inputs.push_back({{dtype, shape}});
    return out;
  };
  return {sample("three", {{64}, {7}, {3, 50}}, Dtype::f32), sample("one", {{100}}, Dtype::f32),
          sample("with nothing between", {{64}, {7}, {1}}, Dtype::f64, {{"unit", int64_t{1}}})};
}

}  // namespace

const OpDef pack_def{
    .kind = "pack",
    .inputs = {variadic("parts")},
    .outputs = {"row"},
    .infer = infer_pack,
    .kernels = kernels_for({Dtype::f32, Dtype::f64, Dtype::bf16, Dtype::f16}, pack_cpu,
                           {.run = SNUG_CUDA_KERNEL(pack_cuda)}),
    .reference = reference_pack,
    .samples = samples_pack,
};

ValueId pack(Builder& b, std::string_view name, std::vector<ValueId> parts, int64_t unit) {
  Attrs attrs;
  if (unit != kPackUnit) attrs.set("unit", unit);
  return b.emit(pack_def, name, std::move(parts), std::move(attrs))[0];
}

}  // namespace snug::ops

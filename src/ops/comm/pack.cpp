#include "ops/comm/pack.h"

#include <algorithm>
#include <cstring>

#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

std::vector<Type> infer_pack(const OpView& op) {
  int64_t elements = 0;
  for (int i = 0; i < static_cast<int>(op.inputs.size()); ++i) {
    op.require(op.in(i).dtype == op.in(0).dtype, "{} and {} in one row", op.in(0).text(),
               op.in(i).text());
    elements = checked_add(elements, packed(op.shape(i).elements()), "a row");
  }
  return {{op.in(0).dtype, {elements}}};
}

void pack_cpu(const KernelArgs& a) {
  const int64_t size = size_of(a.out(0).type->dtype);
  std::byte* row = a.out<std::byte>(0);
  for (const Tensor& part : a.inputs) {
    const int64_t bytes = part.type->bytes(), taken = packed(part.elements()) * size;
    std::memcpy(row, part.as<const std::byte>(), static_cast<size_t>(bytes));
    std::memset(row + bytes, 0, static_cast<size_t>(taken - bytes));
    row += taken;
  }
}

void reference_pack(const RefArgs& a) {
  auto row = a.out(0).v.begin();
  for (const RefTensor* part : a.inputs) {
    std::ranges::copy(part->v, row);
    row += packed(static_cast<int64_t>(part->v.size()));
  }
}

std::vector<Sample> samples_pack() {
  const auto sample = [](const char* name, std::initializer_list<Shape> parts) {
    Sample out{name, {}};
    for (const Shape& shape : parts) out.inputs.push_back({{Dtype::f32, shape}});
    return out;
  };
  return {sample("three", {{64}, {7}, {3, 50}}), sample("one", {{100}})};
}

}  // namespace

const OpDef pack_def{
    .kind = "pack",
    .inputs = {variadic("parts")},
    .outputs = {"row"},
    .infer = infer_pack,
    .kernels = float_kernels(pack_cpu, {.run = SNUG_CUDA_KERNEL(pack_cuda)}),
    .reference = reference_pack,
    .samples = samples_pack,
};

ValueId pack(Builder& b, std::string_view name, std::vector<ValueId> parts) {
  return b.emit(pack_def, name, std::move(parts))[0];
}

}  // namespace snug::ops

#include "ops/optimizer/master_update.h"

#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

// The method's first scalar, in front of which the weight is put.
size_t weight_port(const OpDef& method) { return UpdatePorts(method.outputs.size()).lr; }

template <typename T>
void insert_at(std::vector<T>& list, size_t at, T item) {
  list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), std::move(item));
}

}  // namespace

OpDef on_master(const OpDef& method, std::string_view kind, KernelFn cpu) {
  OpDef def = method;
  def.kind = kind;
  insert_at(def.inputs, weight_port(method), optional(kWeightPort));
  def.outputs.emplace_back(kWeightPort);
  def.alias = update_aliases(def.outputs.size());
  if (!def.splits.empty()) def.splits = update_splits(def.outputs.size());
  std::erase_if(def.kernels, [](const Kernel& k) { return k.dtype != Dtype::f32; });
  for (Kernel& k : def.kernels) {
    if (k.backend != Backend::cpu) continue;
    k.run = cpu;
    k.predicated = true;
  }
  return def;
}

bool skips_update(const KernelArgs& a) {
  if (a.predicate == nullptr || *a.predicate != 0) return false;
  const size_t weight = a.outputs.size() - 1;
  if (a.has(UpdatePorts::input_of(weight))) return true;
  const auto* master = a.in<float>(UpdatePorts::kParam);
  visit_float(a.out(weight).type->dtype, [&](auto zero) {
    auto* to = a.out<decltype(zero)>(weight);
    for_blocks(a.out(weight).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) store(to[i], master[i]);
    });
  });
  return true;
}

std::vector<Sample> master_samples(const OpDef& method) {
  std::vector<Sample> samples = method.samples();
  std::erase_if(samples, [](const Sample& s) {
    return s.inputs[UpdatePorts::kParam].type.dtype != Dtype::f32;
  });
  for (Sample& s : samples) {
    const Type& grad = s.inputs[UpdatePorts::kGrad].type;
    const Dtype weight = is_half(grad.dtype) ? grad.dtype : Dtype::bf16;
    insert_at(s.inputs, weight_port(method), SampleInput{{weight, grad.shape}});
  }
  return samples;
}

}  // namespace snug::ops

// Runs an op's CPU kernel on given numbers, for tests that need particular ones (op_check draws its
// own).
//
//   auto out = run_op(advance_def, {scalar(Dtype::i64, 4)});   out[0].v[0] == 5
//   auto out = with_threads(3, [&] { return run_op(...); });
#pragma once

#include <omp.h>

#include <vector>

#include "ir/builder.h"
#include "ops/testing/tensor_bytes.h"

namespace snug {

inline RefTensor scalar(Dtype dtype, double value) { return {{dtype, {}}, {value}}; }
inline RefTensor absent() { return {}; }

// Outputs that must alias are in their inputs' bytes. An input without numbers is absent.
inline std::vector<RefTensor> run_op(const OpDef& def, const std::vector<RefTensor>& inputs,
                                     const Attrs& attrs = {}, const int32_t* predicate = nullptr) {
  Module module{.name = "run"};
  Builder b(module, "run");
  std::vector<ValueId> ids;
  std::vector<std::vector<std::byte>> buffers;
  std::vector<Tensor> in, out;
  for (const RefTensor& t : inputs) {
    buffers.push_back(to_bytes(t));
    ids.push_back(t.v.empty() ? ValueId{}
                              : add_shared(module, fmt::format("in{}", ids.size()), t.type,
                                           Category::inputs, Scope::step));
    in.push_back(t.v.empty() ? Tensor{} : Tensor{buffers.back().data(), &t.type});
  }
  const std::vector<ValueId> results = b.emit(def, "op", ids, attrs);
  for (ValueId id : results) {
    buffers.emplace_back(static_cast<size_t>(module[id].type.bytes()));
    out.push_back({buffers.back().data(), &module[id].type});
  }
  for (const Alias& a : def.alias) {
    if (a.must && in[static_cast<size_t>(a.input)].data != nullptr)
      out[static_cast<size_t>(a.output)].data = in[static_cast<size_t>(a.input)].data;
  }
  buffers.emplace_back(static_cast<size_t>(cost_of(module, b.last(), Backend::cpu).workspace));
  def.kernel(Backend::cpu, kernel_dtype(module, b.last()))(
      KernelArgs{in, out, buffers.back(), attrs, /*stream=*/nullptr, predicate});
  std::vector<RefTensor> loaded;
  for (const Tensor& t : out) loaded.push_back(from_bytes(*t.type, t.data));
  return loaded;
}

template <typename Fn>
auto with_threads(int threads, const Fn& fn) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(threads);
  auto result = fn();
  omp_set_num_threads(before);
  return result;
}

}  // namespace snug

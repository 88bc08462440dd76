// Hand-built programs for the tests of this folder: a few ops with kernels plain enough to compute
// by hand.
#pragma once

#include <algorithm>
#include <functional>
#include <stdexcept>

#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/passes.h"
#include "placement/placement.h"

namespace snug::testing_ops {

inline std::vector<Type> like_first(const OpView& op) { return {op.in(0)}; }

// Where a device has lanes (queued_device.h) these kernels only enqueue.
class Queue {
 public:
  virtual ~Queue() = default;
  virtual void push(std::function<void()> run) = 0;
};
template <KernelFn compute>
void enqueued(const KernelArgs& a) {
  if (a.stream == nullptr) return compute(a);
  static_cast<Queue*>(a.stream)->push([a] { compute(a); });
}

// y[i] = x[i] * by
inline void scale_cpu(const KernelArgs& a) {
  const auto by = static_cast<float>(a.attrs.f("by"));
  for (int64_t i = 0; i < a.out(0).elements(); ++i) a.out<float>(0)[i] = a.in<float>(0)[i] * by;
}
inline const OpDef scale{.kind = "scale",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .infer = like_first,
                         .alias = {{.output = 0, .input = 0}},
                         .kernels = {{Backend::cpu, Dtype::f32, enqueued<scale_cpu>}}};

// y[i] = x[n - 1 - i], through a scratch that holds a copy of x.
inline Cost reverse_cost(const OpView& op, std::span<const Type>, Backend) {
  return {.workspace = op.in(0).bytes()};
}
inline void reverse_cpu(const KernelArgs& a) {
  const int64_t n = a.out(0).elements();
  auto* scratch = reinterpret_cast<float*>(a.workspace.data());
  std::copy_n(a.in<float>(0), n, scratch);
  std::reverse_copy(scratch, scratch + n, a.out<float>(0));
}
inline const OpDef reverse{.kind = "reverse",
                           .inputs = {"x"},
                           .outputs = {"y"},
                           .infer = like_first,
                           .cost = reverse_cost,
                           .kernels = {{Backend::cpu, Dtype::f32, enqueued<reverse_cpu>}}};

// y[i] = a[i] + b[i]
inline void add_cpu(const KernelArgs& a) {
  for (int64_t i = 0; i < a.out(0).elements(); ++i)
    a.out<float>(0)[i] = a.in<float>(0)[i] + a.in<float>(1)[i];
}
inline const OpDef add{.kind = "add",
                       .inputs = {"a", "b"},
                       .outputs = {"y"},
                       .infer = like_first,
                       .kernels = {{Backend::cpu, Dtype::f32, enqueued<add_cpu>}}};

// state' = state + x, in place.
inline void add_to_cpu(const KernelArgs& a) {
  for (int64_t i = 0; i < a.out(0).elements(); ++i) a.out<float>(0)[i] += a.in<float>(1)[i];
}
inline const OpDef add_to{.kind = "add_to",
                          .inputs = {"state", "x"},
                          .outputs = {"next"},
                          .infer = like_first,
                          .alias = {{.output = 0, .input = 0, .must = true}},
                          .kernels = {{Backend::cpu, Dtype::f32, enqueued<add_to_cpu>}}};

inline void fails_cpu(const KernelArgs&) { throw std::runtime_error("broken"); }
inline const OpDef fails{.kind = "fails",
                         .inputs = {"x"},
                         .outputs = {"y"},
                         .infer = like_first,
                         .kernels = {{Backend::cpu, Dtype::f32, enqueued<fails_cpu>}}};

inline const OpDef no_kernel{
    .kind = "no_kernel", .inputs = {"x"}, .outputs = {"y"}, .infer = like_first};

inline const Type kVector{Dtype::f32, {64}};  // one alignment unit of bytes

// A module with the step value "x" to start from and the step value "y" to end in.
struct Fixture {
  Module module{.name = "toy"};
  ValueId x = add_shared(module, "x", kVector, Category::inputs, Scope::step);
  ValueId y = add_shared(module, "y", kVector, Category::activations, Scope::step);
  Builder b{module, "p"};

  ValueId scaled(std::string_view name, ValueId in, double by) {
    return b.emit(scale, name, {in}, {{"by", by}})[0];
  }
  void finish(ValueId from, double by = 1) { b.emit_into(scale, "end", {from}, y, {{"by", by}}); }
  // Places "p" and proves it; tests then spoil it.
  Module& placed() {
    module.step = {{1, {"p"}}};
    schedule(module, Backend::cpu);
    place(module);
    verify(module);
    return module;
  }
};

}  // namespace snug::testing_ops

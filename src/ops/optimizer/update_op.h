// What all update ops share: their ports, what `infer` asks of them, the plain meaning of storing a
// result, and their samples.
//
//   inputs   param, grad, <states>, lr f32[], step i64[], scale f32[], optional seed i64[]
//   outputs  param, <states>: each the next version of its input
//
// On a master a weight follows the states (master_update.h).
#pragma once

#include <utility>

#include "base/rng.h"
#include "ops/infer.h"

namespace snug::ops {

struct UpdatePorts {
  static constexpr size_t kParam = 0, kGrad = 1, kStates = 2;
  size_t lr, step, scale, seed;

  explicit constexpr UpdatePorts(size_t outputs)
      : lr(outputs + 1), step(outputs + 2), scale(outputs + 3), seed(outputs + 4) {}
  // The input that output `o` is the next version of.
  static constexpr size_t input_of(size_t o) { return o == 0 ? kParam : kStates + o - 1; }
};

constexpr const char* kWeightPort = "weight";
// The output of the weight where an op of `states` states has one, else 0.
constexpr size_t weight_output(size_t states, size_t outputs) {
  return outputs == states + 2 ? states + 1 : 0;
}

std::vector<Alias> update_aliases(size_t outputs);
// By rows of the parameter and its states. The noise of 2-byte results counts elements within the
// op's own array: tiles of such an update give as good a result, with other bits.
std::vector<Split> update_splits(size_t outputs);

// A state of param's shape in f32 or bf16.
void require_moment(const OpView& op, size_t port);
// Checks everything but the states, which are the method's to check; gives the types of the
// outputs.
std::vector<Type> infer_update(const OpView& op);

// A weight is written and not read.
Cost update_cost(const OpView& op, std::span<const Type> outputs, int64_t flops_per_element);

// The parts of a reference that are the same for every method.
class RefUpdate {
 public:
  RefUpdate(const RefArgs& a, size_t states);

  double lr, step;
  size_t size() const { return a_.in(UpdatePorts::kParam).v.size(); }
  double grad(size_t i) const { return a_.in(UpdatePorts::kGrad).v[i] * scale_; }
  double decayed(size_t i) const { return a_.in(UpdatePorts::kParam).v[i] * keep_; }
  double state(size_t which, size_t i) const { return a_.in(UpdatePorts::kStates + which).v[i]; }
  // Rounds with the element's noise where the output has 2 bytes, but a weight to nearest.
  void set_param(size_t i, double v) const {
    set(0, i, v);
    if (weight_ > 0) a_.out(weight_).v[i] = v;
  }
  void set_state(size_t which, size_t i, double v) const { set(which + 1, i, v); }

 private:
  void set(size_t output, size_t i, double v) const;

  const RefArgs& a_;
  size_t weight_;  // its output, or 0
  double scale_, keep_;
  Key key_ = 0;
  uint64_t first_ = 0;  // of the parameter's elements
};

struct UpdateSample {
  const char* name;
  Shape shape;
  int64_t step = 3;
  double scale = 1;
  Dtype param = Dtype::f32, grad = Dtype::f32;
  int64_t first = 0;  // the element of the parameter that a slice of it begins with

  SampleInput like_param(Dtype dtype, Fill fill) const { return {{dtype, shape}, std::move(fill)}; }
};
// With a seed and a key where something has 2 bytes.
Sample update_sample(const UpdateSample& s, std::vector<SampleInput> states, Attrs attrs);
// A second moment that agrees with the gradient.
Fill squares_of_grad();

}  // namespace snug::ops

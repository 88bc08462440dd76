// The gradient of what an adapter and its frozen layer read is a sum of two. Backward meets
// the layer first, so the adapter's small GEMM would read and write all of what the layer's has just
// written, at the speed of memory. The other way round the small one only writes, and the layer's
// reads it while it computes.
//
//   dx' = dy W;       dx = du A + dx'
//   dx' = du A;       dx = dy W + dx'      // so
//
// Only where dx is wider than dy. On an H200 the GEMM of a 7B's down projection has the same speed when
// it adds, and its adapter's took 3.4 ms a step to read and write; that of gate and up, whose dx is a
// tenth of dy, lost 4 % and more by adding.
#include "techniques/adapters/adapters.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ops/linear/linear.h"

namespace snug {
namespace {

class AdaptersFirst {
 public:
  AdaptersFirst(Module& module, std::string_view program)
      : module_(module), ops_(module.program(program).ops) {}

  void run() {
    for (const Op& op : ops_) {
      for (const ValueId id : op.inputs) ++readers_[id.index];
    }
    for (size_t at = 0; at < ops_.size(); ++at) {
      if (is_adapters(ops_[at])) put_first(at);
    }
  }

 private:
  bool is_adapters(const Op& op) const {
    static const auto weight_port =
        static_cast<size_t>(ops::linear_grad_input_def.input_port("weight"));
    if (op.def != &ops::linear_grad_input_def) return false;
    const Value& weight = module_[op.inputs[weight_port]];
    return weight.param && weight.param->adapter;
  }

  // The op at `small` adds to what an op before it made: that one now adds, after it.
  void put_first(size_t small) {
    const ValueId before = sum_of(ops_[small]);
    if (!before.valid() || readers_[before.index] != 1) return;
    const size_t large = maker_of(before, small);
    if (large == small || ops_[large].def != &ops::linear_grad_input_def ||
        sum_of(ops_[large]).valid() || !is_wider(before, ops_[large].inputs[0]))
      return;
    const ValueId after = ops_[small].outputs[0];
    for (size_t at = small + 1; at < ops_.size(); ++at)
      std::ranges::replace(ops_[at].inputs, after, before);
    readers_[before.index] = std::exchange(readers_[after.index], 1);
    ops_[small].inputs[sum_port()] = {};
    ops_[large].inputs.resize(std::max(ops_[large].inputs.size(), sum_port() + 1));
    ops_[large].inputs[sum_port()] = after;
    const auto first = ops_.begin() + static_cast<std::ptrdiff_t>(large);
    std::rotate(first, first + 1, ops_.begin() + static_cast<std::ptrdiff_t>(small) + 1);
  }

  bool is_wider(ValueId dx, ValueId dy) const {
    return module_[dx].type.shape.back() > module_[dy].type.shape.back();
  }

  static size_t sum_port() {
    static const auto port = static_cast<size_t>(ops::linear_grad_input_def.input_port("dx_sum"));
    return port;
  }

  static ValueId sum_of(const Op& op) {
    return op.inputs.size() > sum_port() ? op.inputs[sum_port()] : ValueId{};
  }

  // `end` where none before it makes the value.
  size_t maker_of(ValueId id, size_t end) const {
    for (size_t at = end; at-- > 0;) {
      if (std::ranges::find(ops_[at].outputs, id) != ops_[at].outputs.end()) return at;
    }
    return end;
  }

  Module& module_;
  std::vector<Op>& ops_;
  std::map<int32_t, int> readers_;  // by value
};

}  // namespace

void adapter_gradients_first(Module& module, std::string_view program) {
  AdaptersFirst(module, program).run();
}

}  // namespace snug

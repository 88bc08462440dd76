// Grants in-place: an output takes over an input's bytes where the OpDef says that the kernel can,
// the input's storage has no later reader, and the op does not also read it through another port.
// The verifier proves the result again.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/passes.h"

namespace snug {
namespace {

class InPlace {
 public:
  InPlace(Module& module, const Program& program)
      : module_(module), program_(program), last_use_(module.values.size(), -1) {
    for (size_t at = 0; at < program.ops.size(); ++at) {
      const Op& op = program.ops[at];
      for (ValueId id : op.inputs) touch(id, at);
      for (ValueId id : op.outputs) touch(id, at);
      touch(op.predicate, at);
    }
  }

  void run() {
    for (size_t at = 0; at < program_.ops.size(); ++at) {
      const Op& op = program_.ops[at];
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        if (!module_[op.outputs[o]].owns_bytes()) continue;
        for (const Alias& a : op.def->alias) {
          if (!a.must && a.output == static_cast<int>(o) &&
              grant(op, at, o, static_cast<size_t>(a.input)))
            break;
        }
        const int sum = op.def->accumulator_of(static_cast<int>(o));
        if (sum >= 0 && module_[op.outputs[o]].owns_bytes())
          grant(op, at, o, static_cast<size_t>(sum));
      }
    }
  }

 private:
  int32_t& last_use(ValueId root) { return last_use_[static_cast<size_t>(root.index)]; }
  void touch(ValueId id, size_t at) {
    if (id.valid()) last_use(module_.root(id)) = static_cast<int32_t>(at);
  }

  bool grant(const Op& op, size_t at, size_t output, size_t input) {
    if (input >= op.inputs.size() || !op.inputs[input].valid()) return false;
    const ValueId in = op.inputs[input];
    const ValueId root = module_.root(in);
    Value& out = module_[op.outputs[output]];
    const bool whole =
        module_[in].view_offset == 0 && module_[root].storage_bytes() == out.storage_bytes();
    if (module_[root].shared() || !whole || module_[root].space != out.space) return false;
    if (last_use(root) != static_cast<int32_t>(at)) return false;
    const auto reads = std::count_if(op.inputs.begin(), op.inputs.end(), [&](ValueId id) {
      return id.valid() && module_.root(id) == root;
    });
    const bool taken = std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId id) {
      return module_[id].base.valid() && module_.root(id) == root;
    });
    if (reads != 1 || taken) return false;
    last_use(root) = last_use(op.outputs[output]);
    out.base = in;
    return true;
  }

  Module& module_;
  const Program& program_;
  std::vector<int32_t> last_use_;  // by the value that owns the bytes
};

}  // namespace

void in_place(Module& module) {
  for (const Program& program : module.programs) InPlace(module, program).run();
}

}  // namespace snug

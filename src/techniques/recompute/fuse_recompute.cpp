// Cheap forward results that backward reads are recomputed there by the backward op of the op that
// made them, which reads what it takes anyway: one more output of a sweep instead of bytes kept
// through the whole program. Their readers move to just after that op.
#include "techniques/recompute/recompute.h"

#include <algorithm>

#include "ir/op_def.h"

namespace snug {
namespace {

bool contains(const std::vector<ValueId>& ids, ValueId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

class FuseRecompute {
 public:
  FuseRecompute(Module& module, std::string_view program)
      : module_(module),
        index_(module.program_index(program)),
        ops_(module.programs[static_cast<size_t>(index_)].ops) {}

  void run() {
    for (size_t at = 0; at < ops_.size(); ++at) {
      if (ops_[at].phase == Phase::forward && ops_[at].def->fused_recompute) fuse_recompute(at);
    }
  }

 private:
  void fuse_recompute(size_t maker) {
    const FusedRecompute& how = *ops_[maker].def->fused_recompute;
    const ValueId kept = ops_[maker].outputs[static_cast<size_t>(how.output)];
    const size_t grad = backward_of(ops_[maker], *how.grad);
    if (grad == ops_.size()) return;
    std::vector<size_t> readers;
    for (size_t at = 0; at < ops_.size(); ++at) {
      if (ops_[at].phase == Phase::forward || !contains(ops_[at].inputs, kept)) continue;
      if (at == grad || (at < grad && !may_wait(at, grad))) return;
      readers.push_back(at);
    }
    if (readers.empty()) return;
    const ValueId again = extend(ops_[grad], ops_[maker], how);
    for (const size_t at : readers)
      std::replace(ops_[at].inputs.begin(), ops_[at].inputs.end(), kept, again);
    move_after(readers, grad);
  }

  size_t backward_of(const Op& maker, const OpDef& def) const {
    const auto found = std::find_if(ops_.begin(), ops_.end(), [&](const Op& op) {
      return op.def == &def && op.backward_of == maker.name;
    });
    return static_cast<size_t>(found - ops_.begin());
  }

  // Does nothing between touch what the op at `from` makes, up to and with the one at `to`?
  bool may_wait(size_t from, size_t to) const {
    const auto touches = [&](ValueId id, ValueId made) {
      return id.valid() && module_.root(id) == module_.root(made);
    };
    for (const ValueId made : ops_[from].outputs) {
      for (size_t at = from + 1; at <= to; ++at) {
        const Op& op = ops_[at];
        const auto any = [&](const std::vector<ValueId>& ids) {
          return std::ranges::any_of(ids, [&](ValueId id) { return touches(id, made); });
        };
        if (any(op.inputs) || any(op.outputs) || touches(op.predicate, made)) return false;
      }
    }
    return true;
  }

  ValueId extend(Op& grad, const Op& maker, const FusedRecompute& how) {
    const ValueId kept = maker.outputs[static_cast<size_t>(how.output)];
    Value value;
    value.name = module_[kept].name + ".recomputed";
    value.type = module_[kept].type;
    value.category = Category::recompute;
    value.program = index_;
    value.layer = module_[kept].layer;
    const ValueId again = module_.add(std::move(value));
    for (const int port : how.inputs)
      grad.inputs.push_back(maker.inputs[static_cast<size_t>(port)]);
    grad.inputs.resize(how.with->inputs.size());
    grad.outputs.insert(grad.outputs.begin() + how.recomputed, again);
    grad.def = how.with;
    return again;
  }

  // Readers that came before it, in their order, to just after it.
  void move_after(const std::vector<size_t>& readers, size_t grad) {
    std::vector<Op> moved;
    const auto before = std::ranges::count_if(readers, [&](size_t at) { return at < grad; });
    for (auto at = before; at-- > 0;) {
      const auto op = ops_.begin() + static_cast<std::ptrdiff_t>(readers[static_cast<size_t>(at)]);
      moved.insert(moved.begin(), std::move(*op));
      ops_.erase(op);
    }
    const auto after = static_cast<std::ptrdiff_t>(grad) - before + 1;
    ops_.insert(ops_.begin() + after, std::make_move_iterator(moved.begin()),
                std::make_move_iterator(moved.end()));
  }

  Module& module_;
  int32_t index_;
  std::vector<Op>& ops_;
};

}  // namespace

void fuse_recompute(Module& module, std::string_view program) {
  FuseRecompute(module, program).run();
}

}  // namespace snug

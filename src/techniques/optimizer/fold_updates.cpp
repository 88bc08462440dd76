#include "techniques/optimizer/fold_updates.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/order.h"
#include "ops/basic/copy.h"
#include "ops/basic/fill.h"
#include "passes/sharding.h"

namespace snug {
namespace {

class Fold {
 public:
  Fold(Module& module, const Updates& updates) : module_(module), updates_(updates) {}

  // The numbers outlive their program: they are what the updates read until they are made.
  void keep(Builder& update, const Updates::Numbers& numbers) {
    const Type number{Dtype::f32, {}};
    numbers_ = {.lr = shared("update.lr", number),
                .step = updates_.count(),
                .scale = shared("update.scale", number),
                .finite = shared("update.due", {Dtype::i32, {}})};
    update.set_layer(kNoLayer);
    update.emit_into(ops::copy_def, "update.lr.keep", {numbers.lr}, numbers_.lr);
    for (const auto& [made, kept] :
         {std::pair(numbers.scale, numbers_.scale), std::pair(numbers.finite, numbers_.finite)}) {
      module_[made].base = kept;
      module_[made].category = Category::buffers;
    }
  }

  void add_flush() {
    Builder b(module_, ProgramRole::flush);
    b.set_phase(Phase::update);
    for (const Updates::Trained& t : updates_.trained()) {
      if (folds(module_, updates_, t)) updates_.emit_all(b, t, numbers_);
    }
    say_done(b);
  }

  void add_to_training() {
    Builder b(module_, ProgramRole::training_first);
    b.set_phase(Phase::update);
    std::vector<Op> ops = std::exchange(b.program().ops, {});
    const std::vector<std::vector<Due>> due = when_due(ops);
    const auto last = std::ranges::find_if(due.rbegin(), due.rend(),
                                           [](const auto& some) { return !some.empty(); });
    for (size_t at = 0; at < ops.size(); ++at) {
      for (const Updates::Trained* t : keeps_[at]) keep_grad(b, *t);
      for (const Due& d : due[at]) update(b, *d.trained, d.slice);
      if (at + 1 == static_cast<size_t>(due.rend() - last)) say_done(b);
      for (ValueId& id : ops[at].inputs) id = updated(id);
      b.program().ops.push_back(std::move(ops[at]));
    }
  }

 private:
  // One slice of a parameter's update.
  struct Due {
    const Updates::Trained* trained;
    Updates::Slice slice;
  };

  // Slices come in turn from the last to the first, which begins where the parameter or this rank's
  // shard does: all of it is what is there then, and the other ranks' shards are gathered.
  void update(Builder& b, const Updates::Trained& t, const Updates::Slice& slice) {
    if (updates_.weight_is_first(t)) return updates_.emit(b, without_weight(t), slice, numbers_);
    const Value param = module_[t.param];
    updates_.emit(b, t, slice, numbers_);
    if (slice.first != 0) return;
    ValueId version = version_in(b.last(), t.param);
    if (const ValueId all = updates_.gather(b, t, version); all.valid()) version = all;
    const bool whole = module_[version].type.shape == param.type.shape;
    updated_[t.param] =
        whole ? version : b.view(version, param.name + ".updated", param.type.shape, 0);
  }

  // Its master and state alone.
  Updates::Trained without_weight(Updates::Trained t) const {
    t.param = std::exchange(t.master, {});
    if (const auto kept = kept_grads_.find(t.grad); kept != kept_grads_.end())
      t.grad = kept->second;
    return t;
  }

  // As it was before this step's backward.
  void keep_grad(Builder& b, const Updates::Trained& t) {
    b.set_layer(kNoLayer);
    const ValueId kept = ops::copy(b, module_[t.grad].name + ".kept", t.grad);
    module_[kept].category = Category::staging;
    kept_grads_[t.grad] = kept;
  }

  // A parameter that is prefetched is written as a whole.
  std::vector<Updates::Slice> slices_of(const Updates::Trained& t) const {
    if (!updates_.on_device(t.param))
      return {{.first = 0, .elements = module_[t.param].type.shape.elements()}};
    std::vector<Updates::Slice> slices = updates_.slices_of(t);
    std::ranges::reverse(slices);
    return slices;
  }

  ValueId shared(const char* name, const Type& type) {
    return add_shared(module_, name, type, Category::buffers, Scope::step);
  }

  void say_done(Builder& b) const {
    b.set_layer(kNoLayer);
    const ValueId done = ops::fill(b, "update.done", module_[numbers_.finite].type, 0);
    module_[done].base = numbers_.finite;
    module_[done].category = Category::buffers;
  }

  // The output that is the parameter's next version.
  ValueId version_in(const Op& update, ValueId param) const {
    return *std::ranges::find_if(update.outputs,
                                 [&](ValueId id) { return module_.root(id) == param; });
  }

  // What an op reads once the parameter is updated; a view of it looks at the new version.
  ValueId updated(ValueId id) {
    if (!id.valid()) return id;
    if (const auto found = updated_.find(id); found != updated_.end()) return found->second;
    if (const ValueId base = module_[id].base; base.valid() && !module_[id].shared())
      module_[id].base = updated(base);
    return id;
  }

  // By op: what is updated just before it. A layer's slices take turns with the forward ops of the
  // layer before it, each as late as the elements before it are of all; the first layer's with
  // none. Those of no layer take turns with backward, during which the link is free, and with
  // gradients that are kept for them.
  std::vector<std::vector<Due>> when_due(const std::vector<Op>& ops) {
    std::vector<std::vector<size_t>> forward(module_.layers.size());
    std::vector<size_t> backward;
    std::vector<size_t> first_use(module_.values.size(), ops.size());
    for (size_t at = 0; at < ops.size(); ++at) {
      for_each_access(ops[at], [&](ValueId id, bool) {
        const ValueId root = module_.root(id), shard = gathered_from(module_[root]);
        for (const ValueId used : {root, shard}) {
          if (!used.valid()) continue;
          size_t& first = first_use[static_cast<size_t>(used.index)];
          first = std::min(first, at);
        }
      });
      if (ops[at].phase == Phase::forward && ops[at].layer >= 0)
        forward[static_cast<size_t>(ops[at].layer)].push_back(at);
      if (ops[at].phase == Phase::backward && ops[at].layer >= 0) backward.push_back(at);
    }
    std::vector<std::vector<Due>> of_layer(module_.layers.size());
    std::vector<Due> of_none;
    for (const Updates::Trained& t : updates_.trained()) {
      if (!folds(module_, updates_, t)) continue;
      const int32_t layer = module_[t.param].layer;
      for (const Updates::Slice& slice : slices_of(t))
        (layer == kNoLayer ? of_none : of_layer[static_cast<size_t>(layer)]).push_back({&t, slice});
    }
    std::vector<std::vector<Due>> due(ops.size());
    keeps_.resize(ops.size());
    // Where this program ends with their weights, what that takes comes under the other half.
    if (last_training_program(module_) == ProgramRole::training_first)
      backward.resize((backward.size() + 1) / 2);
    for (size_t i = 0; i < of_none.size(); ++i) {
      const Updates::Trained* t = of_none[i].trained;
      const size_t written = first_use[static_cast<size_t>(t->grad.index)];
      const size_t at = backward.empty() ? written : backward[i * backward.size() / of_none.size()];
      due[at].push_back(of_none[i]);
      if (at > written && std::ranges::find(keeps_[written], t) == keeps_[written].end())
        keeps_[written].push_back(t);
    }
    for (size_t l = 0; l < of_layer.size(); ++l) {
      size_t all = 0, before = 0;
      for (const Due& d : of_layer[l]) all += static_cast<size_t>(d.slice.elements);
      for (const Due& d : of_layer[l]) {
        size_t at = std::min(first_use[static_cast<size_t>(d.trained->param.index)],
                             first_use[static_cast<size_t>(d.trained->grad.index)]);
        // What is gathered takes the time of one more layer.
        const size_t ahead = module_[d.trained->param].shard_of.rank() > 0 ? 2 : 1;
        if (l >= ahead && !forward[l - ahead].empty())
          at = std::min(at, forward[l - ahead][before * forward[l - ahead].size() / all]);
        due[at].push_back(d);
        before += static_cast<size_t>(d.slice.elements);
      }
    }
    return due;
  }

  Module& module_;
  const Updates& updates_;
  Updates::Numbers numbers_;
  std::map<ValueId, ValueId> updated_;                       // parameters, by now
  std::vector<std::vector<const Updates::Trained*>> keeps_;  // by op: whose gradients, before it
  std::map<ValueId, ValueId> kept_grads_;
};

}  // namespace

bool folds(const Module& module, const Updates& updates, const Updates::Trained& t) {
  if (module[t.param].layer == kNoLayer) return updates.weight_is_first(t);
  return !updates.is_all_on_device(t);
}

void emit_weight(Builder& b, const Updates& updates, const Updates::Trained& t,
                 const Updates::Slice& slice, const Updates::Numbers& numbers) {
  updates.emit(b, t, slice, numbers);
  Module& module = b.module();
  for (const ValueId id : b.last().outputs) {
    if (module.root(id) != t.param) module[id].category = Category::staging;
  }
}

void fold_updates(Builder& update, const Updates& updates, const Updates::Numbers& numbers,
                  bool step_only) {
  Fold fold(update.module(), updates);
  fold.keep(update, numbers);
  if (!step_only) fold.add_flush();
  fold.add_to_training();
}

}  // namespace snug

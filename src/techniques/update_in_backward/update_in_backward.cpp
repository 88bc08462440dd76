// Updates inside the last micro-batch's backward: a parameter moves as soon as its gradient is
// complete and nothing reads its old value any more. With a single micro-batch the gradient then
// dies there; with several it is carried between them all the same.
#include "techniques/update_in_backward/update_in_backward.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "ops/basic/is_finite.h"
#include "ops/comm/comm.h"
#include "ops/optimizer/sum_blocks.h"
#include "passes/shared_names.h"
#include "passes/updates.h"

namespace snug {
namespace {

constexpr double kNoClipping = 0;

class UpdateInBackward {
 public:
  UpdateInBackward(Module& module, const Recipe& recipe)
      : module_(module),
        updates_(module, recipe),
        single_(recipe.groups() == 1),
        summed_in_place_(recipe.sharding.on()),
        builder_(module, single_ ? ProgramRole::training_first : ProgramRole::training_last),
        squares_(updates_.trained().size()) {}

  void run() {
    std::vector<Op> ops = std::move(builder_.program().ops);
    builder_.program().ops.clear();
    find_when_due(ops);
    if (single_) let_gradients_die(ops);
    builder_.set_phase(Phase::update);
    for (size_t at = 0; at < ops.size(); ++at) {
      builder_.program().ops.push_back(std::move(ops[at]));
      if (at == loss_known_) count_update();
      for (const Due& due : due_[at]) update(due);
    }
    builder_.set_layer(kNoLayer);
    updates_.bind_norm(updates_.clip(builder_, "norm.clip", squares_, kNoClipping, loss_).norm);
    sweep_values(module_);
  }

 private:
  struct Due {
    const Updates::Trained* trained;
    ValueId grad;  // its last version
  };

  // A parameter is due after the last write of its gradient and the last read of its own bytes.
  void find_when_due(const std::vector<Op>& ops) {
    due_.resize(ops.size());
    std::vector<size_t> last_read(module_.values.size());
    std::vector<size_t> last_write(module_.values.size());
    std::vector<ValueId> version(module_.values.size());
    const ValueId loss = module_.find_shared(shared_names::kLoss);
    for (size_t at = 0; at < ops.size(); ++at) {
      for (ValueId id : ops[at].inputs) {
        if (id.valid()) last_read[root(id)] = at;
      }
      for (ValueId id : ops[at].outputs) {
        last_write[root(id)] = at;
        version[root(id)] = id;
        if (module_.root(id) != loss) continue;
        loss_known_ = at;
        loss_ = id;
      }
    }
    for (const Updates::Trained& t : updates_.trained()) {
      const size_t at = std::max(last_write[root(t.grad)], last_read[root(t.param)]);
      due_[at].push_back({&t, version[root(t.grad)]});
    }
  }
  size_t root(ValueId id) const { return static_cast<size_t>(module_.root(id).index); }

  // What was written into the carried gradient is now written into the bytes of its first version;
  // nothing is carried, and the sweep takes the shared value away. A gradient that ranks sum in its
  // place is carried all the same.
  void let_gradients_die(const std::vector<Op>& ops) {
    std::map<ValueId, std::vector<ValueId>> versions;
    for (const Op& op : ops) {
      for (ValueId id : op.outputs) {
        const Value& value = module_[id];
        if (value.category == Category::grads && value.base.valid() && module_[value.base].shared())
          versions[value.base].push_back(id);
      }
    }
    for (const Updates::Trained& t : updates_.trained()) {
      const std::vector<ValueId>& all = versions.at(t.grad);
      if (summed_in_place_ && (all.size() > 1 || module_[all[0]].view_offset != 0 ||
                               module_[all[0]].type.bytes() != module_[t.grad].storage_bytes()))
        continue;
      for (const ValueId id : all) module_[id].base = id == all[0] ? ValueId{} : all[0];
      module_[t.grad].scope = Scope::local;
    }
  }

  void count_update() {
    builder_.set_layer(kNoLayer);
    if (module_[loss_].type.shape.rank() > 0)  // of all ranks
      loss_ = builder_.view(loss_, "loss.over_ranks", {}, 0);
    step_ = updates_.advance(builder_, ops::is_finite(builder_, "loss.finite", loss_));
  }

  // A gradient that is not finite leaves its parameter alone, a loss that is not leaves all alone.
  void update(const Due& due) {
    const std::string name = "update." + due.trained->name;
    builder_.set_layer(module_[due.trained->param].layer);
    const ValueId grad = updates_.shaped(builder_, *due.trained, due.grad);
    const ValueId squares =
        over_all_ranks(due, ops::sum_squares(builder_, name + ".squares", grad));
    const ops::Clip clip = updates_.clip(builder_, name + ".finite", {squares}, kNoClipping, loss_);
    squares_[static_cast<size_t>(due.trained - updates_.trained().data())] = squares;
    updates_.emit(builder_, *due.trained, grad, updates_.numbers(step_, clip));
  }

  // A rank sums the blocks of its shard; of all ranks they are those of the whole, and of padding.
  ValueId over_all_ranks(const Due& due, ValueId squares) {
    const Cut& cut = due.trained->cut;
    if (!cut.on()) return squares;
    const std::string name = "update." + due.trained->name + ".all_squares";
    const ValueId all = ops::all_gather(builder_, name, squares, over_sharers(updates_.sharding()));
    const int64_t blocks = ops::sum_blocks(module_[due.trained->param].whole().elements());
    return builder_.view(all, name + ".whole", {blocks}, 0);
  }

  Module& module_;
  const Updates updates_;
  bool single_;
  bool summed_in_place_;  // maybe
  Builder builder_;
  size_t loss_known_ = 0;  // the op that makes the step's loss
  ValueId loss_;
  std::vector<std::vector<Due>> due_;  // by op
  std::vector<ValueId> squares_;       // in the order of the parameters, as `optimizer` has them
  ValueId step_;
};

}  // namespace

void update_in_backward(Module& module, const Recipe& recipe) {
  if (recipe.clip > 0 || recipe.loss_scale.dynamic)
    throw internal_error(
        "a parameter that is updated in backward cannot wait for the norm that clipping and a "
        "dynamic loss scale ask for");
  UpdateInBackward(module, recipe).run();
}

}  // namespace snug

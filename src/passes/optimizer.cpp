// The update as a program of its own: global norm and clipping over all gradients, then each
// parameter; or, folded, all but the layers' own, which the next step updates on its way. A norm or
// a loss that is not finite turns the whole update off, and the optimizer's own step count with it;
// a dynamic loss scale then shrinks.
#include <algorithm>

#include "ir/builder.h"
#include "ops/basic/copy.h"
#include "ops/comm/comm.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/sum_blocks.h"
#include "passes/backward_squares.h"
#include "passes/fold_updates.h"
#include "passes/updates.h"

namespace snug {
namespace {

void adjust_scale(Builder& b, const LossScale& p, ValueId finite) {
  Module& module = b.module();
  b.set_layer(kNoLayer);
  const ValueId clean = add_shared(module, "loss_scale.clean", {Dtype::i64, {}}, Category::buffers,
                                   Scope::persistent);
  ops::adjust_loss_scale(b, "loss_scale.next",
                         {.loss_scale = module.find_shared(shared_names::kLossScale),
                          .clean = clean,
                          .finite = finite,
                          .growth = p.growth,
                          .backoff = p.backoff,
                          .interval = p.interval,
                          .floor = p.floor});
}

// The sums of squares of all gradients, in the order of the parameters. A rank sums the blocks of its
// shards; they lie in one row for each rank, which one collective gathers.
class Squares {
 public:
  // `known`: by gradient, those that backward has summed.
  Squares(Builder& b, const Updates& updates, const std::map<ValueId, ValueId>& known)
      : b_(b), module_(b.module()), trained_(updates.trained()), updates_(updates), known_(known) {
    for (const Updates::Trained& t : trained_) {
      places_.push_back(row_);
      if (t.cut.on()) row_ += t.cut.block / ops::kSumBlock;
    }
  }

  std::vector<ValueId> all() {
    std::vector<ValueId> whole(trained_.size());  // in a row: together they are few launches
    for (size_t i = 0; i < trained_.size(); ++i)
      if (!trained_[i].cut.on()) whole[i] = sum_of(trained_[i]);
    const ValueId rows = row_ > 0 ? gather() : ValueId{};
    std::vector<ValueId> squares;
    for (size_t i = 0; i < trained_.size(); ++i) {
      if (whole[i].valid()) {
        squares.push_back(whole[i]);
      } else {
        add_blocks_of(i, rows, squares);
      }
    }
    return squares;
  }

 private:
  std::string name_of_sum(const Updates::Trained& t) const { return "norm." + t.name + ".squares"; }

  ValueId sum_of(const Updates::Trained& t) {
    b_.set_layer(module_[t.param].layer);
    const auto known = known_.find(t.grad);
    if (known == known_.end())
      return ops::sum_squares(b_, name_of_sum(t), updates_.own_part(b_, t, t.grad));
    return t.cut.on() ? ops::copy(b_, name_of_sum(t), known->second) : known->second;
  }

  // From the last to the first, so that the first is written when all are there.
  ValueId gather() {
    const int64_t ranks = shards().ranks;
    const ValueId rows = add_shared(module_, "norm.squares", {Dtype::f64, {ranks * row_}},
                                    Category::buffers, Scope::step);
    ValueId first;
    for (size_t i = trained_.size(); i-- > 0;) {
      if (!trained_[i].cut.on()) continue;
      first = sum_of(trained_[i]);
      module_[first].base = rows;
      module_[first].view_offset = shards().rank * row_ + places_[i];
      module_[first].category = Category::buffers;
    }
    b_.set_layer(kNoLayer);
    const ValueId own = b_.view(first, "norm.squares.own", {row_}, 0);
    const ValueId all =
        ops::all_gather(b_, "norm.squares.gather", own, {.axis = kDataAxis, .ranks = ranks});
    module_[all].base = rows;
    module_[all].category = Category::buffers;
    return all;
  }

  const Cut& shards() const {
    return std::ranges::find_if(trained_, [](const auto& t) { return t.cut.on(); })->cut;
  }

  // Without those of padding: what is left is what one device has.
  void add_blocks_of(size_t i, ValueId rows, std::vector<ValueId>& squares) {
    const Updates::Trained& t = trained_[i];
    const int64_t each = t.cut.block / ops::kSumBlock;
    int64_t left = ops::sum_blocks(module_[t.param].whole().elements());
    for (int64_t rank = 0; left > 0; ++rank, left -= each)
      squares.push_back(b_.view(rows, name_of_sum(t) + ".of_rank", {std::min(left, each)},
                                rank * row_ + places_[i]));
  }

  Builder& b_;
  Module& module_;
  const std::vector<Updates::Trained>& trained_;
  const Updates& updates_;
  const std::map<ValueId, ValueId>& known_;
  std::vector<int64_t> places_;  // by parameter: in a row
  int64_t row_ = 0;              // blocks of a rank
};

}  // namespace

void optimizer(Module& module, const Recipe& recipe) {
  const Updates updates(module, recipe);
  const std::map<ValueId, ValueId> sums = sum_squares_in_backward(module, updates);
  // A search asks about the update alone: then there is nothing to fold it into.
  const bool fold = recipe.fold_update && module.program_index(ProgramRole::training_first) >= 0 &&
                    std::ranges::any_of(updates.trained(), [&](const Updates::Trained& t) {
                      return folds(module, updates, t);
                    });
  Builder b(module, ProgramRole::update);
  b.set_phase(Phase::update);
  const std::vector<ValueId> squares = Squares(b, updates, sums).all();
  b.set_layer(kNoLayer);
  const ValueId loss = module.find_shared(shared_names::kLoss);
  const ops::Clip clip = updates.clip(b, "norm.clip", squares, recipe.clip, loss);
  updates.bind_norm(clip.norm);
  const ValueId step = updates.advance(b, clip.finite);
  const Updates::Numbers numbers = updates.numbers(step, clip);
  for (const Updates::Trained& t : updates.trained()) {
    if (fold && folds(module, updates, t)) continue;
    updates.emit_all(b, t, numbers);
  }
  if (recipe.loss_scale.dynamic) adjust_scale(b, recipe.loss_scale, clip.finite);
  module.step.push_back({1, {b.program().name}});
  if (fold) fold_updates(b, updates, numbers);
}

}  // namespace snug

#include "passes/gradient_squares.h"

#include <algorithm>
#include <utility>

#include "ops/basic/copy.h"
#include "ops/comm/column.h"
#include "ops/comm/comm.h"
#include "ops/optimizer/sum_blocks.h"
#include "passes/pipeline_parallel.h"

namespace snug {
namespace {

std::string name_of_sum(const Updates::Trained& t) { return "norm." + t.name + ".squares"; }

}  // namespace

GradientSquares::GradientSquares(Builder& b, const Updates& updates, How how)
    : b_(b),
      module_(b.module()),
      trained_(updates.trained()),
      updates_(updates),
      how_(std::move(how)) {
  for (const Updates::Trained& t : trained_) {
    places_.push_back(row_);
    if (t.cut.on()) row_ += t.cut.block / ops::kSumBlock;
  }
}

std::vector<ValueId> GradientSquares::all() {
  std::vector<ValueId> whole(trained_.size());  // in a row: together they are few launches
  for (size_t i = 0; i < trained_.size(); ++i)
    if (!trained_[i].cut.on() && counts(trained_[i])) whole[i] = sum_of(trained_[i]);
  const ValueId rows = row_ > 0 ? gather() : ValueId{};
  std::vector<ValueId> squares;
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (whole[i].valid()) {
      squares.push_back(whole[i]);
    } else if (trained_[i].cut.on() && counts(trained_[i])) {
      squares.push_back(blocks_of(i, rows));
    }
  }
  return squares;
}

bool GradientSquares::counts(const Updates::Trained& t) const {
  return !is_counted_elsewhere(module_[t.grad], how_.mesh);
}

ValueId GradientSquares::sum_of(const Updates::Trained& t) {
  b_.set_layer(how_.in_layers ? module_[t.param].layer : kNoLayer);
  const auto summed = how_.summed.find(t.grad);
  if (summed == how_.summed.end())
    return ops::sum_squares(b_, name_of_sum(t), updates_.own_part(b_, t, how_.now(t.grad)));
  const ValueId sum = how_.now(summed->second);
  return t.cut.on() ? ops::copy(b_, name_of_sum(t), sum) : sum;
}

// From the last to the first, so that the first is written when all are there.
ValueId GradientSquares::gather() {
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
      ops::all_gather(b_, "norm.squares.gather", own, over_sharers(updates_.sharding()));
  module_[all].base = rows;
  module_[all].category = Category::buffers;
  return all;
}

const Cut& GradientSquares::shards() const {
  return std::ranges::find_if(trained_, [](const auto& t) { return t.cut.on(); })->cut;
}

// Without those of padding: what is left is what one device has.
ValueId GradientSquares::blocks_of(size_t i, ValueId rows) {
  const Updates::Trained& t = trained_[i];
  return ops::column(b_, name_of_sum(t) + ".of_ranks", rows,
                     {.ranks = t.cut.ranks,
                      .first = places_[i],
                      .each = t.cut.block / ops::kSumBlock,
                      .elements = ops::sum_blocks(module_[t.param].whole().elements())});
}

}  // namespace snug

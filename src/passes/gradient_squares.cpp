#include "passes/gradient_squares.h"

#include <algorithm>
#include <utility>

#include "ops/basic/copy.h"
#include "ops/comm/column.h"
#include "ops/comm/comm.h"
#include "ops/optimizer/sum_blocks.h"
#include "passes/mesh.h"

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
    places_.push_back(t.cut.on() ? row_ : whole_);
    if (t.cut.on()) {
      row_ += t.cut.block / ops::kSumBlock;
    } else if (in_row(t)) {
      for (const Box& box : boxes_of(t)) whole_ += ops::sum_blocks(box.elements);
    }
  }
}

std::vector<Squares> GradientSquares::all() {
  std::vector<ValueId> whole(trained_.size());  // in a row: together they are few launches
  for (size_t i = 0; i < trained_.size(); ++i)
    if (!in_row(trained_[i]) && counts(trained_[i]))
      whole[i] = sum_of(trained_[i], boxes_of(trained_[i])[0]);
  const ValueId rows = part_blocks() > 0 ? gather() : ValueId{};
  std::vector<Squares> squares;
  for (size_t i = 0; i < trained_.size(); ++i) {
    if (whole[i].valid()) {
      squares.push_back({whole[i], module_[trained_[i].param].layer});
    } else if (in_row(trained_[i]) && counts(trained_[i])) {
      add_blocks_of(i, rows, squares);
    }
  }
  return squares;
}

bool is_counted_on_earlier_stage(const Value& gradient, const Mesh& mesh) {
  return gradient.param != nullptr && mesh.stage > 0;
}

bool GradientSquares::counts(const Updates::Trained& t) const {
  return !is_counted_on_earlier_stage(module_[t.grad], how_.mesh);
}

std::vector<GradientSquares::Box> GradientSquares::boxes_of(const TensorCut& cut,
                                                            int64_t elements) {
  if (cut.repeats == 1) return {{0, elements}};
  return {{0, cut.repeated_from}, {cut.repeated_from, elements - cut.repeated_from, cut.repeats}};
}

std::vector<GradientSquares::Box> GradientSquares::boxes_of(const Updates::Trained& t) const {
  return boxes_of(module_[t.param].param->cut,
                  t.cut.on() ? t.cut.block : module_[t.grad].type.shape.elements());
}

int64_t sums_of_squares(const Module& module, ValueId gradient, const Mesh& mesh) {
  const TensorCut& cut = module[module[gradient].parameter].param->cut;
  int64_t sums = 0;
  for (const auto& box : GradientSquares::boxes_of(cut, module[gradient].type.shape.elements()))
    sums += (cut.on() ? mesh.tp / box.sharers : 1) * ops::sum_blocks(box.elements);
  return sums;
}

bool GradientSquares::in_row(const Updates::Trained& t) const {
  return t.cut.on() || module_[t.param].param->cut.on();
}

int64_t GradientSquares::part_blocks() const {
  return whole_ + (row_ > 0 ? shards().ranks * row_ : 0);
}

ValueId GradientSquares::sum_of(const Updates::Trained& t, const Box& box) {
  b_.set_layer(how_.in_layers ? module_[t.param].layer : kNoLayer);
  const auto summed = how_.summed.find(t.grad);
  if (summed == how_.summed.end()) {
    ValueId gradient = updates_.own_part(b_, t, how_.now(t.grad));
    if (box.sharers > 1 || box.elements < module_[gradient].type.shape.elements())
      gradient = b_.view(gradient, name_of_sum(t) + ".piece", {box.elements}, box.first);
    return ops::sum_squares(b_, name_of_sum(t), gradient);
  }
  if (boxes_of(t).size() > 1)
    throw usage_error(
        "--tp: gradients of keys and values that several ranks have cannot be offloaded");
  const ValueId sum = how_.now(summed->second);
  return in_row(t) ? ops::copy(b_, name_of_sum(t), sum) : sum;
}

// Of this tensor rank; from the last to the first, so that the first is written when all are there.
ValueId GradientSquares::own_sums() {
  const Mesh& mesh = updates_.mesh();
  const int64_t part = mesh.part * part_blocks();
  const ValueId rows = add_shared(module_, "norm.squares", {Dtype::f64, {mesh.tp * part_blocks()}},
                                  Category::buffers, Scope::step);
  const auto write = [&](ValueId sum, int64_t place) {
    module_[sum].base = rows;
    module_[sum].view_offset = place;
    module_[sum].category = Category::buffers;
    return sum;
  };
  ValueId first;
  if (row_ > 0) {
    for (size_t i = trained_.size(); i-- > 0;) {
      if (!trained_[i].cut.on()) continue;
      first = write(sum_of(trained_[i], boxes_of(trained_[i])[0]),
                    part + whole_ + shards().rank * row_ + places_[i]);
    }
    b_.set_layer(kNoLayer);
    const ValueId own = b_.view(first, "norm.squares.own", {row_}, 0);
    first =
        write(ops::all_gather(b_, "norm.squares.gather", own, over_sharers(updates_.sharding())),
              part + whole_);
  }
  for (size_t i = trained_.size(); i-- > 0;) {
    if (trained_[i].cut.on() || !in_row(trained_[i])) continue;
    const std::vector<Box> boxes = boxes_of(trained_[i]);
    int64_t end = places_[i];
    for (const Box& box : boxes) end += ops::sum_blocks(box.elements);
    for (size_t p = boxes.size(); p-- > 0;) {
      end -= ops::sum_blocks(boxes[p].elements);
      first = write(sum_of(trained_[i], boxes[p]), part + end);
    }
  }
  return first;
}

ValueId GradientSquares::gather() {
  const Mesh& mesh = updates_.mesh();
  const ValueId first = own_sums();
  b_.set_layer(kNoLayer);
  if (mesh.tp == 1) return first;
  const ValueId own = b_.view(first, "norm.squares.part", {part_blocks()}, 0);
  const ValueId all = ops::all_gather(b_, "norm.squares.parts", own, over_tensor(mesh));
  module_[all].base = module_.root(first);
  module_[all].category = Category::buffers;
  return all;
}

const Cut& GradientSquares::shards() const {
  return std::ranges::find_if(trained_, [](const auto& t) { return t.cut.on(); })->cut;
}

// Of a gradient that tensor ranks share, the sums of all of them; of others those of this rank.
void GradientSquares::add_blocks_of(size_t i, ValueId rows, std::vector<Squares>& squares) {
  const Updates::Trained& t = trained_[i];
  const Mesh& mesh = updates_.mesh();
  const int32_t layer = module_[t.param].layer;
  const bool shared = module_[t.param].param->cut.on();
  for (int64_t part = shared ? 0 : mesh.part; part < (shared ? mesh.tp : mesh.part + 1); ++part) {
    if (t.cut.on()) {
      squares.push_back({shards_of(i, rows, part), layer});
      continue;
    }
    int64_t place = part * part_blocks() + places_[i];
    for (const Box& box : boxes_of(t)) {
      const int64_t blocks = ops::sum_blocks(box.elements);
      if (part % box.sharers == 0)
        squares.push_back({b_.view(rows, name_of_sum(t) + ".of_part", {blocks}, place), layer});
      place += blocks;
    }
  }
}

// Without those of padding: what is left is what one device has.
ValueId GradientSquares::shards_of(size_t i, ValueId rows, int64_t part) {
  const Updates::Trained& t = trained_[i];
  const ValueId shards_of_part = b_.view(rows, name_of_sum(t) + ".of_part", {t.cut.ranks * row_},
                                         part * part_blocks() + whole_);
  return ops::column(b_, name_of_sum(t) + ".of_ranks", shards_of_part,
                     {.ranks = t.cut.ranks,
                      .first = places_[i],
                      .each = t.cut.block / ops::kSumBlock,
                      .elements = ops::sum_blocks(module_[t.param].whole().elements())});
}

}  // namespace snug

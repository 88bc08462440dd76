// The sums of squares of all gradients, in the order of the parameters: what the norm is added up
// from. A rank sums the blocks of its shards; they lie in one row for each rank, which one collective
// gathers. Where ranks share matrices, each has such rows of its part, after the sums of what is not
// sharded of it: one more collective gathers them all, and each gradient is counted once.
//
//   squares = GradientSquares(update, updates, {.summed = sums}).all();
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/sharding.h"
#include "passes/updates.h"

namespace snug {

// How many sums the norm reads of a gradient that no data-parallel ranks cut: those of all tensor ranks.
int64_t sums_of_squares(const Module& module, ValueId gradient, const Mesh& mesh);

// Some or all of a gradient's.
struct Squares {
  ValueId sums;
  int32_t layer;  // the parameter's
};

// Does an earlier pipeline stage have this gradient, too, and count it?
bool is_counted_on_earlier_stage(const Value& gradient, const Mesh& mesh);

class GradientSquares {
 public:
  struct How {
    const std::map<ValueId, ValueId>& summed;  // by gradient: what backward has summed
    // The latest version of a shared value in the program.
    std::function<ValueId(ValueId)> now = [](ValueId id) { return id; };
    bool in_layers = true;  // a sum's op is of the parameter's layer, else of none
    Mesh mesh = {};
  };
  GradientSquares(Builder& b, const Updates& updates, How how);

  std::vector<Squares> all();

 private:
  bool counts(const Updates::Trained& t) const;
  // What begins at an element of a gradient and is on so many tensor ranks.
  struct Box {
    int64_t first = 0, elements = 0, sharers = 1;
  };
  static std::vector<Box> boxes_of(const TensorCut& cut, int64_t elements);
  std::vector<Box> boxes_of(const Updates::Trained& t) const;
  friend int64_t sums_of_squares(const Module& module, ValueId gradient, const Mesh& mesh);
  bool in_row(const Updates::Trained& t) const;  // its sums go to other ranks
  ValueId sum_of(const Updates::Trained& t, const Box& box);
  ValueId own_sums();
  ValueId gather();
  int64_t part_blocks() const;  // of a tensor rank
  const Cut& shards() const;
  void add_blocks_of(size_t i, ValueId rows, std::vector<Squares>& squares);
  ValueId shards_of(size_t i, ValueId rows, int64_t part);

  Builder& b_;
  Module& module_;
  const std::vector<Updates::Trained>& trained_;
  const Updates& updates_;
  How how_;
  std::vector<int64_t> places_;  // by parameter: in the row of a rank, or among what is not sharded
  int64_t row_ = 0;              // blocks of a data-parallel rank
  int64_t whole_ = 0;            // blocks of what a tensor rank has whole, before those rows
};

}  // namespace snug

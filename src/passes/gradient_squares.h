// The sums of squares of all gradients, in the order of the parameters: what the norm is added up
// from. A rank sums the blocks of its shards; they lie in one row for each rank, which one collective
// gathers.
//
//   squares = GradientSquares(update, updates, {.summed = sums}).all();
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "passes/updates.h"

namespace snug {

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

  std::vector<ValueId> all();

 private:
  bool counts(const Updates::Trained& t) const;
  ValueId sum_of(const Updates::Trained& t);
  ValueId gather();
  const Cut& shards() const;
  ValueId blocks_of(size_t i, ValueId rows);

  Builder& b_;
  Module& module_;
  const std::vector<Updates::Trained>& trained_;
  const Updates& updates_;
  How how_;
  std::vector<int64_t> places_;  // by parameter: in a row
  int64_t row_ = 0;              // blocks of a rank
};

}  // namespace snug

// What ranks have exchanged, added up in the order of the ranks: the same bits on every rank, with
// every engine and however the whole is cut.
//
//   ValueId blocks = all_to_all(b, "grad.exchange", grad, {.axis = "dp", .ranks = 4});
//   ValueId sum = rank_sum(b, "grad.sum", blocks, {.ranks = 4, .elements = 4096});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

// (blocks [ranks * n], accumulator [n]?) -> sum [n]: accumulator + block 0 + block 1 + ..., in fp32,
// rounded once. Elements from attr `elements` on are padding: the sum is zero there. With attr `first`
// a block is a row of several values (pack.h), and n is `elements` of it from there on.
extern const OpDef rank_sum_def;

struct RankSum {
  int64_t ranks = 1;
  int64_t elements = 0;  // of n
  int64_t first = -1;    // in a row
};
ValueId rank_sum(Builder& b, std::string_view name, ValueId blocks, const RankSum& s,
                 ValueId accumulator = {});

void rank_sum_cuda(const KernelArgs& args);

}  // namespace snug::ops

// How the ranks of a job share its state: as data for the passes.
//
//   const Sharding zero3{.ranks = 8, .rank = 2, .stage = 3};
//   const Cut cut = cut_of(module[weight], /*grain=*/8, zero3);
//   cut.block;    // elements of each rank
//   cut.first();  // this rank's first
//
// Every rank reads other samples with the same program. The gradients are summed over the ranks; what
// is cut has one shard on every rank:
//
//   stage 0   nothing                       (NO_SHARD)
//   stage 1   masters and optimizer state
//   stage 2   gradients, too                (SHARD_GRAD_OP keeps parameters whole like this)
//   stage 3   parameters, too               (FULL_SHARD)
//
// All ranks have the same program but for three kinds of numbers: where a shard begins in the whole
// (attributes of updates and sums, offsets of views), and so the same bytes.
#pragma once

#include <cstdint>

#include "ir/value.h"

namespace snug {

struct Sharding {
  int64_t ranks = 1;
  int64_t rank = 0;
  int64_t stage = 0;
  int64_t threshold = 100'000;  // parameters of fewer elements stay whole

  bool on() const { return ranks > 1; }
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// The axis of its collectives.
constexpr const char* kDataAxis = "dp";

// The shards of one parameter and of what belongs to it.
struct Cut {
  int64_t ranks = 1;
  int64_t rank = 0;
  int64_t block = 0;  // elements of each; 0: it stays whole

  bool on() const { return block > 0; }
  int64_t first() const { return rank * block; }
  int64_t padded() const { return ranks * block; }
  // Of a value that has one element for so many of the parameter's.
  Cut per(int64_t elements) const { return {ranks, rank, block / elements}; }
};

// `grain`: shards begin at multiples of so many elements; 0: it cannot be cut.
Cut cut_of(const Value& parameter, int64_t grain, const Sharding& sharding);

// Makes a value of the parameter's shape this rank's shard.
void make_shard(Value& value, const Cut& cut);
// Storage that all shards fill, in a value that every rank has whole.
void pad(Value& value, const Cut& cut);

}  // namespace snug

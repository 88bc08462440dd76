// The shards of what the ranks of a job share (techniques/zero/settings.h says what that is).
//
//   const Sharding zero3{.ranks = 8, .rank = 2, .level = 3};
//   const Cut cut = cut_of(module[weight], /*grain=*/8, zero3);
//   cut.block;    // elements of each rank
//   cut.first();  // this rank's first
//
// All ranks have the same program but for three kinds of numbers: where a shard begins in the whole
// (attributes of updates and sums, offsets of views), and so the same bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/value.h"
#include "techniques/zero/settings.h"

namespace snug {

namespace ops {
struct Collective;
}

// Collectives over all ranks, over the sharers of one copy, and over those that have the same shard.
ops::Collective over_all(const Sharding& sharding);
ops::Collective over_sharers(const Sharding& sharding);
ops::Collective over_copies(const Sharding& sharding);

// The places that a collective of this rank over one of these axes is among, in its order.
std::vector<int64_t> places_on(std::string_view axis, const Sharding& sharding);

// The shards of one parameter and of what belongs to it.
struct Cut {
  int64_t ranks = 1;  // that share it
  int64_t rank = 0;   // this one's place among them
  int64_t block = 0;  // elements of each; 0: it stays whole

  bool on() const { return block > 0; }
  int64_t first() const { return rank * block; }
  int64_t padded() const { return ranks * block; }
  // Of a value that has one element for so many of the parameter's.
  Cut per(int64_t elements) const { return {ranks, rank, block / elements}; }
};

// `grain`: shards begin at multiples of so many elements; 0: it cannot be cut.
Cut cut_of(const Value& parameter, int64_t grain, const Sharding& sharding);

// The shard of a parameter that is gathered; none of all others.
inline ValueId gathered_from(const Value& value) {
  return value.category == Category::params ? value.parameter : ValueId{};
}

// Makes a value of the parameter's shape this rank's shard.
void make_shard(Value& value, const Cut& cut);
// Storage that all shards fill, in a value that every rank has whole.
void pad(Value& value, const Cut& cut);

}  // namespace snug

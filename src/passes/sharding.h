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
// With `group` (HYBRID_SHARD) so many ranks share one copy of the state, and there are as many copies
// as there are such groups: the ranks are a mesh, copies x sharers. Gradients are summed over all
// ranks; shards are gathered among the sharers of one copy.
//
// All ranks have the same program but for three kinds of numbers: where a shard begins in the whole
// (attributes of updates and sums, offsets of views), and so the same bytes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/value.h"

namespace snug {

namespace ops {
struct Collective;
}

struct Sharding {
  int64_t ranks = 1;
  int64_t rank = 0;  // in the order of sums and samples: those of one place are neighbours
  int64_t stage = 0;
  int64_t threshold = 100'000;  // parameters of fewer elements stay whole
  int64_t group = 0;            // ranks that share one copy, a divisor of all; 0: all of them
  int64_t stride = 1;           // of the job's ranks, from one of these to the next (passes/mesh.h)

  bool on() const { return ranks > 1; }
  int64_t sharers() const { return group > 0 ? group : ranks; }  // of one copy
  int64_t copies() const { return ranks / sharers(); }
  int64_t place() const { return rank / copies(); }  // among the sharers
  int64_t copy() const { return rank % copies(); }   // that this rank has a part of
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// Collectives over all ranks, over the sharers of one copy, and over those that have the same shard.
ops::Collective over_all(const Sharding& sharding);
ops::Collective over_sharers(const Sharding& sharding);
ops::Collective over_copies(const Sharding& sharding);

// Places on this axis are numbered so that the sharers of a copy are neighbours, on one machine where
// they have room there; a rank's number here is another.
int64_t rank_on_axis(int64_t place, const Sharding& sharding);
int64_t place_on_axis(int64_t rank, const Sharding& sharding);
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

// Makes a value of the parameter's shape this rank's shard.
void make_shard(Value& value, const Cut& cut);
// Storage that all shards fill, in a value that every rank has whole.
void pad(Value& value, const Cut& cut);

}  // namespace snug

// --zero and --shard: what data-parallel ranks share.
#pragma once

#include "settings/setting_text.h"

namespace snug {

// The levels of ZeRO: nothing is shared; masters and optimizer state; gradients, too; parameters, too.
enum class ZeroLevel : uint8_t { none, state, gradients, parameters };
template <>
inline constexpr auto kWords<ZeroLevel> =
    std::to_array<Word<ZeroLevel>>({{"0", ZeroLevel::none},
                                    {"1", ZeroLevel::state},
                                    {"2", ZeroLevel::gradients},
                                    {"3", ZeroLevel::parameters}});

// The same in FSDP's words; or groups of ranks, of which each has a copy of the state.
struct Shard {
  enum class Kind : uint8_t { not_given, none, grad_op, full, hybrid } kind = Kind::not_given;
  int64_t group = 0;  // ranks of a group, where hybrid

  bool given() const { return kind != Kind::not_given; }
  friend bool operator==(const Shard&, const Shard&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // "" | none | grad-op | full | hybrid:N
  static Shard parse(std::string_view text, std::string_view option);
};
std::string text(const Shard& shard);

// How the ranks of a job share its state, as data for the passes (passes/sharding.h).
//
// Every rank reads other samples with the same program. The gradients are summed over the ranks; what
// is cut has one shard on every rank:
//
//   level 0   nothing                       (NO_SHARD)
//   level 1   masters and optimizer state
//   level 2   gradients, too                (SHARD_GRAD_OP keeps parameters whole like this)
//   level 3   parameters, too               (FULL_SHARD)
//
// With `group` (HYBRID_SHARD) so many ranks share one copy of the state, and there are as many copies
// as there are such groups: the ranks are a mesh, copies x sharers. Gradients are summed over all
// ranks; shards are gathered among the sharers of one copy.
struct Sharding {
  int64_t ranks = 1;
  int64_t rank = 0;  // in the order of sums and samples: those of one place are neighbours
  int64_t level = 0;
  int64_t threshold = 100'000;  // parameters of fewer elements stay whole
  int64_t group = 0;            // ranks that share one copy, a divisor of all; 0: all of them
  int64_t stride = 1;  // of the job's ranks, from one of these to the next (settings/mesh.h)

  bool on() const { return ranks > 1; }
  int64_t sharers() const { return group > 0 ? group : ranks; }  // of one copy
  int64_t copies() const { return ranks / sharers(); }
  int64_t place() const { return rank / copies(); }  // among the sharers
  int64_t copy() const { return rank % copies(); }   // that this rank has a part of
  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// Places on the data-parallel axis are numbered so that the sharers of a copy are neighbours, on one
// machine where they have room there; a rank's number here is another.
int64_t rank_on_axis(int64_t place, const Sharding& sharding);
int64_t place_on_axis(int64_t rank, const Sharding& sharding);

}  // namespace snug

#include "passes/sharding.h"

#include <numeric>
#include <string>

#include "base/error.h"
#include "base/units.h"
#include "ops/comm/comm.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug {
namespace {

// The mesh's axes; where all ranks share one copy there is only the first.
constexpr std::string_view kAllRanks = "dp", kSharers = "dp_shard", kCopies = "dp_copy";

// Each copy's part of a shard begins where kernels like it.
constexpr int64_t kPartUnit = 64;

}  // namespace

ops::Collective over_all(const Sharding& s) {
  return {.axis = std::string(kAllRanks), .ranks = s.ranks, .stride = s.stride};
}

ops::Collective over_sharers(const Sharding& s) {
  return {.axis = std::string(s.copies() > 1 ? kSharers : kAllRanks),
          .ranks = s.sharers(),
          .stride = s.stride};
}

ops::Collective over_copies(const Sharding& s) {
  return {.axis = std::string(kCopies), .ranks = s.copies(), .stride = s.sharers() * s.stride};
}

std::vector<int64_t> places_on(std::string_view axis, const Sharding& s) {
  const auto is_among = [&](const Sharding& other) {
    if (axis == kAllRanks) return true;
    if (axis == kSharers) return other.copy() == s.copy();
    if (axis == kCopies) return other.place() == s.place();
    throw internal_error("no axis of the mesh is called '{}'", axis);
  };
  std::vector<int64_t> out;
  Sharding other = s;
  for (other.rank = 0; other.rank < s.ranks; ++other.rank)
    if (is_among(other)) out.push_back(place_on_axis(other.rank, s));
  return out;
}

// The norm is a sum over blocks: at their ends a cut changes no bit of it.
Cut cut_of(const Value& parameter, int64_t grain, const Sharding& sharding) {
  const int64_t elements = parameter.whole().elements();
  if (!sharding.on() || sharding.level == 0 || grain == 0 || elements < sharding.threshold ||
      elements == 0)
    return {};
  const int64_t unit = std::lcm(std::lcm(grain, ops::kSumBlock), sharding.copies() * kPartUnit);
  return {.ranks = sharding.sharers(),
          .rank = sharding.place(),
          .block = round_up(ceil_div(elements, sharding.sharers()), unit)};
}

void make_shard(Value& value, const Cut& cut) {
  value.shard_of = value.type.shape;
  value.shard_first = cut.first();
  value.type.shape = {cut.block};
  value.padded = {};
}

void pad(Value& value, const Cut& cut) {
  if (cut.padded() > value.type.shape.elements()) value.padded = {cut.padded()};
}

}  // namespace snug

#include "passes/sharding.h"

#include <numeric>

#include "base/units.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug {

// The norm is a sum over blocks: at their ends a cut changes no bit of it.
Cut cut_of(const Value& parameter, int64_t grain, const Sharding& sharding) {
  const int64_t elements = parameter.whole().elements();
  if (!sharding.on() || sharding.stage == 0 || grain == 0 || elements < sharding.threshold ||
      elements == 0)
    return {};
  const int64_t unit = std::lcm(grain, ops::kSumBlock);
  return {.ranks = sharding.ranks,
          .rank = sharding.rank,
          .block = round_up(ceil_div(elements, sharding.ranks), unit)};
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

#include "recipe/settings.h"

#include <cstdint>
#include <initializer_list>

namespace snug {
namespace {

size_t mixed(std::initializer_list<int64_t> numbers) {
  size_t hash = 0;
  for (const int64_t n : numbers)
    hash ^= std::hash<int64_t>{}(n) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
  return hash;
}

}  // namespace

size_t hash_of(const Settings& settings) {
  const auto& [build, recipe, math] = settings;
  return mixed({build.batch,
                build.seq,
                static_cast<int64_t>(build.attention),
                build.attention_chunk,
                static_cast<int64_t>(build.chunked_loss),
                build.loss_chunk,
                recipe.accum,
                recipe.micro_group,
                static_cast<int64_t>(recipe.compress),
                static_cast<int64_t>(recipe.precision),
                static_cast<int64_t>(recipe.grad_dtype),
                static_cast<int64_t>(recipe.optimizer),
                static_cast<int64_t>(recipe.state_dtype),
                static_cast<int64_t>(recipe.master),
                static_cast<int64_t>(recipe.update_in_backward),
                static_cast<int64_t>(recipe.fold_update),
                static_cast<int64_t>(recipe.host_update.on),
                static_cast<int64_t>(recipe.offload.rules.size()),
                static_cast<int64_t>(recipe.recompute.kind),
                recipe.sharding.stage,
                recipe.sharding.ranks,
                recipe.sharding.group,
                recipe.mesh.tp,
                static_cast<int64_t>(math.tf32)});
}

}  // namespace snug

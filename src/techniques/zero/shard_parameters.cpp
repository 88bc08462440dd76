// Parameters that ranks share. At levels 1 and 2 every rank has all of them, with storage for what
// all shards update; at level 3 each has its shard, and ops read wholes that are gathered
// (techniques/offload).
#include "techniques/zero/zero.h"

#include "ir/builder.h"
#include "passes/mesh.h"
#include "passes/updates.h"

namespace snug {
namespace {

// What every op reads in its place.
ValueId add_whole(Module& module, ValueId parameter) {
  const Value value = module[parameter];
  const ValueId whole = add_shared(module, value.name + ".whole", value.type, Category::params,
                                   Scope::step, {}, value.layer);
  module[whole].parameter = parameter;
  return whole;
}

void read_instead(Module& module, const std::vector<ValueId>& whole_of) {
  const auto whole = [&](ValueId id) {
    if (!id.valid() || static_cast<size_t>(id.index) >= whole_of.size()) return id;
    const ValueId found = whole_of[static_cast<size_t>(id.index)];
    return found.valid() ? found : id;
  };
  for (Value& value : module.values) value.base = whole(value.base);
  for (Program& program : module.programs) {
    for (Op& op : program.ops)
      for (ValueId& id : op.inputs) id = whole(id);
  }
}

}  // namespace

void shard_parameters(Module& module, const Recipe& recipe) {
  if (!recipe.sharding.on()) return;
  std::vector<ValueId> whole_of(module.values.size());
  for (size_t i = 0; i < whole_of.size(); ++i) {
    const ValueId id{static_cast<int32_t>(i)};
    const Value& value = module[id];
    if (value.category != Category::params || value.scope != Scope::persistent ||
        !value.owns_bytes())
      continue;
    const Cut cut = cut_of(module, id, recipe);
    if (!cut.on()) continue;
    if (recipe.sharding.level < 3) {
      if (value.param->trainable) pad(module[id], cut);
      continue;
    }
    whole_of[i] = add_whole(module, id);
    make_shard(module[id], cut);
  }
  read_instead(module, whole_of);
}

}  // namespace snug

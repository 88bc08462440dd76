// Offloaded values (Recipe::offload): prefetched to the device before their uses, evicted after they
// are written. Parameters, their masters, gradients and optimizer states are stored in the other space
// for good; what forward keeps for backward is evicted after its last forward reader and prefetched for
// its first backward reader. Nothing is computed differently.
//
// A program is cut into slots (slots.h). A value that is used in one and again within `ahead` slots
// keeps its bytes on the device in between; from its prefetch to its eviction is one residency
// (residency.h). The copies for a slot are listed `ahead` slots before it, and bounded by the end of
// the slot before that: staging does not grow with the number of layers. Where several micro-batches
// go through a layer, what belongs to the layer is prefetched a layer ahead, and what they keep a part
// of that.
//
// From disk a value comes in two hops, through staging in host memory, and leaves the same way. Each
// hop has lanes of its own and is bounded by what leaves over the same hop.
//
// An op that computes on the host (techniques/host_update) uses these values in host memory.
//
// A parameter of which every rank has its shard is prefetched by a gather, from shards on the device
// or copied there before.
#include "techniques/offload/offload.h"

#include <algorithm>
#include <map>
#include <utility>

#include "ir/builder.h"
#include "ops/basic/copy.h"
#include "ops/comm/comm.h"
#include "passes/sharding.h"
#include "techniques/offload/residencies.h"

namespace snug {
namespace {

class ProgramOffload {
 public:
  ProgramOffload(Module& module, size_t program, std::span<const Extent> extents,
                 const Recipe& recipe)
      : module_(module),
        sharding_(recipe.sharding),
        builder_(module, module.programs[program].name),
        ops_(std::exchange(builder_.program().ops, {})),
        residencies_(residencies_of(module, builder_.program(), ops_, extents, recipe)) {}

  void run() {
    if (!residencies_.any) {
      builder_.program().ops = std::move(ops_);
      return;
    }
    for (int32_t at = 0; at < static_cast<int32_t>(ops_.size()); ++at) {
      if (at == 0 || slot(at) != slot(at - 1)) begin_slot(at);
      add(at);
    }
  }

 private:
  const Extent& extent(ValueId id) const { return residencies_.extent(id); }
  ValueId root(ValueId id) const { return residencies_.root(id); }
  Op& op(int32_t at) { return ops_[static_cast<size_t>(at)]; }
  int32_t slot(int32_t at) const { return residencies_.slot(at); }

  // Prefetches what is due so many slots later; at the start, with no computation to overlap, also
  // all that is due before that.
  void begin_slot(int32_t at) {
    const int32_t furthest = slot(at) + residencies_.farthest_ahead();
    const int32_t last = std::min(furthest, static_cast<int32_t>(residencies_.first_of.size()) - 1);
    Bounds bounds;
    for (size_t hop = 0; hop < kHops; ++hop)
      bounds[hop] = not_before(last_op_, eviction_before(hop, slot(at) + 1));
    bounds[kHops] = not_before(last_op_, "");
    for (int32_t due = slot(at); due <= last; ++due) {
      for (const auto& [id, v] : residencies_.to_prefetch[static_cast<size_t>(due)]) {
        const Offloaded& offloaded = *residencies_.offloaded.find(id);
        const int32_t ahead = residencies_.ahead_of(offloaded, offloaded.residencies[v]);
        if (at == 0 ? due <= ahead : due == slot(at) + ahead) prefetch(id, v, bounds);
      }
    }
    // What is on its way out has left before the device makes so much more.
    for (size_t hop = 0; hop < kHops; ++hop) {
      const std::string put = eviction_before(hop, slot(at));
      if (!put.empty() && put != waited_for_[hop]) op(at).after.push_back(put);
      waited_for_[hop] = put;
    }
  }

  // By hop, and at last of gathers: what the next one waits for. Those after it are on the same lane.
  using Bounds = std::array<std::vector<std::string>, kHops + 1>;

  void prefetch(ValueId id, size_t v, Bounds& bounds) {
    Offloaded& offloaded = *residencies_.offloaded.find(id);
    Residency& residency = offloaded.residencies[v];
    const ValueId from = offloaded.shard.valid() ? offloaded.shard : id;
    builder_.set_layer(module_[id].layer);
    builder_.set_phase(
        ops_[residencies_.first_of[static_cast<size_t>(residency.first_slot)]].phase);
    ValueId here =
        offloaded.shard.valid() ? shard_now(offloaded.shard) : in_space(offloaded, residency.bytes);
    for (size_t hop = hops_of(offloaded.space); hop-- > 0;) {
      here = ops::copy(builder_, module_[from].name + (hop == 0 ? ".fetch" : ".stage"), here,
                       kWay[hop]);
      module_[here].category = Category::staging;
      builder_.last().after = std::exchange(bounds[hop], {});
    }
    if (offloaded.shard.valid()) {
      here =
          ops::all_gather(builder_, module_[from].name + ".gather", here, over_sharers(sharding_));
      module_[here].category = Category::comm;
      builder_.last().after = std::exchange(bounds[kHops], {});
    }
    residency.whole = residency.latest = here;
  }

  // A shard in its space, as it is now: an update before its use may have written it.
  ValueId shard_now(ValueId shard) {
    if (const Offloaded* offloaded = residencies_.offloaded.find(shard))
      return in_space(*offloaded, extent(shard));
    const ValueId* updated = updated_.find(shard);
    if (updated == nullptr) return shard;
    const Value value = module_[shard];
    if (module_[*updated].type == value.type) return *updated;
    return builder_.view(*updated, value.name + ".updated", value.type.shape, 0);
  }

  // These bytes in their space, as they are now.
  ValueId in_space(const Offloaded& offloaded, const Extent& bytes) {
    const ValueId put = evicted_version(offloaded, bytes);
    return put.valid() ? put : part_of(bytes.root, extent(bytes.root), bytes, "at_home");
  }

  // The same, or none where this program has not evicted them.
  ValueId evicted_version(const Offloaded& offloaded, const Extent& bytes) {
    const auto next = offloaded.evictions.upper_bound(bytes.begin);
    if (next == offloaded.evictions.begin()) return {};
    const auto& [all, version] = std::prev(next)->second;
    return bytes.end <= all.end ? part_of(version, all, bytes, "at_home") : ValueId{};
  }

  // The same bytes as a view of `whole`, which holds those of `all`; `whole` itself where that is
  // all of them.
  ValueId part_of(ValueId whole, const Extent& all, const Extent& bytes, std::string_view what) {
    if (bytes == all) return whole;
    const Value value = module_[whole];
    const int64_t size = size_of(value.type.dtype);
    return builder_.view(whole, fmt::format("{}.{}", value.name, what),
                         {(bytes.end - bytes.begin) / size}, (bytes.begin - all.begin) / size);
  }

  // The last eviction over a hop of what was dropped as long before a slot as a prefetch is ahead of
  // it; none where there is none.
  std::string eviction_before(size_t hop, int32_t slot) const {
    return last_eviction_[hop].before(slot - residencies_.ahead, slot - residencies_.kept_ahead);
  }

  void add(int32_t at) {
    if (residencies_.is_on_host(at)) return add_on_host(at);
    Op& now = op(at);
    for (ValueId& id : now.inputs) id = on_device(id, at);
    now.predicate = on_device(now.predicate, at);
    for (const ValueId id : now.outputs) {
      write_on_device(id, at);
      if (residencies_.written.contains(root(id))) updated_[root(id)] = id;
    }
    const bool computes = !now.def->moves_bytes();
    builder_.program().ops.push_back(std::move(now));
    if (computes) last_op_ = builder_.last().name;
    const Phase phase = builder_.last().phase;
    for (const auto& [id, v] : residencies_.to_evict[static_cast<size_t>(at)])
      evict(id, v, phase, slot(at));
    prefetch_after(at);
  }

  // The op computes in the space of the values: on what was evicted there last.
  void add_on_host(int32_t at) {
    Op& now = op(at);
    std::map<ValueId, ValueId> instead;
    for (ValueId& id : now.inputs) {
      const Offloaded* offloaded = id.valid() ? residencies_.offloaded.find(root(id)) : nullptr;
      if (offloaded == nullptr) continue;
      const ValueId put = evicted_version(*offloaded, extent(id));
      if (put.valid()) instead[std::exchange(id, put)] = put;
    }
    for (const ValueId id : now.outputs) {
      Offloaded* offloaded = residencies_.offloaded.find(root(id));
      if (offloaded == nullptr) continue;
      if (const auto base = instead.find(module_[id].base); base != instead.end())
        module_[id].base = base->second;
      offloaded->evictions[extent(id).begin] = {extent(id), id};
    }
    builder_.program().ops.push_back(std::move(now));
    prefetch_after(at);
  }

  void prefetch_after(int32_t at) {
    Bounds none;
    for (const auto& [id, v] : residencies_.to_prefetch_after[static_cast<size_t>(at)])
      prefetch(id, v, none);
  }

  // The residency of the op that uses `id`; none where it is not offloaded.
  Residency* residency_of(ValueId id, int32_t at) {
    Offloaded* offloaded = id.valid() ? residencies_.offloaded.find(root(id)) : nullptr;
    if (offloaded == nullptr) return nullptr;
    std::vector<Residency>& residencies = offloaded->residencies;  // by rising first op
    auto residency = std::ranges::upper_bound(residencies, at, {}, &Residency::first_op);
    while (residency-- != residencies.begin()) {
      if (at <= residency->last_op && residency->holds(extent(id))) return &*residency;
    }
    throw internal_error("'{}' is used, but was not prefetched", module_[id].name);
  }

  // What the op reads in place of `id`.
  ValueId on_device(ValueId id, int32_t at) {
    Residency* residency = residency_of(id, at);
    if (residency == nullptr || is_made_in(*residency, id)) return id;
    if (extent(id) == residency->bytes && module_[id].type == module_[residency->whole].type)
      return residency->whole;
    const auto [place, is_new] = residency->parts.try_emplace(id);
    if (is_new) {
      const Value value = module_[id];
      builder_.set_layer(value.layer);
      place->second =
          builder_.view(residency->whole, value.name + ".fetched", value.type.shape,
                        (extent(id).begin - residency->bytes.begin) / size_of(value.type.dtype));
    }
    return place->second;
  }

  // Has an op of the residency made it, or what it is a view of?
  bool is_made_in(const Residency& residency, ValueId id) const {
    for (; id.valid(); id = module_[id].base) {
      if (const Residency* const* made = made_in_.find(id)) return *made == &residency;
    }
    return false;
  }

  // The op makes a version of the value, or the value itself: on the device from now on.
  void write_on_device(ValueId id, int32_t at) {
    Residency* residency = residency_of(id, at);
    if (residency == nullptr) return;
    if (extent(id) != residency->bytes) {
      throw internal_error("'{}' is a part of '{}', which is offloaded", module_[id].name,
                           module_[root(id)].name);
    }
    made_in_[id] = residency;
    Value& value = module_[id];
    value.space = Space::device;
    value.base = residency->latest;
    value.view_offset = 0;
    residency->latest = id;
    if (residency->whole.valid()) return;
    residency->whole = id;
    if (module_[root(id)].shared()) value.category = Category::staging;
  }

  void evict(ValueId id, size_t v, Phase phase, int32_t slot) {
    Offloaded& offloaded = *residencies_.offloaded.find(id);
    const Residency& residency = offloaded.residencies[v];
    builder_.set_layer(module_[id].layer);
    builder_.set_phase(phase);
    ValueId there = residency.latest;
    size_t hop = 0;
    for (; hop + 1 < hops_of(offloaded.space); ++hop) {
      there = ops::copy(builder_, module_[id].name + ".unload", there, kWay[hop + 1]);
      module_[there].category = Category::staging;
      note_eviction(offloaded, hop, slot);
    }
    const std::string name = module_[id].name + ".put";
    if (offloaded.shared) {
      const ValueId target = part_of(id, extent(id), residency.bytes, "target");
      if (const Shape shape = module_[target].type.shape; module_[there].type.shape != shape)
        there = builder_.view(there, name + ".shaped", shape, 0);
      there = builder_.emit_into(ops::copy_def, name, {there}, target);
    } else {
      there = ops::copy(builder_, name, there, offloaded.space);
      module_[there].category = module_[id].category;
    }
    offloaded.evictions[residency.bytes.begin] = {residency.bytes, there};
    note_eviction(offloaded, hop, slot);
  }

  // The op that was just added.
  void note_eviction(const Offloaded& offloaded, size_t hop, int32_t slot) {
    last_eviction_[hop].note(offloaded.shared, slot, builder_.program().ops.size(),
                             builder_.last().name);
  }

  Module& module_;
  const Sharding& sharding_;
  Builder builder_;
  std::vector<Op> ops_;  // as they were
  ProgramResidencies residencies_;
  ByValue<const Residency*> made_in_;  // what ops have made so far
  ByValue<ValueId> updated_;           // of those on the device: the last version
  LastEvictions last_eviction_[kHops];
  std::string last_op_;  // that is no copy of these
  std::string waited_for_[kHops];
};

}  // namespace

void offload_values(Module& module, const Recipe& recipe) {
  const Offload& offload = recipe.offload;
  if (offload.none() && recipe.sharding.level < 3) return;
  for (Value& value : module.values) {
    const auto item = offload_item(value.category);
    if (value.shared() && value.owns_bytes() && item)
      value.space = offload.space_of(*item, value.layer);
  }
  // What a program adds is its own: the others' values stay as they are.
  const std::vector<Extent> extents = extents_of(module);
  for (size_t p = 0; p < module.programs.size(); ++p)
    if (!module.programs[p].ops.empty()) ProgramOffload(module, p, extents, recipe).run();
  // Wholes that were gathered: nothing reads them any more, and the sweep takes them away.
  for (Value& value : module.values) {
    if (value.shared() && gathered_from(value).valid()) value.scope = Scope::local;
  }
  sweep_values(module);
}

}  // namespace snug

// Values whose home is another space: brought before they are used, put back after they are written
// (Recipe::offload). Parameters, their masters, gradients and optimizer states move there for good;
// what forward keeps for backward is put there after its last forward reader and brought back for
// its first backward reader. Nothing is computed differently.
//
// A program is cut into segments (passes/segments). A value that is used in one and again within
// `ahead` segments stays meanwhile; all that happens to it between being brought and given up is one
// visit. The copies of a segment are listed `ahead` segments before it, and bounded by the end of the
// segment before that: staging does not grow with the number of layers. Where several micro-batches
// go through a layer, what belongs to the layer is brought a layer ahead, and what they keep a part
// of that.
//
// From disk a value comes in two hops, through staging in host memory, and leaves the same way. Each
// hop has lanes of its own and is bounded by what leaves over the same hop.
//
// An op that computes on the host (passes/update_on_host) uses these values at home.
//
// A parameter of which every rank has its shard is brought by being gathered, from shards on the
// device or brought there before.
#include <algorithm>
#include <map>
#include <utility>

#include "ir/builder.h"
#include "ops/basic/copy.h"
#include "ops/comm/comm.h"
#include "passes/passes.h"
#include "passes/visits.h"

namespace snug {
namespace {

class ProgramHomes {
 public:
  ProgramHomes(Module& module, size_t program, std::span<const Extent> extents,
               const Recipe& recipe)
      : module_(module),
        sharding_(recipe.sharding),
        builder_(module, module.programs[program].name),
        ops_(std::exchange(builder_.program().ops, {})),
        visits_(visits_of(module, builder_.program(), ops_, extents, recipe)) {}

  void run() {
    if (!visits_.any) {
      builder_.program().ops = std::move(ops_);
      return;
    }
    for (int32_t at = 0; at < static_cast<int32_t>(ops_.size()); ++at) {
      if (at == 0 || segment(at) != segment(at - 1)) begin_segment(at);
      add(at);
    }
  }

 private:
  const Extent& extent(ValueId id) const { return visits_.extent(id); }
  ValueId root(ValueId id) const { return visits_.root(id); }
  Op& op(int32_t at) { return ops_[static_cast<size_t>(at)]; }
  int32_t segment(int32_t at) const { return visits_.segment(at); }

  // Brings what is due so many segments later; at the start, where there is nothing to run beside,
  // also all that is due before that.
  void begin_segment(int32_t at) {
    const int32_t furthest = segment(at) + visits_.farthest_ahead();
    const int32_t last = std::min(furthest, static_cast<int32_t>(visits_.first_of.size()) - 1);
    Bounds bounds;
    for (size_t hop = 0; hop < kHops; ++hop)
      bounds[hop] = not_before(last_op_, put_before(hop, segment(at) + 1));
    bounds[kHops] = not_before(last_op_, "");
    for (int32_t due = segment(at); due <= last; ++due) {
      for (const auto& [id, v] : visits_.to_bring[static_cast<size_t>(due)]) {
        const Homed& homed = *visits_.homed.find(id);
        const int32_t ahead = visits_.ahead_of(homed, homed.visits[v]);
        if (at == 0 ? due <= ahead : due == segment(at) + ahead) bring(id, v, bounds);
      }
    }
    // What is on its way out has left before the device makes so much more.
    for (size_t hop = 0; hop < kHops; ++hop) {
      const std::string put = put_before(hop, segment(at));
      if (!put.empty() && put != waited_for_[hop]) op(at).after.push_back(put);
      waited_for_[hop] = put;
    }
  }

  // By hop, and at last of gathers: what the next one waits for. Those after it are on the same lane.
  using Bounds = std::array<std::vector<std::string>, kHops + 1>;

  void bring(ValueId id, size_t v, Bounds& bounds) {
    Homed& homed = *visits_.homed.find(id);
    Visit& visit = homed.visits[v];
    const ValueId from = homed.shard.valid() ? homed.shard : id;
    builder_.set_layer(module_[id].layer);
    builder_.set_phase(ops_[visits_.first_of[static_cast<size_t>(visit.first_segment)]].phase);
    ValueId here = homed.shard.valid() ? shard_now(homed.shard) : at_home(homed, visit.bytes);
    for (size_t hop = hops_of(homed.home); hop-- > 0;) {
      here = ops::copy(builder_, module_[from].name + (hop == 0 ? ".fetch" : ".stage"), here,
                       kWay[hop]);
      module_[here].category = Category::staging;
      builder_.last().after = std::exchange(bounds[hop], {});
    }
    if (homed.shard.valid()) {
      here =
          ops::all_gather(builder_, module_[from].name + ".gather", here, over_sharers(sharding_));
      module_[here].category = Category::comm;
      builder_.last().after = std::exchange(bounds[kHops], {});
    }
    visit.whole = visit.latest = here;
  }

  // A shard where it lives, as it is now: an update before its use may have written it.
  ValueId shard_now(ValueId shard) {
    if (const Homed* homed = visits_.homed.find(shard)) return at_home(*homed, extent(shard));
    const ValueId* updated = updated_.find(shard);
    if (updated == nullptr) return shard;
    const Value value = module_[shard];
    if (module_[*updated].type == value.type) return *updated;
    return builder_.view(*updated, value.name + ".updated", value.type.shape, 0);
  }

  // These bytes where they live, as they are now.
  ValueId at_home(const Homed& homed, const Extent& bytes) {
    const ValueId put = put_at_home(homed, bytes);
    return put.valid() ? put : part_of(bytes.root, extent(bytes.root), bytes, "at_home");
  }

  // The same, or none where nothing has put them there in this program.
  ValueId put_at_home(const Homed& homed, const Extent& bytes) {
    const auto behind = homed.puts.upper_bound(bytes.begin);
    if (behind == homed.puts.begin()) return {};
    const auto& [all, version] = std::prev(behind)->second;
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

  // The last put over a hop of what was given up as far behind a segment as it would be brought
  // ahead of it; none where there is none.
  std::string put_before(size_t hop, int32_t segment) const {
    return last_put_[hop].before(segment - visits_.ahead, segment - visits_.kept_ahead);
  }

  void add(int32_t at) {
    if (visits_.is_on_host(at)) return add_on_host(at);
    Op& now = op(at);
    for (ValueId& id : now.inputs) id = on_device(id, at);
    now.predicate = on_device(now.predicate, at);
    for (const ValueId id : now.outputs) {
      write_on_device(id, at);
      if (visits_.written.contains(root(id))) updated_[root(id)] = id;
    }
    const bool computes = !now.def->moves_bytes();
    builder_.program().ops.push_back(std::move(now));
    if (computes) last_op_ = builder_.last().name;
    const Phase phase = builder_.last().phase;
    for (const auto& [id, v] : visits_.to_put[static_cast<size_t>(at)])
      put(id, v, phase, segment(at));
    bring_after(at);
  }

  // The op computes where the values live: on what was put there last.
  void add_on_host(int32_t at) {
    Op& now = op(at);
    std::map<ValueId, ValueId> instead;
    for (ValueId& id : now.inputs) {
      const Homed* homed = id.valid() ? visits_.homed.find(root(id)) : nullptr;
      if (homed == nullptr) continue;
      const ValueId put = put_at_home(*homed, extent(id));
      if (put.valid()) instead[std::exchange(id, put)] = put;
    }
    for (const ValueId id : now.outputs) {
      Homed* homed = visits_.homed.find(root(id));
      if (homed == nullptr) continue;
      if (const auto base = instead.find(module_[id].base); base != instead.end())
        module_[id].base = base->second;
      homed->puts[extent(id).begin] = {extent(id), id};
    }
    builder_.program().ops.push_back(std::move(now));
    bring_after(at);
  }

  void bring_after(int32_t at) {
    Bounds none;
    for (const auto& [id, v] : visits_.to_bring_after[static_cast<size_t>(at)]) bring(id, v, none);
  }

  // The visit that an op belongs to which uses `id`; none where it is at home on the device.
  Visit* visit_of(ValueId id, int32_t at) {
    Homed* homed = id.valid() ? visits_.homed.find(root(id)) : nullptr;
    if (homed == nullptr) return nullptr;
    std::vector<Visit>& visits = homed->visits;  // by rising first op
    auto visit = std::ranges::upper_bound(visits, at, {}, &Visit::first_op);
    while (visit-- != visits.begin()) {
      if (at <= visit->last_op && visit->holds(extent(id))) return &*visit;
    }
    throw internal_error("'{}' is used, but was not brought", module_[id].name);
  }

  // What the op reads in place of `id`.
  ValueId on_device(ValueId id, int32_t at) {
    Visit* visit = visit_of(id, at);
    if (visit == nullptr || is_made_in(*visit, id)) return id;
    if (extent(id) == visit->bytes && module_[id].type == module_[visit->whole].type)
      return visit->whole;
    const auto [place, is_new] = visit->parts.try_emplace(id);
    if (is_new) {
      const Value value = module_[id];
      builder_.set_layer(value.layer);
      place->second =
          builder_.view(visit->whole, value.name + ".fetched", value.type.shape,
                        (extent(id).begin - visit->bytes.begin) / size_of(value.type.dtype));
    }
    return place->second;
  }

  // Has an op of the visit made it, or what it is a view of?
  bool is_made_in(const Visit& visit, ValueId id) const {
    for (; id.valid(); id = module_[id].base) {
      if (const Visit* const* made = made_in_.find(id)) return *made == &visit;
    }
    return false;
  }

  // The op makes a version of the value, or the value itself: on the device from now on.
  void write_on_device(ValueId id, int32_t at) {
    Visit* visit = visit_of(id, at);
    if (visit == nullptr) return;
    if (extent(id) != visit->bytes) {
      throw internal_error("'{}' is a part of '{}', which has its home elsewhere", module_[id].name,
                           module_[root(id)].name);
    }
    made_in_[id] = visit;
    Value& value = module_[id];
    value.space = Space::device;
    value.base = visit->latest;
    value.view_offset = 0;
    visit->latest = id;
    if (visit->whole.valid()) return;
    visit->whole = id;
    if (module_[root(id)].shared()) value.category = Category::staging;
  }

  void put(ValueId id, size_t v, Phase phase, int32_t segment) {
    Homed& homed = *visits_.homed.find(id);
    const Visit& visit = homed.visits[v];
    builder_.set_layer(module_[id].layer);
    builder_.set_phase(phase);
    ValueId there = visit.latest;
    size_t hop = 0;
    for (; hop + 1 < hops_of(homed.home); ++hop) {
      there = ops::copy(builder_, module_[id].name + ".unload", there, kWay[hop + 1]);
      module_[there].category = Category::staging;
      note_put(homed, hop, segment);
    }
    const std::string name = module_[id].name + ".put";
    if (homed.shared) {
      const ValueId target = part_of(id, extent(id), visit.bytes, "target");
      if (const Shape shape = module_[target].type.shape; module_[there].type.shape != shape)
        there = builder_.view(there, name + ".shaped", shape, 0);
      there = builder_.emit_into(ops::copy_def, name, {there}, target);
    } else {
      there = ops::copy(builder_, name, there, homed.home);
      module_[there].category = module_[id].category;
    }
    homed.puts[visit.bytes.begin] = {visit.bytes, there};
    note_put(homed, hop, segment);
  }

  // The op that was just added.
  void note_put(const Homed& homed, size_t hop, int32_t segment) {
    last_put_[hop].note(homed.shared, segment, builder_.program().ops.size(), builder_.last().name);
  }

  Module& module_;
  const Sharding& sharding_;
  Builder builder_;
  std::vector<Op> ops_;  // as they were
  ProgramVisits visits_;
  ByValue<const Visit*> made_in_;  // what ops have made so far
  ByValue<ValueId> updated_;       // of those on the device: the last version
  LastPuts last_put_[kHops];
  std::string last_op_;  // that is no copy of these
  std::string waited_for_[kHops];
};

}  // namespace

void homes(Module& module, const Recipe& recipe) {
  const Offload& offload = recipe.offload;
  if (offload.none() && recipe.sharding.stage < 3) return;
  for (Value& value : module.values) {
    const auto item = offload_item(value.category);
    if (value.shared() && value.owns_bytes() && item)
      value.space = offload.home_of(*item, value.layer);
  }
  // What a program adds is its own: the others' values stay as they are.
  const std::vector<Extent> extents = extents_of(module);
  for (size_t p = 0; p < module.programs.size(); ++p)
    if (!module.programs[p].ops.empty()) ProgramHomes(module, p, extents, recipe).run();
  // Wholes that were gathered: nothing reads them any more, and the sweep takes them away.
  for (Value& value : module.values) {
    if (value.shared() && gathered_from(value).valid()) value.scope = Scope::local;
  }
  sweep_values(module);
}

}  // namespace snug

#include "techniques/offload/residencies.h"

#include <algorithm>

#include "passes/sharding.h"
#include "techniques/offload/slots.h"

namespace snug {
namespace {

// Of a layer's micro-batches so many parts are on their way at once.
constexpr int32_t kPartsOfALayer = 4;

// What is dropped after its use is prefetched so many times farther ahead: it follows the last
// backward, which leaves the link and more and more of the device alone.
constexpr int32_t kGivenUpAhead = 4;

class ResidencyFinder {
 public:
  ResidencyFinder(const Module& module, const Program& program, const std::vector<Op>& ops,
                  std::span<const Extent> extents, const Recipe& recipe)
      : module_(module),
        ops_(ops),
        offload_(recipe.offload),
        only_updates_(!is_training(program.role) && program.role != ProgramRole::evaluation) {
    // A program that feeds none has backwards alone of what others have fed.
    const auto together = std::max(1, static_cast<int32_t>(program.micro_batches));
    v_.extents = extents;
    v_.ahead = offload_.ahead * together;
    v_.kept_ahead = offload_.ahead * std::max(1, together / kPartsOfALayer);
    v_.to_evict.resize(ops.size());
    v_.to_prefetch_after.resize(ops.size());
    cut_into_slots(recipe.fold_update);
    find_residencies();
  }

  ProgramResidencies take() { return std::move(v_); }

 private:
  const Op& op(int32_t at) const { return ops_[static_cast<size_t>(at)]; }

  void cut_into_slots(bool folded) {
    std::vector<SlotOp> ops;
    for (const Op& op : ops_) {
      const bool moves = op.def->moves_bytes();
      v_.on_host.push_back(!moves && space_of(module_, op) == Space::host);
      ops.push_back({.layer = op.layer,
                     .micro_batch = op.micro_batch,
                     .overlaps = moves || v_.on_host.back(),
                     .updates = (only_updates_ || folded) && op.phase == Phase::update,
                     .moved = moved_by(op)});
    }
    v_.first_of = first_of_slots(ops);
    for (size_t s = 0; s < v_.first_of.size(); ++s) {
      const size_t end = s + 1 < v_.first_of.size() ? v_.first_of[s + 1] : ops_.size();
      v_.slot_of.resize(end, static_cast<int32_t>(s));
    }
    v_.to_prefetch.resize(v_.first_of.size());
  }

  // Bytes of offloaded values.
  int64_t moved_by(const Op& op) const {
    int64_t bytes = 0;
    for (const ValueId id : op.inputs) {
      if (!id.valid() || module_[v_.root(id)].space == Space::device) continue;
      bytes += unit(id).end - unit(id).begin;
    }
    return bytes;
  }

  void find_residencies() {
    for (int32_t at = 0; at < static_cast<int32_t>(ops_.size()); ++at) {
      for_each_access(op(at), [&](ValueId id, bool writes) {
        const Value& value = module_[v_.root(id)];
        if (writes) v_.written[v_.root(id)] = at;
        const ValueId shard = gathered_from(value);
        const bool is_here = value.space == Space::device && !shard.valid();
        if (value.shared() ? is_here : !may_be_kept(value)) return;
        Offloaded& offloaded = v_.offloaded[v_.root(id)];
        offloaded.shared = value.shared();
        offloaded.shard = shard;
        offloaded.space = shard.valid() ? module_[shard].space
                          : value.shared()
                              ? value.space
                              : offload_.space_of(OffloadItem::activations, value.layer);
        if (const int32_t* update = v_.written.find(shard)) offloaded.last_write_in_space = *update;
        v_.is_on_host(at) ? use_in_space(offloaded, at, writes) : use(offloaded, id, at, writes);
      });
    }
    for (const ValueId id : v_.offloaded.ids()) {
      const Offloaded& offloaded = *v_.offloaded.find(id);
      if (!offloaded.shared && !rests(offloaded)) {
        v_.offloaded.erase(id);
        continue;
      }
      v_.any = true;
      for (size_t v = 0; v < offloaded.residencies.size(); ++v) {
        const Residency& residency = offloaded.residencies[v];
        if (residency.prefetched) list_to_prefetch({id, v}, offloaded);
        if (const int32_t at = offloaded.evict_after(v); at >= 0)
          v_.to_evict[static_cast<size_t>(at)].push_back({id, v});
      }
    }
    // What is in host memory does not queue after what has to be read from disk first.
    for (std::vector<ProgramResidencies::Moved>& due : v_.to_prefetch)
      std::ranges::stable_sort(due, {}, [&](const ProgramResidencies::Moved& m) {
        return v_.offloaded.find(m.id)->space;
      });
  }

  // With the others of its slot, or after the op that writes it in its space after that.
  void list_to_prefetch(const ProgramResidencies::Moved& moved, const Offloaded& offloaded) {
    const Residency& residency = offloaded.residencies[moved.residency];
    const int32_t begins = std::max(residency.first_slot - v_.ahead_of(offloaded, residency), 0);
    if (residency.after >= static_cast<int32_t>(v_.first_of[static_cast<size_t>(begins)])) {
      v_.to_prefetch_after[static_cast<size_t>(residency.after)].push_back(moved);
    } else {
      v_.to_prefetch[static_cast<size_t>(residency.first_slot)].push_back(moved);
    }
  }

  static void use_in_space(Offloaded& offloaded, int32_t at, bool writes) {
    offloaded.last_in_space = at;
    if (writes) offloaded.last_write_in_space = at;
  }

  // What moves when `id` is used. Updates work on slices; what forward and backward use moves whole.
  const Extent& unit(ValueId id) const {
    const Category category = module_[v_.root(id)].category;
    const bool only_updated = category == Category::optimizer || category == Category::master;
    return only_updates_ || only_updated ? v_.extent(id) : v_.extent(v_.root(id));
  }

  void use(Offloaded& offloaded, ValueId id, int32_t at, bool writes) {
    const Extent& bytes = unit(id);
    const auto last = std::find_if(offloaded.residencies.rbegin(), offloaded.residencies.rend(),
                                   [&](const Residency& v) { return v.bytes.overlaps(bytes); });
    const bool near = last != offloaded.residencies.rend() &&
                      offloaded.last_in_space < last->last_op &&
                      v_.slot(at) - v_.slot(last->last_op) <= v_.ahead_of(offloaded) + 1;
    const bool makes = makes_all(bytes, at);  // nothing of what was there before is left
    const bool stays =
        near && last->bytes == bytes &&
        (last->last_op == at || (!makes && !(last->last_write >= 0 && gives_up(op(at)))));
    if (near && last->bytes != bytes && (writes || last->last_write >= 0)) {
      throw internal_error("'{}' is used as another part of '{}' than just before",
                           module_[id].name, module_[v_.root(id)].name);
    }
    if (!stays) {
      const int32_t put = last == offloaded.residencies.rend() ? -1 : last->last_write;
      offloaded.residencies.push_back({.bytes = bytes,
                                       .first_slot = v_.slot(at),
                                       .first_op = at,
                                       .prefetched = !makes,
                                       .after = std::max(offloaded.last_write_in_space, put)});
    }
    Residency& residency = stays ? *last : offloaded.residencies.back();
    residency.last_op = at;
    if (!writes) return;
    residency.given_up = is_given_up(id);
    if (!residency.given_up) residency.last_write = at;
  }

  bool gives_up(const Op& op) const {
    return std::ranges::any_of(op.outputs, [&](ValueId id) { return is_given_up(id); });
  }

  // A version that is staging is not evicted: the offloaded bytes are left as they were.
  bool is_given_up(ValueId id) const {
    return module_[v_.root(id)].shared() && module_[id].category == Category::staging;
  }

  // Does the op write all of these bytes and read none? A predicate may leave them as they were.
  bool makes_all(const Extent& bytes, int32_t at) {
    bool reads = op(at).predicate.valid(), all = false;
    for_each_access(op(at), [&](ValueId id, bool writes) {
      reads = reads || (!writes && v_.extent(id).overlaps(bytes));
      all = all || (writes && v_.extent(id) == bytes);
    });
    return all && !reads;
  }

  bool may_be_kept(const Value& value) const {
    return value.category == Category::activations && value.type.shape.rank() > 0 &&
           offload_.space_of(OffloadItem::activations, value.layer) != Space::device;
  }

  // Is it made in forward, and only read again, much later, in backward?
  bool rests(const Offloaded& offloaded) {
    const std::vector<Residency>& residencies = offloaded.residencies;
    return residencies.size() > 1 && !residencies[0].prefetched &&
           op(residencies[0].last_op).phase == Phase::forward &&
           op(residencies.back().last_op).phase == Phase::backward &&
           std::all_of(residencies.begin() + 1, residencies.end(),
                       [](const Residency& v) { return v.last_write < 0; });
  }

  const Module& module_;
  const std::vector<Op>& ops_;
  const Offload& offload_;
  const bool only_updates_;
  ProgramResidencies v_;
};

}  // namespace

int32_t ProgramResidencies::ahead_of(const Offloaded& value, const Residency& residency) const {
  return ahead_of(value) * (residency.given_up ? kGivenUpAhead : 1);
}

int32_t ProgramResidencies::farthest_ahead() const {
  return std::max(ahead * kGivenUpAhead, kept_ahead);
}

ProgramResidencies residencies_of(const Module& module, const Program& program,
                                  const std::vector<Op>& ops, std::span<const Extent> extents,
                                  const Recipe& recipe) {
  return ResidencyFinder(module, program, ops, extents, recipe).take();
}

}  // namespace snug

#include "passes/visits.h"

#include <algorithm>

#include "passes/segments.h"

namespace snug {
namespace {

// Of a layer's micro-batches so many parts are on their way at once.
constexpr int32_t kPartsOfALayer = 4;

// What is given up after its use is brought so many times farther ahead: it follows the last
// backward, which leaves the link and more and more of the device alone.
constexpr int32_t kGivenUpAhead = 4;

class VisitFinder {
 public:
  VisitFinder(const Module& module, const Program& program, const std::vector<Op>& ops,
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
    v_.to_put.resize(ops.size());
    v_.to_bring_after.resize(ops.size());
    cut_into_segments(recipe.fold_update);
    find_visits();
  }

  ProgramVisits take() { return std::move(v_); }

 private:
  const Op& op(int32_t at) const { return ops_[static_cast<size_t>(at)]; }

  void cut_into_segments(bool folded) {
    std::vector<SegmentOp> ops;
    for (const Op& op : ops_) {
      const bool moves = op.def->moves_bytes();
      v_.on_host.push_back(!moves && space_of(module_, op) == Space::host);
      ops.push_back({.layer = op.layer,
                     .micro_batch = op.micro_batch,
                     .beside = moves || v_.on_host.back(),
                     .updates = (only_updates_ || folded) && op.phase == Phase::update,
                     .moved = moved_by(op)});
    }
    v_.first_of = first_of_segments(ops);
    for (size_t s = 0; s < v_.first_of.size(); ++s) {
      const size_t end = s + 1 < v_.first_of.size() ? v_.first_of[s + 1] : ops_.size();
      v_.segment_of.resize(end, static_cast<int32_t>(s));
    }
    v_.to_bring.resize(v_.first_of.size());
  }

  // Bytes with a home elsewhere.
  int64_t moved_by(const Op& op) const {
    int64_t bytes = 0;
    for (const ValueId id : op.inputs) {
      if (!id.valid() || module_[v_.root(id)].space == Space::device) continue;
      bytes += unit(id).end - unit(id).begin;
    }
    return bytes;
  }

  void find_visits() {
    for (int32_t at = 0; at < static_cast<int32_t>(ops_.size()); ++at) {
      for_each_access(op(at), [&](ValueId id, bool writes) {
        const Value& value = module_[v_.root(id)];
        if (writes) v_.written[v_.root(id)] = at;
        const ValueId shard = gathered_from(value);
        const bool is_here = value.space == Space::device && !shard.valid();
        if (value.shared() ? is_here : !may_be_kept(value)) return;
        Homed& homed = v_.homed[v_.root(id)];
        homed.shared = value.shared();
        homed.shard = shard;
        homed.home = shard.valid()    ? module_[shard].space
                     : value.shared() ? value.space
                                      : offload_.home_of(OffloadItem::activations, value.layer);
        if (const int32_t* update = v_.written.find(shard)) homed.last_write_at_home = *update;
        v_.is_on_host(at) ? use_at_home(homed, at, writes) : use(homed, id, at, writes);
      });
    }
    for (const ValueId id : v_.homed.ids()) {
      const Homed& homed = *v_.homed.find(id);
      if (!homed.shared && !rests(homed)) {
        v_.homed.erase(id);
        continue;
      }
      v_.any = true;
      for (size_t v = 0; v < homed.visits.size(); ++v) {
        const Visit& visit = homed.visits[v];
        if (visit.brought) list_to_bring({id, v}, homed);
        if (const int32_t at = homed.put_after(v); at >= 0)
          v_.to_put[static_cast<size_t>(at)].push_back({id, v});
      }
    }
    // What is near does not queue behind what has to be read from disk first.
    for (std::vector<ProgramVisits::Moved>& due : v_.to_bring)
      std::ranges::stable_sort(
          due, {}, [&](const ProgramVisits::Moved& m) { return v_.homed.find(m.id)->home; });
  }

  // Where its segment's are brought, or behind the op that writes it at home after that.
  void list_to_bring(const ProgramVisits::Moved& moved, const Homed& homed) {
    const Visit& visit = homed.visits[moved.visit];
    const int32_t begins = std::max(visit.first_segment - v_.ahead_of(homed, visit), 0);
    if (visit.after >= static_cast<int32_t>(v_.first_of[static_cast<size_t>(begins)])) {
      v_.to_bring_after[static_cast<size_t>(visit.after)].push_back(moved);
    } else {
      v_.to_bring[static_cast<size_t>(visit.first_segment)].push_back(moved);
    }
  }

  static void use_at_home(Homed& homed, int32_t at, bool writes) {
    homed.last_at_home = at;
    if (writes) homed.last_write_at_home = at;
  }

  // What moves when `id` is used. Updates work on slices; what forward and backward use moves whole.
  const Extent& unit(ValueId id) const {
    const Category category = module_[v_.root(id)].category;
    const bool only_updated = category == Category::optimizer || category == Category::master;
    return only_updates_ || only_updated ? v_.extent(id) : v_.extent(v_.root(id));
  }

  void use(Homed& homed, ValueId id, int32_t at, bool writes) {
    const Extent& bytes = unit(id);
    const auto last = std::find_if(homed.visits.rbegin(), homed.visits.rend(),
                                   [&](const Visit& v) { return v.bytes.overlaps(bytes); });
    const bool near = last != homed.visits.rend() && homed.last_at_home < last->last_op &&
                      v_.segment(at) - v_.segment(last->last_op) <= v_.ahead_of(homed) + 1;
    const bool makes = makes_all(bytes, at);  // nothing of what was there before is left
    const bool stays =
        near && last->bytes == bytes &&
        (last->last_op == at || (!makes && !(last->last_write >= 0 && gives_up(op(at)))));
    if (near && last->bytes != bytes && (writes || last->last_write >= 0)) {
      throw internal_error("'{}' is used as another part of '{}' than just before",
                           module_[id].name, module_[v_.root(id)].name);
    }
    if (!stays) {
      const int32_t put = last == homed.visits.rend() ? -1 : last->last_write;
      homed.visits.push_back({.bytes = bytes,
                              .first_segment = v_.segment(at),
                              .first_op = at,
                              .brought = !makes,
                              .after = std::max(homed.last_write_at_home, put)});
    }
    Visit& visit = stays ? *last : homed.visits.back();
    visit.last_op = at;
    if (!writes) return;
    visit.given_up = is_given_up(id);
    if (!visit.given_up) visit.last_write = at;
  }

  bool gives_up(const Op& op) const {
    return std::ranges::any_of(op.outputs, [&](ValueId id) { return is_given_up(id); });
  }

  // A version that is staging does not go home: what is there stays as it was.
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
           offload_.home_of(OffloadItem::activations, value.layer) != Space::device;
  }

  // Is it made in forward, and only read again, much later, in backward?
  bool rests(const Homed& homed) {
    const std::vector<Visit>& visits = homed.visits;
    return visits.size() > 1 && !visits[0].brought &&
           op(visits[0].last_op).phase == Phase::forward &&
           op(visits.back().last_op).phase == Phase::backward &&
           std::all_of(visits.begin() + 1, visits.end(),
                       [](const Visit& v) { return v.last_write < 0; });
  }

  const Module& module_;
  const std::vector<Op>& ops_;
  const Offload& offload_;
  const bool only_updates_;
  ProgramVisits v_;
};

}  // namespace

int32_t ProgramVisits::ahead_of(const Homed& value, const Visit& visit) const {
  return ahead_of(value) * (visit.given_up ? kGivenUpAhead : 1);
}

int32_t ProgramVisits::farthest_ahead() const {
  return std::max(ahead * kGivenUpAhead, kept_ahead);
}

ProgramVisits visits_of(const Module& module, const Program& program, const std::vector<Op>& ops,
                        std::span<const Extent> extents, const Recipe& recipe) {
  return VisitFinder(module, program, ops, extents, recipe).take();
}

}  // namespace snug

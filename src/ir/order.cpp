#include "ir/order.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/rng.h"
#include "base/units.h"
#include "ir/segments.h"

namespace snug {
namespace {

constexpr int32_t kNoOp = -1;

// The last writer and readers of the bytes of every storage.
class Accesses {
 public:
  Accesses(std::span<const Extent> extents, size_t lanes)
      : extents_(extents), lanes_(lanes), place_(extents.size(), kUntouched) {}

  // Tells `wait` the ops that the access must wait for, then records it.
  template <typename Wait>
  void add(const Extent& bytes, int32_t op, int32_t lane, bool writes, Wait&& wait) {
    const auto root = static_cast<size_t>(bytes.root.index);
    if (place_[root] == kUntouched) {
      place_[root] = static_cast<int32_t>(storages_.size());
      storages_.emplace_back(extents_[root].end, untouched());
    }
    auto& storage = storages_[static_cast<size_t>(place_[root])];
    storage.over(bytes.begin, bytes.end, [&](Touched& touched) {
      wait(touched.writer);
      if (writes) {
        for (size_t l = 0; l < lanes_; ++l) wait(std::exchange(touched.last_reader[l], kNoOp));
        touched.writer = op;
      } else {
        touched.last_reader[static_cast<size_t>(lane)] = op;
      }
    });
  }

 private:
  static constexpr int32_t kUntouched = -1;
  struct Touched {
    int32_t writer;
    std::array<int32_t, Order::kMostLanes> last_reader;  // by lane, since the last write
  };
  static Touched untouched() {
    Touched touched{.writer = kNoOp, .last_reader = {}};
    touched.last_reader.fill(kNoOp);
    return touched;
  }
  std::span<const Extent> extents_;
  size_t lanes_;
  std::vector<int32_t> place_;  // by value that owns bytes: of its storage, once it is touched
  std::vector<Segments<Touched>> storages_;
};

std::string_view wrong_base(const Value& value, int32_t values) {
  if (value.base.index >= values) return "its base is no value of the module";
  if (value.view_offset < 0) return "it begins before its base";
  return "its bases form a circle";
}

// Resolves the `after` names of a program; the table is made only when some op has any.
class OpsByName {
 public:
  explicit OpsByName(const Program& program) : program_(program) {}

  int32_t earlier(const std::string& name, int32_t before) {
    if (index_.empty()) {
      int32_t at = 0;
      for (const Op& op : program_.ops) index_.emplace(op.name, at++);
    }
    const auto found = index_.find(name);
    if (found == index_.end() || found->second >= before) {
      throw internal_error("program '{}', op '{}': waits for '{}', which is no earlier op",
                           program_.name, program_.ops[static_cast<size_t>(before)].name, name);
    }
    return found->second;
  }

 private:
  const Program& program_;
  std::unordered_map<std::string_view, int32_t> index_;
};

}  // namespace

std::vector<Extent> extents_of(const Module& module) {
  const auto n = static_cast<int32_t>(module.values.size());
  std::vector<Extent> extents(module.values.size());
  std::vector<int32_t> chain;
  for (int32_t i = 0; i < n; ++i) {
    if (const Value& value = module.values[static_cast<size_t>(i)]; value.owns_bytes()) {
      extents[static_cast<size_t>(i)] = {{i}, 0, value.storage_bytes()};
      continue;
    }
    // Walks up to a value that owns its bytes or is known already, then back down.
    chain.clear();
    for (int32_t at = i; !extents[static_cast<size_t>(at)].root.valid();) {
      const Value& value = module.values[static_cast<size_t>(at)];
      if (value.base.index >= n || value.view_offset < 0 || std::cmp_greater(chain.size(), n)) {
        throw internal_error("value '{}': {}", value.name, wrong_base(value, n));
      }
      chain.push_back(at);
      if (value.owns_bytes()) break;
      at = value.base.index;
    }
    for (; !chain.empty(); chain.pop_back()) {
      const Value& value = module.values[static_cast<size_t>(chain.back())];
      Extent& extent = extents[static_cast<size_t>(chain.back())];
      extent.root = {chain.back()};
      if (!value.owns_bytes()) {
        const Extent& base = extents[static_cast<size_t>(value.base.index)];
        extent.root = base.root;
        extent.begin = checked_add(
            base.begin, checked_mul(value.view_offset, size_of(value.type.dtype), value.name),
            value.name);
      }
      extent.end = checked_add(extent.begin, value.storage_bytes(), value.name);
    }
  }
  return extents;
}

Order::Order(const Program& program, std::span<const Extent> extents) {
  assign_lanes(program);
  const size_t n = program.ops.size();
  const size_t L = lane_names_.size();
  waits_.resize(n);
  clocks_.assign(n * L, kNoOp);
  Accesses accesses(L > 1 ? extents : std::span<const Extent>(), L);
  OpsByName names(program);
  std::vector<int32_t> last_on_lane(L);
  for (size_t i = 0; i < n; ++i) {
    const Op& op = program.ops[i];
    const auto at = static_cast<int32_t>(i);
    std::fill(last_on_lane.begin(), last_on_lane.end(), kNoOp);
    auto wait = [&](int32_t other) {
      if (other == kNoOp || other == at) return;
      int32_t& last = last_on_lane[static_cast<size_t>(lane_of(other))];
      last = std::max(last, other);
    };
    for (const std::string& name : op.after) wait(names.earlier(name, at));
    if (L > 1) {
      for_each_access(op, [&](ValueId id, bool writes) {
        accesses.add(extents[static_cast<size_t>(id.index)], at, lane_of(at), writes, wait);
      });
    }
    add_waits(at, last_on_lane);
  }
}

Orders::Orders(const Module& module, std::vector<Extent> extents) : extents_(std::move(extents)) {
  of_.reserve(module.programs.size());
  for (const Program& program : module.programs) of_.emplace_back(program, extents_);
}

int32_t Order::lane_index(std::string_view name) const {
  const auto found = std::find(lane_names_.begin(), lane_names_.end(), name);
  return found == lane_names_.end() ? -1 : static_cast<int32_t>(found - lane_names_.begin());
}

void Order::assign_lanes(const Program& program) {
  lane_of_.reserve(program.ops.size());
  for (const Op& op : program.ops) {
    int32_t lane = lane_index(op.lane);
    if (lane < 0) {
      lane = lanes();
      if (lane == kMostLanes)
        throw internal_error("program '{}' runs on more than {} lanes", program.name, kMostLanes);
      lane_names_.emplace_back(op.lane);
      by_lane_.emplace_back();
    }
    by_lane_[static_cast<size_t>(lane)].push_back(static_cast<int32_t>(lane_of_.size()));
    lane_of_.push_back(lane);
  }
}

void Order::add_waits(int32_t op, std::span<const int32_t> last_on_lane) {
  const size_t L = lane_names_.size();
  const auto mine = static_cast<size_t>(lane_of(op));
  auto clock_of = [&](int32_t i) {
    return std::span(clocks_).subspan(static_cast<size_t>(i) * L, L);
  };
  const std::span<int32_t> clock = clock_of(op);
  const std::span<const int32_t> lane = by_lane_[mine];
  const auto place = std::lower_bound(lane.begin(), lane.end(), op);
  if (place != lane.begin()) std::ranges::copy(clock_of(*(place - 1)), clock.begin());

  std::vector<int32_t>& waits = waits_[static_cast<size_t>(op)];
  for (size_t l = 0; l < L; ++l) {
    if (l != mine && last_on_lane[l] > clock[l]) waits.push_back(last_on_lane[l]);
  }
  std::erase_if(waits, [&](int32_t a) {
    return std::ranges::any_of(last_on_lane,
                               [&](int32_t b) { return b != kNoOp && b != a && before(a, b); });
  });
  for (int32_t other : waits) {
    for (size_t l = 0; l < L; ++l) clock[l] = std::max(clock[l], clock_of(other)[l]);
  }
  clock[mine] = op;
}

std::vector<int32_t> random_extension(const Order& order, uint64_t seed) {
  std::vector<size_t> next(static_cast<size_t>(order.lanes()));  // by lane: its place in ops_on
  std::vector<int32_t> ready, out;
  const auto has_ended = [&](int32_t op) {
    const auto lane = static_cast<size_t>(order.lane_of(op));
    const std::span<const int32_t> ops = order.ops_on(order.lane_of(op));
    return next[lane] > 0 && ops[next[lane] - 1] >= op;
  };
  for (;;) {
    ready.clear();
    for (int32_t lane = 0; lane < order.lanes(); ++lane) {
      const std::span<const int32_t> ops = order.ops_on(lane);
      const size_t at = next[static_cast<size_t>(lane)];
      if (at < ops.size() && std::ranges::all_of(order.waits(ops[at]), has_ended))
        ready.push_back(ops[at]);
    }
    if (ready.empty()) return out;
    seed = mix(seed);
    out.push_back(ready[seed % ready.size()]);
    ++next[static_cast<size_t>(order.lane_of(out.back()))];
  }
}

}  // namespace snug

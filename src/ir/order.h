// In which order a program's ops run when its lanes run side by side. This is the one statement of
// it: lifetimes ask here, and through them placement and the verifier, and the executor, whose lanes
// are threads or streams and wait where this says.
//
// List order is issue order, and one lane runs its ops in that order. Across lanes an op waits for
// the last writer of the bytes it reads, for the last writer and readers of the bytes it writes,
// and for the ops in `after`. A program starts when the one before it has ended on every lane.
//
//   Order order(module, program);
//   order.before(3, 7);   // op 3 has ended when op 7 starts, whatever the lanes' timing
//   order.waits(7);       // {3}: what a lane's thread or stream must wait for before it runs op 7
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace snug {

// The bytes of a value: [begin, end) within the storage of the value that owns them.
struct Extent {
  ValueId root;
  int64_t begin = 0;
  int64_t end = 0;

  bool overlaps(const Extent& o) const { return root == o.root && begin < o.end && o.begin < end; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

// By value index. Bases are resolved once for all, so long chains of versions cost nothing. Throws
// an internal error when a base is missing or bases form a circle.
std::vector<Extent> extents_of(const Module& module);

// Calls visit(value, writes) for everything that an op touches: what it reads first, then what it
// writes.
template <typename Visit>
void for_each_access(const Op& op, Visit&& visit) {
  for (ValueId id : op.inputs) {
    if (id.valid()) visit(id, false);
  }
  if (op.predicate.valid()) visit(op.predicate, false);
  if (op.workspace.valid()) visit(op.workspace, true);
  for (ValueId id : op.outputs) visit(id, true);
}

class Order {
 public:
  static constexpr int32_t kMostLanes = 20;
  Order(const Program& program, std::span<const Extent> extents);
  Order(const Module& module, const Program& program) : Order(program, extents_of(module)) {}

  int32_t lanes() const { return static_cast<int32_t>(lane_names_.size()); }
  std::string_view lane_name(int32_t lane) const { return lane_names_[static_cast<size_t>(lane)]; }
  int32_t lane_index(std::string_view name) const;  // -1 when no op runs on it
  int32_t lane_of(int32_t op) const { return lane_of_[static_cast<size_t>(op)]; }
  std::span<const int32_t> ops_on(int32_t lane) const {
    return by_lane_[static_cast<size_t>(lane)];
  }

  // Ops of other lanes, at most one per lane; what is implied by the others is left out.
  std::span<const int32_t> waits(int32_t op) const { return waits_[static_cast<size_t>(op)]; }
  bool before(int32_t a, int32_t b) const { return a < b && seen(b, lane_of(a)) >= a; }
  // The last op of `lane` that has ended when `op` starts (or is `op` itself); -1 when there is
  // none.
  int32_t seen(int32_t op, int32_t lane) const {
    return clocks_[static_cast<size_t>(op) * lane_names_.size() + static_cast<size_t>(lane)];
  }

 private:
  void assign_lanes(const Program& program);
  void add_waits(int32_t op, std::span<const int32_t> last_on_lane);

  std::vector<std::string_view> lane_names_;  // in order of appearance; they live in the program
  std::vector<int32_t> lane_of_;
  std::vector<std::vector<int32_t>> by_lane_;
  std::vector<std::vector<int32_t>> waits_;
  std::vector<int32_t> clocks_;  // [ops, lanes]
};

// The orders of all programs of a module. Valid while the module's ops stay where they are.
class Orders {
 public:
  explicit Orders(const Module& module) : Orders(module, extents_of(module)) {}
  Orders(const Module& module, std::vector<Extent> extents);

  const Order& of(size_t program) const { return of_[program]; }
  std::span<const Extent> extents() const { return extents_; }

 private:
  std::vector<Extent> extents_;
  std::vector<Order> of_;  // by program
};

// One of the orders in which the lanes' timing may let the ops end, each as likely as the ready
// lanes are at every point: what a test runs that must not depend on timing.
std::vector<int32_t> random_extension(const Order& order, uint64_t seed);

}  // namespace snug

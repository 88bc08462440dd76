// How long each local value's bytes must be kept, in ops of its program.
//
//   compute_lifetimes(module);
//   module[x].live;   // {3, 17}: op 3 writes it, op 17 is the last to touch it or a version of it
//
// The promise: two values whose lifetimes do not overlap are never alive at once, whatever the
// timing of the lanes. On one lane a lifetime is exactly first write to last use. Where lanes run
// side by side, one end of it is moved:
// - a value written off the compute lane lives from the earliest op that may still be running then:
//   a prefetch may run ahead of its place in the list;
// - every value lives to the last op of the compute lane that makes new bytes and may start before
//   the value's last use has ended: a copy may run after its place.
// Moving both ends of every value would promise no more and keep bytes longer.
#pragma once

#include <optional>
#include <vector>

#include "ir/order.h"
#include "ir/program.h"

namespace snug {

constexpr std::string_view kComputeLane = "compute";
constexpr std::string_view kDiskOutLane = "disk_out";  // what writes to disk

// Fills Value::live of every local that owns bytes and is touched by an op; clears it everywhere
// else. Returns the orders that say so.
Orders compute_lifetimes(Module& module);

// The same by value index, without touching the module.
std::vector<std::optional<Lifetime>> lifetimes_of(const Module& module, const Orders& orders);

}  // namespace snug

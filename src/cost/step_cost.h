// Modelled time of whole programs.
//
//   StepCost p = step_cost(module, model);
//   p.step_seconds;   p.repeat_seconds / p.step_seconds   // what recompute costs
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "ir/order.h"
#include "ir/program.h"
#include "ir/span.h"

namespace snug {

// What a device's driver and libraries take outside the arena: by rule, so that a plan made on
// another machine is the one that runs.
constexpr int64_t context_bytes(Backend backend) {
  return backend == Backend::cuda ? int64_t{576} << 20 : 0;
}
// And what the engine takes for a job's groups of ranks (comm/nccl.h): of all ranks one gathers and one
// sums; where `sharers` of them share a copy of the state, one is among those, and one among copies. A
// part is for the library, the rest for buffers to ranks of the same machine: to the next one in each
// group, and to all in those that exchange, each up to 32 channels of 10 MiB where it receives (NCCL's
// three protocols, in pages of 2) and 2 where it sends. That part is not measured by us; NVIDIA/nccl
// issue 1685 has 3.3 GB for the first exchange of 8 H100s. Ranks that share a GPU have none there.
constexpr int64_t groups_bytes(Backend backend, int64_t ranks, int64_t sharers, bool share_gpu) {
  constexpr int64_t kLibrary = int64_t{464} << 20, kGroup = int64_t{24} << 20,
                    kConnection = int64_t{384} << 20, kMachine = 8;
  if (backend != Backend::cuda || ranks < 2) return 0;
  const auto others = [&](int64_t of) { return std::min(of, kMachine) - 1; };
  const int64_t groups = sharers < ranks ? 4 : 2;
  const int64_t connections = groups + others(ranks) + (sharers < ranks ? others(sharers) : 0);
  return kLibrary + groups * kGroup + (share_gpu ? 0 : connections * kConnection);
}

// What a run holds in host memory outside the arenas, by rule, too: a GPU's upload ring, and the
// buffers of loading, saving and initialising (runtime/value_pieces.h, checkpoint/checkpoint.h).
constexpr int64_t host_context_bytes(Backend backend) {
  return (backend == Backend::cuda ? int64_t{49} : int64_t{17}) << 20;
}

struct StepCost {
  double step_seconds = 0;    // all programs, as often as a step runs them
  double repeat_seconds = 0;  // the part that repeats forward ops
};
StepCost step_cost(const Module& module, const CostModel& model);
// The same where the orders of its programs are known.
StepCost step_cost(const Module& module, const CostModel& model, const Orders& orders);

// One lane of a step.
struct LaneCost {
  std::string lane;
  double busy_seconds = 0;     // in which it runs an op
  double exposed_seconds = 0;  // by which the step would be shorter if its ops took no time
  int64_t moved_bytes = 0;     // between spaces

  // By other lanes. Never below zero: ops that take no time shorten a step by at most their time.
  double hidden_seconds() const { return busy_seconds - exposed_seconds; }
};
// All lanes, the compute lane first.
std::vector<LaneCost> lane_costs(const Module& module, const CostModel& model);
// Of one run of a program, given what each op takes on cores of its own.
std::vector<LaneCost> lane_costs(const Module& module, const Program& program,
                                 std::span<const double> alone, const CoreShare& share = {});

// The ops of a step that several servers could run on a GPU, which are attention's: the slowest that
// serves one of them, and what they take together. Nothing on a CPU, or where there are none.
struct ServedCost {
  Served served;
  double seconds = 0;
};
std::optional<ServedCost> served_cost(const Module& module, const CostModel& model);

// Every op of a step when it is predicted to run, program after program, by the same rule as
// `step_cost`: the last one ends when the step does.
std::vector<Span> predicted_spans(const Module& module, const CostModel& model);

// When the last op of a program ends, given what each takes: an op starts when its lane is free and
// what it waits for on other lanes has ended. On one lane that is the sum.
double seconds_on_lanes(const Module& module, const Program& program,
                        std::span<const double> seconds);

}  // namespace snug

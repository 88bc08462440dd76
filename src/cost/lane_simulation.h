// The lanes of several ranks, run side by side: an op begins when its lane is free and what it waits for
// has ended, a message when both ends are at it, a program when the one before it has ended on every
// lane of its rank.
//
//   TimedProgram forward(module, program, seconds);
//   simulate_lanes({{&forward}}, {}, [](size_t rank, const TimedProgram&, int32_t op, double begin, double end) {...});
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "ir/order.h"
#include "ir/program.h"

namespace snug {

// Lanes that are threads run on cores. Where ops that run at the same time ask for more cores than
// there are, each of them takes longer by as much.
struct CoreShare {
  double cores = std::numeric_limits<double>::infinity();  // for all that is simulated
  double compute = 1;  // that an op of the compute lane keeps busy; one of another lane keeps one

  bool is_limited() const { return cores < std::numeric_limits<double>::infinity(); }
};

// A program, with what does not change from run to run.
struct TimedProgram {
  TimedProgram(const Module& m, const Program& p, std::vector<double> op_seconds)
      : program(&p), order(m, p), seconds(std::move(op_seconds)) {}
  const Program* program;
  Order order;
  std::vector<double> seconds;  // of each op, alone
};

// The programs that a rank runs, one after another.
using RankRuns = std::vector<const TimedProgram*>;

using OpHasRun = std::function<void(size_t rank, const TimedProgram& program, int32_t op,
                                    double begin, double end)>;

// When the last op ends. A message's peer is the rank of its attribute; a single rank never waits.
// Throws an internal error when ranks wait for each other.
double simulate_lanes(const std::vector<RankRuns>& ranks, const CoreShare& share,
                      const OpHasRun& has_run);

// What each op of a program takes from begin to end when its lanes share cores.
std::vector<double> seconds_sharing(const Module& module, const Program& program,
                                    std::vector<double> seconds, const CoreShare& share);

}  // namespace snug

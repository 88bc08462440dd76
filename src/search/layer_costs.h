// What each layer of a compiled program costs: the bytes it keeps and the bytes while it runs, on the
// device, and its time. Read from lifetimes and op costs, so it is as exact as the plan.
//
// Forward runs the layers upwards and backward downwards, so while layer i runs, exactly what the
// layers below it keep is live in addition to its own: live bytes = kept(0) + .. + kept(i-1) +
// working(i).
#pragma once

#include <cstdint>
#include <vector>

#include "cost/cost_model.h"
#include "ir/program.h"

namespace snug {

struct Costs {
  int64_t kept = 0;     // from forward to its backward
  int64_t working = 0;  // the most that is live while it runs, without what lower layers keep
  double seconds = 0;   // of one run of the program, on the compute lane
};

class LayerCosts {
 public:
  // Of a module at level step or placed: its last program that has a backward.
  LayerCosts(const Module& module, const CostModel& model);

  int32_t layers() const { return layers_; }
  Costs of(int32_t first, int32_t last) const;                // layers [first, last] as one
  Costs before() const { return of(-1, -1); }                 // what runs before the first layer
  Costs after() const { return of(layers_, layers_); }        // and after the last: the loss
  int64_t other_programs() const { return other_programs_; }  // the most that other programs need

 private:
  void locate(const Program& program);

  int32_t layers_ = 0;
  std::vector<size_t> place_;  // by op: its layer + 1, with what is in front at 0
  std::vector<int64_t> kept_;  // by place
  std::vector<int64_t> live_;  // by place: the most live bytes
  std::vector<double> seconds_;
  int64_t other_programs_ = 0;
};

// The most bytes of local values that live in a space at one instant of a program.
int64_t most_live(const Module& module, int32_t program, Space space = Space::device);

// The last training program.
const Program& training_program(const Module& module);

}  // namespace snug

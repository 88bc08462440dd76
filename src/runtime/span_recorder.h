// When each op of a run began and ended. Where kernels run on the host, by the host's clock; on
// streams by stamps between the ops (stream_stamps.h).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/span.h"
#include "runtime/bound_program.h"

namespace snug {

class SpanRecorder {
 public:
  // Time begins now. `log` outlives this.
  SpanRecorder(const Module& module, SpanLog& log);

  double now() const;  // by the host's clock
  // Seconds, of an op of the program that runs. Lanes may set those of their own ops at once.
  double& begin(size_t op) { return begins_[op]; }
  double& end(size_t op) { return ends_[op]; }
  // Adds the run's spans to the log; `batched`: those of ops that ran together as one.
  void add(size_t index, const BoundProgram& program, bool batched);

 private:
  SpanLog& log_;
  double zero_seconds_;
  std::vector<double> begins_, ends_;
  std::map<std::string, double> lane_ends_;
};

}  // namespace snug

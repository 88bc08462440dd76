#include "runtime/span_recorder.h"

#include <algorithm>
#include <chrono>

namespace snug {
namespace {

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

SpanRecorder::SpanRecorder(const Module& module, SpanLog& log) : log_(log) {
  size_t ops = 0;
  for (const Program& program : module.programs) ops = std::max(ops, program.ops.size());
  begins_.resize(ops);
  ends_.resize(ops);
  zero_seconds_ = host_seconds();
}

double SpanRecorder::now() const { return host_seconds() - zero_seconds_; }

// Two clocks that are read one after the other may differ by a rounding: within a lane no op begins
// before the last one ended.
void SpanRecorder::add(size_t index, const BoundProgram& program, bool batched) {
  for (size_t at = 0; at < program.ops.size();) {
    const size_t count = batched ? program.batches[at] : 1;
    Span& span = log_.spans.emplace_back(Span{.origin = SpanOrigin::measured,
                                              .step = log_.step,
                                              .run = log_.run,
                                              .program = static_cast<int32_t>(index),
                                              .op = static_cast<int32_t>(at),
                                              .ops = static_cast<int32_t>(count),
                                              .lane = program.ops[at]->lane});
    double& free = lane_ends_.try_emplace(span.lane, 0).first->second;
    span.begin = std::max(free, begins_[at]);
    free = span.end = std::max(span.begin, ends_[at]);
    at += count;
  }
  ++log_.run;
}

}  // namespace snug

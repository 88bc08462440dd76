// The executor while it is measured: when each op of a run began and ended. Where kernels run on the
// host, by the host's clock; on streams by stamps between the ops, which a recording of its own has.
#include <algorithm>
#include <chrono>

#include "runtime/executor.h"

namespace snug {
namespace {

double host_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

void Executor::measure_spans(SpanLog* log) {
  measuring_.reset();
  for (Compiled& program : programs_) program.stamps.reset();
  if (log == nullptr) return;
  measuring_ = std::make_unique<Measuring>();
  measuring_->log = log;
  size_t ops = 0;
  for (const Program& program : module_.programs) ops = std::max(ops, program.ops.size());
  measuring_->begins.resize(ops);
  measuring_->ends.resize(ops);
  measuring_->zero_seconds = host_seconds();
  if (device_.stream() == nullptr) return;
  measuring_->zero = device_.make_stamp();
  measuring_->zero->record(0);
  device_.synchronise();
}

// Threads of several lanes write beside each other, each the times of its own ops.
void Executor::run_measured(const Compiled& program, size_t at) {
  if (!measures()) return run_op(program, at);
  measuring_->begins[at] = host_seconds() - measuring_->zero_seconds;
  run_op(program, at);
  measuring_->ends[at] = host_seconds() - measuring_->zero_seconds;
}

// An op begins when the one before it on its lane has ended, but where it waits for another lane.
void Executor::make_stamps(size_t index) {
  Compiled& program = programs_[index];
  if (program.stamps) return;
  program.stamps = std::make_unique<Stamps>();
  Stamps& stamps = *program.stamps;
  const size_t ops = program.ops.size();
  stamps.start = device_.make_stamp();
  stamps.begins.resize(ops);
  stamps.ends.resize(ops);
  std::vector<int32_t> begun;  // lanes
  for (size_t at = 0; at < ops; at += together(program, at)) {
    const int32_t lane = program.lanes[at];
    const bool first = std::ranges::find(begun, lane) == begun.end();
    if (first) begun.push_back(lane);
    const bool waits = program.order && !program.events.empty() &&
                       !program.order->waits(static_cast<int32_t>(at)).empty();
    if (first || waits) stamps.begins[at] = device_.make_stamp();
    stamps.ends[at] = device_.make_stamp();
  }
}

void Executor::stamp_begin(const Compiled& program, size_t at) {
  if (measures() && program.stamps->begins[at])
    program.stamps->begins[at]->record(program.lanes[at]);
}

void Executor::stamp_end(const Compiled& program, size_t at) {
  if (measures()) program.stamps->ends[at]->record(program.lanes[at]);
}

// The moments of the run that has just been launched, when it is done.
void Executor::read_stamps(size_t index) {
  device_.synchronise();
  const Compiled& program = programs_[index];
  const Stamps& stamps = *program.stamps;
  const double start = stamps.start->seconds_since(*measuring_->zero);
  std::vector<double> last(lane_names_.size(), start);  // by lane
  for (size_t at = 0; at < program.ops.size(); at += together(program, at)) {
    double& end = last[static_cast<size_t>(program.lanes[at])];
    const Stamp* begin = stamps.begins[at].get();
    measuring_->begins[at] = begin ? start + begin->seconds_since(*stamps.start) : end;
    end = measuring_->ends[at] = start + stamps.ends[at]->seconds_since(*stamps.start);
  }
}

// Two clocks that are read one after the other may differ by a rounding: within a lane no op begins
// before the last one ended.
void Executor::add_spans(size_t index) {
  if (!measures()) return;
  const bool streams = device_.stream() != nullptr;
  if (streams) read_stamps(index);
  const Compiled& program = programs_[index];
  SpanLog& log = *measuring_->log;
  for (size_t at = 0; at < program.ops.size();) {
    const size_t count = streams ? together(program, at) : 1;
    Span& span = log.spans.emplace_back(Span{.origin = SpanOrigin::measured,
                                             .step = log.step,
                                             .run = log.run,
                                             .program = static_cast<int32_t>(index),
                                             .op = static_cast<int32_t>(at),
                                             .ops = static_cast<int32_t>(count),
                                             .lane = program.ops[at]->lane});
    double& free = measuring_->lane_ends.try_emplace(span.lane, 0).first->second;
    span.begin = std::max(free, measuring_->begins[at]);
    free = span.end = std::max(span.begin, measuring_->ends[at]);
    at += count;
  }
  ++log.run;
}

}  // namespace snug

#include "runtime/stream_runner.h"

namespace snug {

StreamRunner::StreamRunner(std::span<const BoundProgram> programs, OpLauncher& launcher,
                           const Storage& storage, DeviceLanes& lanes, const RunHooks& hooks,
                           TestPolicy& policy)
    : programs_(programs),
      launcher_(launcher),
      device_(storage.device()),
      module_(storage.module()),
      lanes_(lanes),
      hooks_(hooks),
      policy_(policy),
      states_(programs.size()) {
  for (size_t p = 0; p < programs_.size(); ++p) {
    const BoundProgram& program = programs_[p];
    if (program.side_lanes.empty()) continue;
    auto& events = states_[p].events;
    events.resize(program.ops.size());
    for (size_t at = 0; at < program.ops.size(); ++at) {
      for (const int32_t other : program.order->waits(static_cast<int32_t>(at))) {
        std::unique_ptr<LaneEvent>& event = events[static_cast<size_t>(other)];
        if (!event) event = device_.make_event();
      }
    }
  }
}

void StreamRunner::measure_spans(SpanLog* log) {
  spans_.reset();
  for (State& state : states_) {
    state.stamps.reset();
    state.stamped.reset();
  }
  if (log == nullptr) return;
  spans_.emplace(module_, *log);
  zero_ = device_.make_stamp();
  zero_->record(0);
  device_.synchronise();
}

void StreamRunner::run(size_t index) {
  if (measures() && !states_[index].stamps)
    states_[index].stamps.emplace(device_, programs_[index]);
  enqueue(index);
  if (!measures()) return;
  device_.synchronise();
  states_[index].stamps->read(*zero_, lanes_.count(), *spans_);
  spans_->add(index, programs_[index], /*batched=*/true);
}

// The first run loads what is loaded lazily, which must not happen inside a recording; nor may a
// caller be asked there before an op.
void StreamRunner::enqueue(size_t index) {
  State& state = states_[index];
  const bool asks = hooks_.before_write && programs_[index].writes_state;
  if (!state.ran || hooks_.observe || asks) {
    enqueue_all(index);
    state.ran |=
        !hooks_.observe;  // an observer sees ops one by one: batches may still have to load
    return;
  }
  std::unique_ptr<Recording>& recording = measures() ? state.stamped : state.recording;
  if (!recording) recording = device_.record([&] { enqueue_all(index); });
  recording->launch();
}

// In batches, unless there is an observer. List order is the order of enqueueing: what an op waits for
// was recorded before it.
void StreamRunner::enqueue_all(size_t index) {
  const BoundProgram& program = programs_[index];
  const StreamStamps* stamps = measures() ? &*states_[index].stamps : nullptr;
  std::optional<int32_t> layer;  // that lane 0 is in
  if (stamps) stamps->start();
  lanes_.fork(program.side_lanes);
  for (size_t at = 0; at < program.ops.size();) {
    const int32_t lane = program.lanes[at];
    const size_t count = together(program, at);
    if (hooks_.observe || (lane == 0 && layer != program.ops[at]->layer)) launcher_.mark(index, at);
    if (lane == 0) layer = program.ops[at + count - 1]->layer;
    hooks_.ask_to_write(std::span(program.writes).subspan(at, count));
    wait_for_others(index, at);
    if (!program.side_lanes.empty()) policy_.delay(device_, lane);
    if (stamps) stamps->begin(at);
    launcher_.launch(index, at, count);
    if (stamps) stamps->end(at);
    tell_others(index, at, count);
    if (hooks_.observe) {
      device_.synchronise();
      hooks_.observe(index, at);
    }
    policy_.poison(device_, program.dead(at));
    at += count;
  }
  lanes_.join(program.side_lanes);
}

void StreamRunner::wait_for_others(size_t index, size_t op) {
  const auto& events = states_[index].events;
  if (events.empty()) return;
  const BoundProgram& program = programs_[index];
  for (const int32_t other : program.order->waits(static_cast<int32_t>(op)))
    events[static_cast<size_t>(other)]->wait(program.lanes[op]);
}

void StreamRunner::tell_others(size_t index, size_t op, size_t count) {
  const auto& events = states_[index].events;
  if (events.empty()) return;
  for (size_t i = op; i < op + count; ++i)
    if (events[i]) events[i]->record(programs_[index].lanes[i]);
}

}  // namespace snug

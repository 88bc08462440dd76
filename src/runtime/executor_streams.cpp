// The executor on a device with streams: lanes become streams, an op is enqueued on its lane's, and
// events order them where Order says.
#include <algorithm>

#include "base/rng.h"
#include "hal/device_failure.h"
#include "runtime/executor.h"

namespace snug {
namespace {

constexpr int kMarkBits = 20;  // of a mark: the op's index; the program's is above it
constexpr int32_t kNoMark = -1;

}  // namespace

// The compute lane is the device's first. Programs share the others by name.
int32_t Executor::device_lane(const std::string& name) {
  const auto found = std::ranges::find(lane_names_, name);
  const auto lane = static_cast<int32_t>(found - lane_names_.begin());
  if (found == lane_names_.end()) lane_names_.push_back(name);
  return lane;
}

// Where lanes are streams: which is whose, and an event behind every op that another lane waits for.
void Executor::give_lanes(const Program& program, Compiled& out) {
  out.events.resize(program.ops.size());
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const int32_t lane = out.lanes[at] = device_lane(program.ops[at].lane);
    if (lane != 0 && std::ranges::find(out.side_lanes, lane) == out.side_lanes.end())
      out.side_lanes.push_back(lane);
    for (const int32_t other : out.order->waits(static_cast<int32_t>(at))) {
      std::unique_ptr<LaneEvent>& event = out.events[static_cast<size_t>(other)];
      if (!event) event = device_.make_event();
    }
  }
}

// A failure is named by `op`.
template <typename Fn>
void Executor::call_kernel(size_t program, size_t op, const Fn& call) {
  try {
    call();
  } catch (const Error& e) {
    if (e.code() != ExitCode::device) throw;
    throw DeviceFailure(fmt::format("{}: {}", place(program, op), e.what()));
  }
}

// Before any value has its content, so that whoever times an algorithm may write where it will.
void Executor::prepare() {
  bool any = false;
  for (size_t p = 0; p < programs_.size(); ++p) {
    for (size_t at = 0; at < programs_[p].kernels.size(); ++at) {
      const Kernel* kernel = programs_[p].kernels[at];
      if (kernel == nullptr || kernel->prepare == nullptr) continue;
      if (!any) device_.fill_noise({arenas_[0]->data(), static_cast<size_t>(arenas_[0]->bytes())});
      any = true;
      if (programs_[p].lanes[at] != 0) device_.synchronise();
      call_kernel(p, at, [&] { kernel->prepare(programs_[p].args[at]); });
      if (programs_[p].lanes[at] != 0) device_.synchronise();
    }
  }
  if (any) arenas_[0]->reset();
}

// Every kernel once, on zeros, where stages wait for each other's messages: CUDA loads a kernel when it is
// first launched, and may wait for all that runs before it does. A message that waits on the device for one
// that this rank has yet to compute would never come.
void Executor::rehearse() {
  const auto is_message = [](const Op& op) {
    return op.def->comm == Comm::send || op.def->comm == Comm::recv;
  };
  const bool has_messages = std::ranges::any_of(module_.programs, [&](const Program& program) {
    return std::ranges::any_of(program.ops, is_message);
  });
  if (!has_messages) return;
  device_.fill({arenas_[0]->data(), static_cast<size_t>(arenas_[0]->bytes())}, 0);
  device_.synchronise();  // lanes begin by themselves
  for (size_t p = 0; p < programs_.size(); ++p) {
    const Compiled& program = programs_[p];
    for (size_t at = 0; at < program.ops.size();) {
      const size_t count = together(program, at);
      if (program.kernels[at] != nullptr && !program.calls[at]) {
        device_.mark(static_cast<int32_t>(p << kMarkBits | at));
        launch(p, at, count);
      }
      at += count;
    }
  }
  device_.synchronise();
  device_.mark(kNoMark);
  arenas_[0]->reset();
}

// `count` ops that run together, on their lane.
void Executor::launch(size_t program, size_t op, size_t count) {
  const Compiled& compiled = programs_[program];
  const Kernel* kernel = compiled.kernels[op];
  const KernelArgs& args = compiled.args[op];
  call_kernel(program, op, [&] {
    if (compiled.groups[op] != nullptr) {
      communicate(*compiled.ops[op], *compiled.groups[op], args,
                  device_.lane_stream(compiled.lanes[op]));
    } else if (compiled.calls[op]) {
      for (size_t i = op; i < op + count; ++i) device_.call(compiled.calls[i], compiled.lanes[i]);
    } else if (kernel == nullptr) {
      const Tensor& to = args.out(0);
      device_.copy({to.as<std::byte>(), static_cast<size_t>(to.type->bytes())},
                   args.in<std::byte>(0), compiled.lanes[op]);
    } else if (count == 1) {
      kernel->run(args);
    } else {
      kernel->run_many(std::span(compiled.args).subspan(op, count));
    }
  });
}

// Called by the op's lane, on a thread of the device's: what fails is kept for who runs or reads
// next.
void Executor::compute_on_host(size_t program, size_t op) {
  if (failed_) return;
  try {
    run_op(programs_[program], op);
  } catch (...) {
    failure_ = std::current_exception();
    failed_ = true;
  }
}

void Executor::throw_what_failed() const {
  if (failed_) std::rethrow_exception(failure_);
}

void Executor::enqueue(size_t program, size_t op) { enqueue_alone(program, op, 1); }

void Executor::enqueue_batch(size_t program, size_t op) {
  enqueue_alone(program, op, programs_.at(program).batches.at(op));
}

void Executor::enqueue_alone(size_t program, size_t op, size_t count) {
  const int32_t lane = programs_.at(program).lanes.at(op);
  const std::span<const int32_t> side_lanes(&lane, lane == 0 ? 0 : 1);
  fork(side_lanes);
  launch(program, op, count);
  join(side_lanes);
}

// These lanes begin after what lane 0 was given.
void Executor::fork(std::span<const int32_t> lanes) {
  if (!lanes.empty()) lane_events_[0]->record(0);
  for (const int32_t lane : lanes) lane_events_[0]->wait(lane);
}

// Lane 0 goes on when these have ended.
void Executor::join(std::span<const int32_t> lanes) {
  for (const int32_t lane : lanes) {
    LaneEvent& end = *lane_events_[static_cast<size_t>(lane)];
    end.record(lane);
    end.wait(0);
  }
}

void Executor::delay(const Compiled& program, size_t op) {
  if (!options_.delay_seed || program.side_lanes.empty()) return;
  constexpr uint64_t kLeast = 2, kMost = 300;  // microseconds, before every other op
  const uint64_t draw = mix(*options_.delay_seed + ++delays_);
  if (draw % 2 == 0)
    device_.delay(program.lanes[op], static_cast<double>(kLeast + draw / 2 % (kMost - kLeast)));
}

// The first run loads what is loaded lazily, which must not happen inside a recording; nor does
// whoever must be asked before an op.
void Executor::run_on_stream(size_t index) {
  Compiled& program = programs_[index];
  const bool asks = before_write && program.writes_state;
  if (measures()) make_stamps(index);
  if (!program.ran || observe || asks) {
    enqueue_all(index);
    program.ran |= !observe;  // who looks on sees ops one by one: batches may still have to load
    return;
  }
  std::unique_ptr<Recording>& recording =
      measures() ? program.stamps->recording : program.recording;
  if (!recording) recording = device_.record([&] { enqueue_all(index); });
  recording->launch();
}

// In batches, unless somebody looks at every op or at what becomes of its bytes. List order is the
// order of enqueueing: what an op waits for was recorded before it.
void Executor::enqueue_all(size_t index) {
  const Compiled& program = programs_[index];
  const std::vector<Op>& ops = module_.programs[index].ops;
  std::optional<int32_t> layer;  // that lane 0 is in
  if (measures()) program.stamps->start->record(0);
  fork(program.side_lanes);
  for (size_t at = 0; at < ops.size();) {
    const int32_t lane = program.lanes[at];
    const size_t count = together(program, at);
    if (observe || (lane == 0 && layer != ops[at].layer))
      device_.mark(static_cast<int32_t>(index << kMarkBits | at));
    if (lane == 0) layer = ops[at + count - 1].layer;
    ask_to_write(program, at, count);
    wait_for_others(program, at);
    delay(program, at);
    stamp_begin(program, at);
    launch(index, at, count);
    stamp_end(program, at);
    tell_others(program, at, count);
    if (observe) {
      device_.synchronise();
      observe(index, at);
    }
    poison_what_died(program, at);
    at += count;
  }
  join(program.side_lanes);
}

void Executor::wait_for_others(const Compiled& program, size_t op) {
  if (program.events.empty()) return;
  for (const int32_t other : program.order->waits(static_cast<int32_t>(op)))
    program.events[static_cast<size_t>(other)]->wait(program.lanes[op]);
}

void Executor::tell_others(const Compiled& program, size_t op, size_t count) {
  if (program.events.empty()) return;
  for (size_t i = op; i < op + count; ++i) {
    if (program.events[i]) program.events[i]->record(program.lanes[i]);
  }
}

std::string Executor::place(size_t program, size_t op) const {
  const Op& at = module_.programs[program].ops[op];
  const std::string layer = at.layer == kNoLayer ? "" : fmt::format(" (layer {})", at.layer);
  return fmt::format("{} '{}'{} in {}", at.def->kind, at.name, layer,
                     module_.programs[program].name);
}

std::string Executor::last_place() const {
  const int32_t mark = device_.last_mark();
  if (mark < 0) return "before the first op";
  return "at or after " + place(static_cast<size_t>(mark) >> kMarkBits,
                                static_cast<size_t>(mark) & ((size_t{1} << kMarkBits) - 1));
}

}  // namespace snug

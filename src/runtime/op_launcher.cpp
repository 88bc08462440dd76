#include "runtime/op_launcher.h"

#include <algorithm>

#include "hal/device_failure.h"

namespace snug {
namespace {

constexpr int kMarkBits = 20;  // of a mark: the op's index; the program's is above it
constexpr int32_t kNoMark = -1;

}  // namespace

OpLauncher::OpLauncher(std::span<const BoundProgram> programs, const Storage& storage,
                       DeviceLanes& lanes, HostFailure& failure)
    : programs_(programs), storage_(storage), device_(storage.device()), lanes_(lanes) {
  for (const BoundProgram& program : programs_) {
    auto& calls = calls_.emplace_back(program.ops.size());
    for (size_t at = 0; at < calls.size(); ++at) {
      if (computes_on_host(program, at, device_) || program.disk_copies[at])
        calls[at] = [&program, &failure, at] { failure.guard([&] { program.run_on_host(at); }); };
    }
  }
}

// A failure is named by `op`.
template <typename Fn>
void OpLauncher::call_kernel(size_t program, size_t op, const Fn& call) const {
  try {
    call();
  } catch (const Error& e) {
    if (e.code() != ExitCode::device) throw;
    throw DeviceFailure(fmt::format("{}: {}", place(program, op), e.what()));
  }
}

void OpLauncher::prepare() {
  bool any = false;
  for (size_t p = 0; p < programs_.size(); ++p) {
    for (size_t at = 0; at < programs_[p].kernels.size(); ++at) {
      const Kernel* kernel = programs_[p].kernels[at];
      if (kernel == nullptr || kernel->prepare == nullptr) continue;
      if (!any) device_.fill_noise(storage_.device_bytes());
      any = true;
      if (programs_[p].lanes[at] != 0) device_.synchronise();
      call_kernel(p, at, [&] { kernel->prepare(programs_[p].args[at]); });
      if (programs_[p].lanes[at] != 0) device_.synchronise();
    }
  }
  if (any) storage_.device_arena().reset();
}

// CUDA loads a kernel when it is first launched, and may wait for all that runs before it does. A message
// that waits on the device for one that this rank has yet to compute would never come.
void OpLauncher::rehearse() {
  const auto is_message = [](const Op* op) {
    return op->def->comm == Comm::send || op->def->comm == Comm::recv;
  };
  const bool has_messages = std::ranges::any_of(programs_, [&](const BoundProgram& program) {
    return std::ranges::any_of(program.ops, is_message);
  });
  if (!has_messages) return;
  device_.fill(storage_.device_bytes(), 0);
  device_.synchronise();  // lanes begin by themselves
  for (size_t p = 0; p < programs_.size(); ++p) {
    const BoundProgram& program = programs_[p];
    for (size_t at = 0; at < program.ops.size(); at += program.batches[at]) {
      if (program.kernels[at] == nullptr || calls_[p][at]) continue;
      mark(p, at);
      launch(p, at, program.batches[at]);
    }
  }
  device_.synchronise();
  device_.mark(kNoMark);
  storage_.device_arena().reset();
}

void OpLauncher::launch(size_t program, size_t op, size_t count) {
  const BoundProgram& bound = programs_[program];
  const Kernel* kernel = bound.kernels[op];
  const KernelArgs& args = bound.args[op];
  const auto& calls = calls_[program];
  call_kernel(program, op, [&] {
    if (bound.groups[op] != nullptr) {
      communicate(*bound.ops[op], *bound.groups[op], args, device_.lane_stream(bound.lanes[op]));
    } else if (calls[op]) {
      for (size_t i = op; i < op + count; ++i) device_.call(calls[i], bound.lanes[i]);
    } else if (kernel == nullptr) {
      const Tensor& to = args.out(0);
      device_.copy({to.as<std::byte>(), static_cast<size_t>(to.type->bytes())},
                   args.in<std::byte>(0), bound.lanes[op]);
    } else if (count == 1) {
      kernel->run(args);
    } else {
      kernel->run_many(std::span(bound.args).subspan(op, count));
    }
  });
}

void OpLauncher::launch_in_order(size_t program, size_t op, size_t count) {
  const int32_t lane = programs_[program].lanes.at(op);
  const std::span<const int32_t> side_lanes(&lane, lane == 0 ? 0 : 1);
  lanes_.fork(side_lanes);
  launch(program, op, count);
  lanes_.join(side_lanes);
}

void OpLauncher::mark(size_t program, size_t op) {
  device_.mark(static_cast<int32_t>(program << kMarkBits | op));
}

std::string OpLauncher::place(size_t program, size_t op) const {
  const Program& in = storage_.module().programs[program];
  const Op& at = in.ops[op];
  const std::string layer = at.layer == kNoLayer ? "" : fmt::format(" (layer {})", at.layer);
  return fmt::format("{} '{}'{} in {}", at.def->kind, at.name, layer, in.name);
}

std::string OpLauncher::last_place() const {
  const int32_t mark = device_.last_mark();
  if (mark < 0) return "before the first op";
  return "at or after " + place(static_cast<size_t>(mark) >> kMarkBits,
                                static_cast<size_t>(mark) & ((size_t{1} << kMarkBits) - 1));
}

}  // namespace snug

#include "runtime/executor.h"

#include <exception>

#include "base/error.h"
#include "base/units.h"
#include "runtime/host_runner.h"
#include "runtime/stream_runner.h"

namespace snug {
namespace {

// Refuses what an executor cannot do, before the large allocation.
const Module& runnable(const Module& module, const Device& device, const ExecutorOptions& options) {
  if (module.level != Level::placed) throw internal_error("module '{}' is not placed", module.name);
  for (const Program& program : module.programs)
    require_runnable(program, module, device, options.group_of);
  if (const int64_t bytes = module.arena_bytes[static_cast<size_t>(Space::disk)];
      bytes > 0 && options.offload_dir.empty()) {
    throw usage_error("{} ({} bytes) live on disk, and nothing says where that is",
                      format_bytes(bytes), format_exact(bytes))
        .hint("give --offload-dir DIR, a directory on a local disk");
  }
  return module;
}

std::vector<BoundProgram> bind_all(const Storage& storage, DeviceLanes& lanes,
                                   const ExecutorOptions& options) {
  std::vector<BoundProgram> programs;
  for (size_t p = 0; p < storage.module().programs.size(); ++p)
    programs.push_back(
        bind_program(p, storage, lanes, options.group_of,
                     {.math = options.math, .one_by_one = options.test.poison_dead}));
  return programs;
}

}  // namespace

Executor::Executor(const Module& module, Device& device, const ExecutorOptions& options)
    : module_(runnable(module, device, options)),
      device_(device),
      policy_(options.test),
      storage_(module, device, options.offload_dir, failure_),
      lanes_(device),
      programs_(bind_all(storage_, lanes_, options)),
      launcher_(programs_, storage_, lanes_, failure_) {
  const bool on_streams = device.stream() != nullptr;
  if (on_streams) {
    runner_ =
        std::make_unique<StreamRunner>(programs_, launcher_, storage_, lanes_, *this, policy_);
  } else {
    runner_ = std::make_unique<HostRunner>(programs_, storage_, *this, policy_);
  }
  policy_.load(device);
  launcher_.prepare();
  if (on_streams) launcher_.rehearse();
}

Executor::~Executor() {
  try {
    device_.synchronise();
  } catch (...) {  // a device that failed does nothing more, and its user has been told
    failure_.keep(std::current_exception());
  }
}

void Executor::run(std::string_view name) {
  const int32_t index = module_.program_index(name);
  if (index < 0) throw internal_error("module '{}' has no program '{}'", module_.name, name);
  throw_what_failed();
  runner_->run(static_cast<size_t>(index));
}

void Executor::run_step(const std::function<void(const Program&)>& before) {
  for (const Repeat& region : module_.step) {
    for (int64_t i = 0; i < region.times; ++i) {
      for (const std::string& name : region.programs) {
        before(module_.program(name));
        run(name);
      }
    }
  }
}

ValueId Executor::shared(std::string_view name) const {
  const ValueId id = module_.find_shared(name);
  if (!id.valid()) throw internal_error("module '{}' has no shared value '{}'", module_.name, name);
  return id;
}

void Executor::write(ValueId id, std::span<const std::byte> from) {
  storage_.require_size(id, from.size());
  write(id, 0, from);
}

void Executor::read(ValueId id, std::span<std::byte> to) const {
  storage_.require_size(id, to.size());
  read(id, 0, to);
}

void Executor::write(ValueId id, int64_t offset, std::span<const std::byte> from) {
  if (before_write) before_write(module_.root(id));
  storage_.write(id, offset, from);
}

void Executor::zero(ValueId id) {
  if (before_write) before_write(module_.root(id));
  storage_.fill(id, 0);
}

int32_t Executor::extra_lane() {
  const int32_t lane = lanes_.number_of("extra");
  device_.lane_stream(lane);  // made now, on the first caller's thread
  return lane;
}

}  // namespace snug

#include "runtime/executor.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include "base/rng.h"
#include "base/units.h"
#include "hal/cpu/cpu_device.h"
#include "hal/cpu/guarded_memory.h"
#include "runtime/batches.h"

namespace snug {
namespace {

constexpr uint8_t kNanByte = 0xFF;  // a float, bf16 or f16 of these bytes is NaN; an integer is -1

Backend backend_of(const Device& device) {
  return device.kind() == DeviceKind::cuda ? Backend::cuda : Backend::cpu;
}

// A copy between spaces, on a device with streams or from and to disk: the runtime moves the bytes.
bool is_moved_by_runtime(const Module& module, const Op& op, const Device& device) {
  if (op.def->comm != Comm::none) return true;
  const auto move = move_of(module, op);
  return move &&
         (device.stream() != nullptr || move->from == Space::disk || move->to == Space::disk);
}

// Does the device's stream run the op's kernel? Else the host does.
bool on_stream(const Module& module, const Op& op, const Device& device) {
  return device.stream() != nullptr && space_of(module, op) == Space::device;
}

// nullptr: the op needs none.
const Kernel* kernel_for(const Module& module, const Op& op, const Device& device) {
  if (is_moved_by_runtime(module, op, device)) {
    if (op.predicate.valid())
      throw internal_error("{} '{}' has a predicate, but only moves bytes", op.def->kind, op.name);
    return nullptr;
  }
  const Dtype dtype = kernel_dtype(module, op);
  const Backend backend = backend_in(space_of(module, op), backend_of(device));
  const Kernel* kernel = op.def->find_kernel(backend, dtype);
  if (kernel == nullptr) {
    throw usage_error("{} '{}' has no {} kernel for {}", op.def->kind, op.name, name_of(dtype),
                      backend == Backend::cuda ? "CUDA" : "the CPU");
  }
  if (op.predicate.valid() && module[op.predicate].space != space_of(module, op))
    throw internal_error("{} '{}' computes in another memory than its predicate is in",
                         op.def->kind, op.name);
  if (op.predicate.valid() && on_stream(module, op, device) && !kernel->predicated)
    throw internal_error("{} '{}' has a predicate that its kernel does not read", op.def->kind,
                         op.name);
  return kernel;
}

// All that this executor cannot do, said before the large allocation.
void require_runnable(const Module& module, const Device& device, const ExecutorOptions& options) {
  if (module.level != Level::placed) throw internal_error("module '{}' is not placed", module.name);
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) {
      kernel_for(module, op, device);
      if (op.def->comm != Comm::none && !options.group_of)
        throw internal_error("{} '{}' goes to other ranks, and there are none", op.def->kind,
                             op.name);
    }
  }
  const std::string_view offload_dir = options.offload_dir;
  if (const int64_t bytes = module.arena_bytes[static_cast<size_t>(Space::disk)];
      bytes > 0 && offload_dir.empty()) {
    throw usage_error("{} ({} bytes) live on disk, and nothing says where that is",
                      format_bytes(bytes), format_exact(bytes))
        .hint("give --offload-dir DIR, a directory on a local disk");
  }
}

// Values that go on from step to step.
std::vector<ValueId> state_written_by(const Module& module, const Op& op) {
  std::vector<ValueId> written;
  for_each_access(op, [&](ValueId id, bool writes) {
    const ValueId root = module.root(id);
    if (writes && module[root].scope == Scope::persistent) written.push_back(root);
  });
  return written;
}

// Before an op: in every run some lanes are late all the way, and others are not.
void pause(uint64_t seed, const Order& order, int32_t op) {
  constexpr uint64_t kMost[] = {0, 60, 400};  // microseconds, before every third op of a lane
  const uint64_t lane = mix(seed + static_cast<uint64_t>(order.lane_of(op)));
  const uint64_t most = kMost[lane % 3], draw = mix(lane + static_cast<uint64_t>(op));
  if (most > 0 && draw % 3 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(draw / 3 % most));
}

// Where the device's shared values end.
int64_t transient_floor(const Module& module) {
  int64_t floor = 0;
  for (const Value& value : module.values) {
    if (value.shared() && value.owns_bytes() && value.space == Space::device)
      floor = std::max(floor, *value.offset + value.storage_bytes());
  }
  return floor;
}

}  // namespace

Executor::Executor(const Module& module, Device& device, ExecutorOptions options)
    : module_(module), device_(device), options_(std::move(options)) {
  require_runnable(module, device, options_);
  for (size_t s = 0; s < kSpaces; ++s) {
    const int64_t bytes = module.arena_bytes[s];
    const auto space = static_cast<Space>(s);
    if (space == Space::device) {
      arenas_[s] = device.allocate(bytes);
    } else if (bytes > 0 && space == Space::disk) {
      disk_ = std::make_unique<DiskFile>(std::string(options_.offload_dir), bytes);
    } else if (bytes > 0) {
      arenas_[s] = device.allocate_host(bytes);
    }
  }
  const int64_t floor = transient_floor(module);
  transient_ = {arenas_[0]->data() + floor, static_cast<size_t>(planned_bytes() - floor)};
  int32_t lanes = 1;
  for (size_t p = 0; p < module.programs.size(); ++p) {
    programs_.push_back(resolve(p));
    if (programs_[p].order) lanes = std::max(lanes, programs_[p].order->lanes());
  }
  options_.group_of = {};
  if (lanes > 1 && !options_.order_seed && device.stream() == nullptr)
    lanes_ = std::make_unique<LaneThreads>(lanes);
  if (lane_names_.size() > 1) {
    for (size_t lane = 0; lane < lane_names_.size(); ++lane)
      lane_events_.push_back(device.make_event());
  }
  if (options_.delay_seed) device.delay(/*lane=*/0, 0);  // loaded now, and not inside a recording
  prepare();
  if (device.stream() != nullptr) rehearse();
}

Executor::~Executor() {
  try {
    device_.synchronise();
  } catch (...) {  // a device that failed does nothing more, and who used it has been told
    failed_ = true;
  }
}

Executor::Compiled Executor::resolve(size_t index) {
  const Program& program = module_.programs[index];
  Compiled out;
  std::vector<std::vector<ValueId>> born(program.ops.size()), dead(program.ops.size());
  for (size_t i = 0; i < module_.values.size(); ++i) {
    const Value& value = module_.values[i];
    if (value.program != static_cast<int32_t>(index) || !value.live) continue;
    // A device overwrites dead values in its own memory only.
    if (value.space != Space::device && !shares_host_memory(device_)) continue;
    if (value.space == Space::disk) continue;
    born[static_cast<size_t>(std::max(value.live->first, 0))].push_back({static_cast<int32_t>(i)});
    dead[static_cast<size_t>(value.live->last)].push_back({static_cast<int32_t>(i)});
  }
  size_t tensors = 0;
  for (const Op& op : program.ops) tensors += op.inputs.size() + op.outputs.size();
  out.tensors.reserve(tensors);  // args point in here
  auto add_tensors = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.tensors.size();
    for (ValueId id : ids)
      out.tensors.push_back(id.valid() && !on_disk(id) ? Tensor{address(id), &module_[id].type}
                                                       : Tensor{});
    return std::span<const Tensor>(out.tensors).subspan(first);
  };
  auto add_ranges = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.ranges.size();
    for (ValueId id : ids)
      out.ranges.push_back({address(id), static_cast<size_t>(module_[id].storage_bytes())});
    return first;
  };
  if (std::ranges::any_of(program.ops,
                          [&](const Op& op) { return op.lane != program.ops[0].lane; }))
    out.order.emplace(module_, program);
  out.lanes.assign(program.ops.size(), 0);
  if (out.order && device_.stream() != nullptr && !options_.poison_dead) give_lanes(program, out);
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const Op& op = program.ops[at];
    out.ops.push_back(&op);
    out.kernels.push_back(kernel_for(module_, op, device_));
    out.disk_copies.push_back(disk_copy_of(op));
    out.groups.push_back(group_of(op));
    out.writes.push_back(state_written_by(module_, op));
    out.writes_state |= !out.writes.back().empty();
    const std::span<const Tensor> inputs = add_tensors(op.inputs);
    const std::span<const Tensor> outputs = add_tensors(op.outputs);
    out.args.push_back(
        {inputs, outputs, op.workspace.valid() ? range(op.workspace) : std::span<std::byte>{},
         op.attrs, on_stream(module_, op, device_) ? device_.lane_stream(out.lanes[at]) : nullptr,
         op.predicate.valid() ? reinterpret_cast<const int32_t*>(address(op.predicate)) : nullptr,
         options_.math});
    out.lifetimes.push_back(
        {add_ranges(born[at]), born[at].size(), add_ranges(dead[at]), dead[at].size()});
  }
  out.batches = batch_sizes(out.kernels, out.args, out.order ? &*out.order : nullptr);
  out.calls.resize(program.ops.size());
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const bool computes_on_host =
        device_.stream() != nullptr && out.kernels[at] != nullptr && out.args[at].stream == nullptr;
    if (computes_on_host || out.disk_copies[at])
      out.calls[at] = [this, index, at] { compute_on_host(index, at); };
  }
  return out;
}

void Executor::run(std::string_view name) {
  const int32_t index = module_.program_index(name);
  if (index < 0) throw internal_error("module '{}' has no program '{}'", module_.name, name);
  const auto program = static_cast<size_t>(index);
  throw_what_failed();
  if (device_.stream() != nullptr) {
    run_on_stream(program);
  } else if (!programs_[program].order || observe) {  // list order is one that lanes allow
    run_on_host(program);
  } else if (options_.order_seed) {
    run_in_random_order(program);
  } else {
    run_lanes(program);
  }
  add_spans(program);
}

void Executor::run_op(const Compiled& program, size_t at) const {
  if (program.disk_copies[at]) return run_disk_copy(*program.disk_copies[at]);
  if (program.groups[at] != nullptr)
    return communicate(*program.ops[at], *program.groups[at], program.args[at], nullptr);
  const KernelArgs& args = program.args[at];
  const Kernel& kernel = *program.kernels[at];
  if (args.predicate == nullptr || *args.predicate != 0 || kernel.predicated) kernel.run(args);
}

void Executor::ask_to_write(const Compiled& program, size_t op, size_t count) const {
  if (!before_write) return;
  for (size_t i = op; i < op + count; ++i)
    for (const ValueId id : program.writes[i]) before_write(id);
}

void Executor::run_lanes(size_t index) {
  const Compiled& program = programs_[index];
  ++delays_;
  lanes_->run(*program.order, [&](int32_t op) {
    if (options_.delay_seed) pause(mix(*options_.delay_seed + delays_), *program.order, op);
    ask_to_write(program, static_cast<size_t>(op));
    run_measured(program, static_cast<size_t>(op));
  });
}

void Executor::run_in_random_order(size_t index) {
  const Compiled& program = programs_[index];
  const std::vector<int32_t> order =
      random_extension(*program.order, mix(*options_.order_seed + ++random_runs_));
  std::map<ValueId, size_t> last_use;  // of locals: the place in `order`
  for (size_t place = 0; place < order.size(); ++place) {
    for_each_access(module_.programs[index].ops[static_cast<size_t>(order[place])],
                    [&](ValueId id, bool) {
                      const ValueId root = module_.root(id);
                      if (!module_[root].shared()) last_use[root] = place;
                    });
  }
  std::vector<std::vector<ValueId>> dead(order.size());
  for (const auto& [root, place] : last_use) dead[place].push_back(root);
  for (size_t place = 0; place < order.size(); ++place) {
    ask_to_write(program, static_cast<size_t>(order[place]));
    run_measured(program, static_cast<size_t>(order[place]));
    if (!options_.poison_dead) continue;
    for (ValueId root : dead[place]) overwrite(root, kNanByte);
  }
}

void Executor::run_on_host(size_t index) {
  const Compiled& program = programs_[index];
  forbid_access(transient_.data(), static_cast<int64_t>(transient_.size()));
  for (size_t at = 0; at < program.kernels.size(); ++at) {
    const Lifetimes& lives = program.lifetimes[at];
    for (const auto& range : std::span(program.ranges).subspan(lives.first_born, lives.born)) {
      allow_access(range.data(), static_cast<int64_t>(range.size()));
    }
    ask_to_write(program, at);
    run_measured(program, at);
    if (observe) observe(index, at);
    poison_what_died(program, at);
    for (const auto& range : std::span(program.ranges).subspan(lives.first_dead, lives.dead))
      forbid_access(range.data(), static_cast<int64_t>(range.size()));
  }
  allow_access(transient_.data(), static_cast<int64_t>(transient_.size()));
}

void Executor::poison_what_died(const Compiled& program, size_t at) {
  if (!options_.poison_dead) return;
  const Lifetimes& lives = program.lifetimes[at];
  for (const auto& range : std::span(program.ranges).subspan(lives.first_dead, lives.dead))
    device_.fill(range, kNanByte);
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

Executor::Place Executor::place_of(ValueId id) const {
  int64_t offset = 0;
  for (; module_[id].base.valid(); id = module_[id].base)
    offset += module_[id].view_offset * size_of(module_[id].type.dtype);
  return {module_[id].space, *module_[id].offset + offset};
}

std::byte* Executor::address(ValueId id) const {
  const auto [space, offset] = place_of(id);
  if (space == Space::disk)
    throw internal_error("'{}' has no address: it lives on disk", module_[id].name);
  return arenas_[static_cast<size_t>(space)]->data() + offset;
}

std::span<std::byte> Executor::range(ValueId id) const {
  return {address(id), static_cast<size_t>(module_[id].type.bytes())};
}

// In the host's memory, on a device that has its own: the host waits for the device, then copies.
bool Executor::is_pinned(ValueId id) const {
  return !shares_host_memory(device_) && module_[module_.root(id)].space == Space::host;
}

bool Executor::host_addresses(ValueId id) const {
  return !on_disk(id) && (shares_host_memory(device_) || is_pinned(id));
}

std::span<std::byte> Executor::bytes(ValueId id) const {
  if (!host_addresses(id))
    throw internal_error("'{}' is asked for in host memory, but is on {}", module_[id].name,
                         on_disk(id) ? "disk" : device_.name());
  device_.synchronise();
  throw_what_failed();
  return range(id);
}

void Executor::write(ValueId id, std::span<const std::byte> from) {
  require_size(id, from.size());
  write(id, 0, from);
}

void Executor::read(ValueId id, std::span<std::byte> to) const {
  require_size(id, to.size());
  read(id, 0, to);
}

void Executor::write(ValueId id, int64_t offset, std::span<const std::byte> from) {
  require_inside(id, offset, from.size());
  if (before_write) before_write(module_.root(id));
  if (on_disk(id)) {
    const bool ends = offset + static_cast<int64_t>(from.size()) == module_[id].type.bytes();
    device_.synchronise();
    disk_->write(place_of(id).offset + offset, from, ends && ends_its_storage(id));
  } else if (is_pinned(id)) {
    std::memcpy(bytes(id).data() + offset, from.data(), from.size());
  } else {
    device_.upload(address(id) + offset, from);
  }
}

void Executor::read(ValueId id, int64_t offset, std::span<std::byte> to) const {
  require_inside(id, offset, to.size());
  if (on_disk(id)) {
    device_.synchronise();
    disk_->read(place_of(id).offset + offset, to);
  } else if (is_pinned(id)) {
    std::memcpy(to.data(), bytes(id).data() + offset, to.size());
  } else {
    device_.download(to, address(id) + offset);
  }
  throw_what_failed();
}

void Executor::zero(ValueId id) { overwrite(id, 0); }

// All of its storage.
void Executor::overwrite(ValueId id, uint8_t value) {
  if (before_write) before_write(module_.root(id));
  const int64_t bytes = module_[id].storage_bytes();
  if (on_disk(id)) {
    device_.synchronise();
    return disk_->fill(place_of(id).offset, bytes, value);
  }
  const std::span<std::byte> storage(address(id), static_cast<size_t>(bytes));
  if (is_pinned(id)) {
    device_.synchronise();
    fill_bytes(storage, value);
  } else {
    device_.fill(storage, value);
  }
}

int32_t Executor::lane_beside() {
  const int32_t lane = device_lane("beside");
  device_.lane_stream(lane);  // made now, by whoever calls first
  return lane;
}

std::span<const std::byte> Executor::home(ValueId id) const { return range(id); }

void Executor::read_beside(ValueId id, int64_t offset, std::span<std::byte> to,
                           int32_t lane) const {
  require_inside(id, offset, to.size());
  if (on_disk(id)) {
    disk_->read(place_of(id).offset + offset, to);
  } else {
    device_.copy(to, address(id) + offset, lane);
  }
}

std::unique_ptr<Reading> Executor::read_later(std::span<const ValueId> ids) const {
  std::vector<Device::Piece> pieces;
  for (ValueId id : ids) pieces.push_back(range(id));
  return device_.read_later(pieces);
}

void Executor::require_size(ValueId id, size_t bytes) const {
  if (bytes == static_cast<size_t>(module_[id].type.bytes())) return;
  throw internal_error("{} bytes for '{}', which has {}", bytes, module_[id].name,
                       module_[id].type.bytes());
}

void Executor::require_inside(ValueId id, int64_t offset, size_t bytes) const {
  const int64_t all = module_[id].type.bytes();
  if (offset >= 0 && offset <= all && std::cmp_less_equal(bytes, all - offset)) return;
  throw internal_error("{} bytes from byte {} on for '{}', which has {}", bytes, offset,
                       module_[id].name, all);
}

int64_t Executor::planned_bytes(Space space) const {
  return module_.arena_bytes[static_cast<size_t>(space)];
}
int64_t Executor::allocated_bytes(Space space) const {
  if (space == Space::disk) return disk_ ? disk_->bytes() : 0;
  const auto& arena = arenas_[static_cast<size_t>(space)];
  return arena ? arena->bytes() : 0;
}
int64_t Executor::measured_bytes(Space space) const {
  if (space == Space::disk) return disk_ ? disk_->high_water_mark() : 0;
  const auto& arena = arenas_[static_cast<size_t>(space)];
  return arena ? arena->high_water_mark() : 0;
}

}  // namespace snug

#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "hal/cpu/cpu_device.h"

namespace snug {
namespace {

constexpr int kNanByte = 0xFF;  // a float, bf16 or f16 of these bytes is NaN; an integer is -1

KernelFn kernel_for(const Module& module, const Op& op) {
  const Dtype dtype = kernel_dtype(module, op);
  if (const KernelFn kernel = op.def->kernel(Backend::cpu, dtype)) return kernel;
  throw usage_error("{} '{}' has no {} kernel for the CPU", op.def->kind, op.name, name_of(dtype));
}

// All that this executor cannot do, said before the large allocation.
void require_runnable(const Module& module) {
  if (module.level != Level::placed) throw internal_error("module '{}' is not placed", module.name);
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) kernel_for(module, op);
  }
  for (const Value& value : module.values) {
    if (value.space == Space::device) continue;
    throw usage_error("value '{}' lives in {} memory, which this executor does not have",
                      value.name, name_of(value.space));
  }
}

// Where the shared values end.
int64_t transient_floor(const Module& module) {
  int64_t floor = 0;
  for (const Value& value : module.values) {
    if (value.shared() && value.owns_bytes())
      floor = std::max(floor, *value.offset + value.storage_bytes());
  }
  return floor;
}

}  // namespace

Executor::Executor(const Module& module, Device& device, ExecutorOptions options)
    : module_(module), options_(options) {
  require_runnable(module);
  arena_ = device.allocate(planned_bytes());
  const int64_t floor = transient_floor(module);
  transient_ = {arena_->data() + floor, static_cast<size_t>(planned_bytes() - floor)};
  for (size_t p = 0; p < module.programs.size(); ++p) programs_.push_back(resolve(p));
}

Executor::Compiled Executor::resolve(size_t index) const {
  const Program& program = module_.programs[index];
  Compiled out;
  std::vector<std::vector<ValueId>> born(program.ops.size()), dead(program.ops.size());
  for (size_t i = 0; i < module_.values.size(); ++i) {
    const Value& value = module_.values[i];
    if (value.program != static_cast<int32_t>(index) || !value.live) continue;
    born[static_cast<size_t>(std::max(value.live->first, 0))].push_back({static_cast<int32_t>(i)});
    dead[static_cast<size_t>(value.live->last)].push_back({static_cast<int32_t>(i)});
  }
  auto add_tensors = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.tensors.size();
    for (ValueId id : ids)
      out.tensors.push_back(id.valid() ? Tensor{address(id), &module_[id].type} : Tensor{});
    return first;
  };
  auto add_ranges = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.ranges.size();
    for (ValueId id : ids)
      out.ranges.push_back({address(id), static_cast<size_t>(module_[id].storage_bytes())});
    return first;
  };
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const Op& op = program.ops[at];
    Call call{};
    call.kernel = kernel_for(module_, op);
    call.first_input = add_tensors(op.inputs);
    call.inputs = op.inputs.size();
    call.first_output = add_tensors(op.outputs);
    call.outputs = op.outputs.size();
    if (op.workspace.valid()) call.workspace = bytes(op.workspace);
    call.attrs = &op.attrs;
    call.predicate =
        op.predicate.valid() ? reinterpret_cast<const int32_t*>(address(op.predicate)) : nullptr;
    call.first_born = add_ranges(born[at]);
    call.born = born[at].size();
    call.first_dead = add_ranges(dead[at]);
    call.dead = dead[at].size();
    out.calls.push_back(call);
  }
  return out;
}

void Executor::run(std::string_view name) {
  const int32_t index = module_.program_index(name);
  if (index < 0) throw internal_error("module '{}' has no program '{}'", module_.name, name);
  const Compiled& program = programs_[static_cast<size_t>(index)];
  forbid_access(transient_.data(), static_cast<int64_t>(transient_.size()));
  for (size_t at = 0; at < program.calls.size(); ++at) {
    const Call& call = program.calls[at];
    for (const auto& range : std::span(program.ranges).subspan(call.first_born, call.born)) {
      allow_access(range.data(), static_cast<int64_t>(range.size()));
    }
    if (call.predicate == nullptr || *call.predicate != 0) {
      const std::span<const Tensor> tensors(program.tensors);
      call.kernel({tensors.subspan(call.first_input, call.inputs),
                   tensors.subspan(call.first_output, call.outputs), call.workspace, *call.attrs});
    }
    if (observe) observe(static_cast<size_t>(index), at);
    for (const auto& range : std::span(program.ranges).subspan(call.first_dead, call.dead)) {
      if (options_.poison_dead) std::memset(range.data(), kNanByte, range.size());
      forbid_access(range.data(), static_cast<int64_t>(range.size()));
    }
  }
  allow_access(transient_.data(), static_cast<int64_t>(transient_.size()));
}

void Executor::run_step(const std::function<void(std::string_view)>& before) {
  for (const Repeat& region : module_.step) {
    for (int64_t i = 0; i < region.times; ++i) {
      for (const std::string& program : region.programs) {
        before(program);
        run(program);
      }
    }
  }
}

ValueId Executor::shared(std::string_view name) const {
  const ValueId id = module_.find_shared(name);
  if (!id.valid()) throw internal_error("module '{}' has no shared value '{}'", module_.name, name);
  return id;
}

std::byte* Executor::address(ValueId id) const {
  int64_t offset = 0;
  for (; module_[id].base.valid(); id = module_[id].base)
    offset += module_[id].view_offset * size_of(module_[id].type.dtype);
  return arena_->data() + *module_[id].offset + offset;
}

std::span<std::byte> Executor::bytes(ValueId id) const {
  return {address(id), static_cast<size_t>(module_[id].type.bytes())};
}

int64_t Executor::planned_bytes() const {
  return module_.arena_bytes[static_cast<size_t>(Space::device)];
}
int64_t Executor::allocated_bytes() const { return arena_->bytes(); }
int64_t Executor::measured_bytes() const { return arena_->high_water_mark(); }

}  // namespace snug

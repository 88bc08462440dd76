#include "ir/op_def.h"

#include <algorithm>

namespace snug {
namespace {

int find_port(std::span<const Port> ports, std::string_view name, std::string_view kind) {
  for (size_t i = 0; i < ports.size(); ++i) {
    if (ports[i].name == name) return static_cast<int>(i);
  }
  throw internal_error("op {} has no port '{}'", kind, name);
}

}  // namespace

Error OpView::refusal(const std::string& why) const {
  const std::string where = layer == kNoLayer ? "" : fmt::format(" (layer {})", layer);
  return usage_error("{} '{}'{}: {}", def.kind, name, where, why);
}

int OpDef::input_port(std::string_view port) const { return find_port(inputs, port, kind); }

bool OpDef::must_alias(int output) const {
  return std::any_of(alias.begin(), alias.end(),
                     [&](const Alias& a) { return a.output == output && a.must; });
}

int OpDef::accumulator_of(int output) const {
  for (const Accumulate& a : accumulate) {
    if (a.output == output) return a.input;
  }
  return -1;
}

const Kernel* OpDef::find_kernel(Backend backend, Dtype dtype) const {
  for (const Kernel& k : kernels) {
    if (k.backend == backend && k.dtype == dtype) return &k;
  }
  return nullptr;
}

KernelFn OpDef::kernel(Backend backend, Dtype dtype) const {
  const Kernel* found = find_kernel(backend, dtype);
  return found != nullptr ? found->run : nullptr;
}

const OpDef* find_op(Registry registry, std::string_view kind) {
  for (const OpDef* def : registry) {
    if (def->kind == kind) return def;
  }
  return nullptr;
}

std::vector<const Type*> input_types(const Module& module, const Op& op) {
  std::vector<const Type*> types;
  types.reserve(op.inputs.size());
  for (ValueId id : op.inputs) types.push_back(id.valid() ? &module[id].type : nullptr);
  return types;
}

std::vector<Type> output_types(const Module& module, const Op& op) {
  std::vector<Type> types;
  types.reserve(op.outputs.size());
  for (ValueId id : op.outputs) types.push_back(module[id].type);
  return types;
}

Cost cost_of(const Module& module, const Op& op, Backend backend) {
  const auto inputs = input_types(module, op);
  const auto outputs = output_types(module, op);
  Cost cost;
  if (op.def->cost != nullptr)
    cost = op.def->cost(OpView{*op.def, op.name, op.layer, inputs, op.attrs}, outputs, backend);
  if (cost.bytes_read == 0 && cost.bytes_written == 0) {
    for (const Type* t : inputs) cost.bytes_read += t != nullptr ? t->bytes() : 0;
    for (const Type& t : outputs) cost.bytes_written += t.bytes();
  }
  return cost;
}

Served served_on_gpu(const Module& module, const Op& op, const Math& math) {
  if (op.def->served == nullptr) return {};
  const auto inputs = input_types(module, op);
  return op.def->served(OpView{*op.def, op.name, op.layer, inputs, op.attrs}, math);
}

Dtype kernel_dtype(const Module& module, const Op& op) {
  for (ValueId id : op.inputs) {
    if (id.valid()) return module[id].type.dtype;
  }
  return module[op.outputs.at(0)].type.dtype;
}

Space space_of(const Module& module, const Op& op) {
  for (const std::vector<ValueId>* ids : {&op.outputs, &op.inputs}) {
    for (ValueId id : *ids)
      if (id.valid()) return module[id].space;
  }
  return Space::device;
}

std::optional<Move> move_of(const Module& module, const Op& op) {
  if (!op.def->crosses_spaces) return std::nullopt;
  const Value& from = module[op.inputs.at(0)];
  const Value& to = module[op.outputs.at(0)];
  if (from.space == to.space) return std::nullopt;
  return Move{from.space, to.space, to.type.bytes()};
}

}  // namespace snug

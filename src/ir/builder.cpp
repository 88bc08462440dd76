#include "ir/builder.h"

namespace snug {

ValueId add_shared(Module& module, std::string name, Type type, Category category, Scope scope,
                   Param param, int32_t layer) {
  Value value;
  value.name = std::move(name);
  value.type = type;
  value.category = category;
  value.scope = scope;
  value.layer = layer;
  if (scope == Scope::persistent) value.param = std::make_shared<const Param>(std::move(param));
  return module.add(std::move(value));
}

ValueId add_gradient(Module& module, ValueId parameter, Dtype dtype) {
  const Value& p = module[parameter];
  const ValueId grad = add_shared(module, "grad." + p.name, {dtype, p.type.shape}, Category::grads,
                                  Scope::step, {}, p.layer);
  module[grad].parameter = parameter;
  return grad;
}

Builder::Builder(Module& module, std::string_view program)
    : Builder(module, module.program_index(program), {std::string(program), {}}) {}

Builder::Builder(Module& module, ProgramRole role)
    : Builder(module, module.program_index(role), {std::string(program_name(role)), {}, role}) {}

Builder::Builder(Module& module, int32_t index, Program otherwise)
    : module_(module), program_(index) {
  if (program_ < 0) {
    program_ = static_cast<int32_t>(module_.programs.size());
    module_.programs.push_back(std::move(otherwise));
  }
  op_names_.reserve(program().ops.size());
  value_names_.reserve(module_.values.size());
  for (const Op& op : program().ops) op_names_.add(op.name);
  for (const Value& value : module_.values) {
    if (value.shared() || value.program == program_) value_names_.add(value.name);
  }
}

std::vector<ValueId> Builder::emit(const OpDef& def, std::string_view name,
                                   std::vector<ValueId> inputs, Attrs attrs) {
  const bool takes_rest = !def.inputs.empty() && def.inputs.back().variadic();
  if (!takes_rest) {
    if (inputs.size() > def.inputs.size())
      throw internal_error("{} '{}' takes {} inputs, not {}", def.kind, name, def.inputs.size(),
                           inputs.size());
    inputs.resize(def.inputs.size());
  }
  Op op;
  op.def = &def;
  op.name = op_names_.unique(full_name(name));
  op.inputs = std::move(inputs);
  op.attrs = std::move(attrs);
  op.layer = layer_;
  op.phase = phase_;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].valid() && !def.port_of_input(i).optional()) {
      throw internal_error("{} '{}': input '{}' is missing", def.kind, op.name,
                           def.port_of_input(i).name);
    }
  }
  const auto types = input_types(module_, op);
  const std::vector<Type> results = def.infer(OpView{def, op.name, op.layer, types, op.attrs});
  for (size_t i = 0; i < results.size(); ++i) {
    Value value;
    value.name = value_names_.unique(
        results.size() == 1 ? op.name : fmt::format("{}.{}", op.name, def.outputs.at(i).name));
    value.type = results[i];
    value.layer = layer_;
    value.program = program_;
    op.outputs.push_back(module_.add(std::move(value)));
  }
  // An output that must be the next version of an input has its bytes from the beginning.
  for (const Alias& alias : def.alias) {
    if (!alias.must) continue;
    Value& out = module_[op.outputs[static_cast<size_t>(alias.output)]];
    const ValueId in = op.inputs[static_cast<size_t>(alias.input)];
    if (!in.valid()) continue;
    out.base = in;
    out.category = module_[in].category;
    out.space = module_[in].space;
  }
  program().ops.push_back(std::move(op));
  return program().ops.back().outputs;
}

ValueId Builder::emit_into(const OpDef& def, std::string_view name, std::vector<ValueId> inputs,
                           ValueId target, Attrs attrs) {
  const ValueId out = emit(def, name, std::move(inputs), std::move(attrs)).at(0);
  if (module_[out].type != module_[target].type) {
    throw internal_error("{} '{}' makes {} but is to write {} {}", def.kind, name,
                         module_[out].type.text(), module_[target].name,
                         module_[target].type.text());
  }
  module_[out].base = target;
  module_[out].category = module_[target].category;
  module_[out].space = module_[target].space;
  return out;
}

ValueId Builder::view(ValueId base, std::string_view name, Shape shape, int64_t offset) {
  Value value;
  value.name = value_names_.unique(full_name(name));
  value.type = {module_[base].type.dtype, shape};
  value.category = module_[base].category;
  value.space = module_[base].space;
  value.layer = layer_;
  value.program = program_;
  value.base = base;
  value.view_offset = offset;
  return module_.add(std::move(value));
}

Builder::LayerScope::LayerScope(Builder& b, int32_t layer, const std::string& prefix)
    : builder_(b), layer_(b.layer_), prefix_(b.prefix_) {
  b.layer_ = layer;
  b.prefix_ = b.full_name(prefix);
  if (layer < 0) return;
  auto& layers = b.module_.layers;
  const auto index = static_cast<size_t>(layer);
  if (layers.size() <= index) layers.resize(index + 1);
  if (!layers[index].empty() && layers[index] != b.prefix_)
    throw internal_error("layer {} is named '{}' and '{}'", layer, layers[index], b.prefix_);
  layers[index] = b.prefix_;
}

Builder::LayerScope::~LayerScope() {
  builder_.layer_ = layer_;
  builder_.prefix_ = prefix_;
}

GradContext::GradContext(Builder& builder, const Op& op, std::vector<ValueId> output_grads,
                         std::vector<bool> wanted)
    : builder_(builder),
      op_(op),
      output_grads_(std::move(output_grads)),
      wanted_(std::move(wanted)),
      input_grads_(op.inputs.size()),
      replacements_(op.outputs.size()) {}

std::vector<ValueId> GradContext::emit(const OpDef& def, std::vector<ValueId> inputs, Attrs attrs,
                                       std::string_view suffix) {
  return builder_.emit(def, op_.name + "." + std::string(suffix), std::move(inputs),
                       std::move(attrs));
}

}  // namespace snug

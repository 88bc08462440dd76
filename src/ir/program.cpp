#include "ir/program.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_map>

#include "base/error.h"

namespace snug {

std::string_view name_of(Level level) {
  switch (level) {
    case Level::graph:
      return "graph";
    case Level::step:
      return "step";
    case Level::placed:
      return "placed";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::update:
      return "update";
  }
  return "?";
}

int64_t runs_per_step(const Module& module, std::string_view program) {
  int64_t runs = 0;
  for (const Repeat& repeat : module.step) {
    runs += repeat.times * std::count(repeat.programs.begin(), repeat.programs.end(), program);
  }
  return runs;
}

std::string_view name_of(ProgramRole role) {
  switch (role) {
    case ProgramRole::other:
      return "other";
    case ProgramRole::training_first:
      return "training_first";
    case ProgramRole::training_next:
      return "training_next";
    case ProgramRole::training_last:
      return "training_last";
    case ProgramRole::evaluation:
      return "evaluation";
    case ProgramRole::update:
      return "update";
    case ProgramRole::load:
      return "load";
    case ProgramRole::flush:
      return "flush";
  }
  return "?";
}

ValueId Module::add(Value value) {
  values.push_back(std::move(value));
  return {static_cast<int32_t>(values.size()) - 1};
}

int32_t Module::program_index(std::string_view wanted) const {
  for (size_t i = 0; i < programs.size(); ++i) {
    if (programs[i].name == wanted) return static_cast<int32_t>(i);
  }
  return -1;
}

const Program& Module::program(std::string_view wanted) const {
  const int32_t i = program_index(wanted);
  if (i < 0) throw internal_error("module '{}' has no program '{}'", name, wanted);
  return programs[static_cast<size_t>(i)];
}
Program& Module::program(std::string_view wanted) {
  return const_cast<Program&>(std::as_const(*this).program(wanted));
}

int32_t Module::program_index(ProgramRole role) const {
  for (size_t i = programs.size(); i-- > 0;) {
    if (programs[i].role == role) return static_cast<int32_t>(i);
  }
  return -1;
}

const Program& Module::program(ProgramRole role) const {
  const int32_t i = program_index(role);
  if (i < 0) throw internal_error("module '{}' has no program of role {}", name, name_of(role));
  return programs[static_cast<size_t>(i)];
}
Program& Module::program(ProgramRole role) {
  return const_cast<Program&>(std::as_const(*this).program(role));
}

std::string_view Module::name_in_layer(std::string_view full, int32_t layer) const {
  if (layer < 0 || static_cast<size_t>(layer) >= layers.size()) return full;
  const std::string& prefix = layers[static_cast<size_t>(layer)];
  const bool inside =
      full.size() > prefix.size() && full.starts_with(prefix) && full[prefix.size()] == '.';
  return inside ? full.substr(prefix.size() + 1) : full;
}

ValueId Module::find_shared(std::string_view wanted) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].shared() && values[i].name == wanted) return {static_cast<int32_t>(i)};
  }
  return {};
}

ValueId Module::gradient_of(ValueId parameter) const {
  const Value& value = (*this)[parameter];
  const ValueId read = value.parameter.valid() ? value.parameter : parameter;
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& v = values[i];
    if (v.category == Category::grads && v.shared() && v.parameter == read)
      return {static_cast<int32_t>(i)};
  }
  return {};
}

ValueId Module::root(ValueId id) const {
  while ((*this)[id].base.valid()) id = (*this)[id].base;
  return id;
}

Program clone(Module& module, const Program& body, std::string name, const std::string& suffix) {
  Program out{std::move(name), {}};
  const auto program = static_cast<int32_t>(module.programs.size());
  std::unordered_map<int32_t, ValueId> renamed;
  auto instance = [&](auto&& self, ValueId id) -> ValueId {
    if (!id.valid() || module[id].shared()) return id;
    if (auto found = renamed.find(id.index); found != renamed.end()) return found->second;
    Value copy = module[id];
    copy.name += suffix;
    copy.program = program;
    copy.base = self(self, copy.base);
    return renamed[id.index] = module.add(std::move(copy));
  };
  for (const Op& op : body.ops) {
    Op copy = op;
    copy.name += suffix;
    for (ValueId& id : copy.inputs) id = instance(instance, id);
    for (ValueId& id : copy.outputs) id = instance(instance, id);
    copy.predicate = instance(instance, copy.predicate);
    copy.workspace = instance(instance, copy.workspace);
    for (std::string& other : copy.after) other += suffix;
    for (std::string* link : {&copy.clone_of, &copy.backward_of}) {
      if (!link->empty()) *link += suffix;
    }
    out.ops.push_back(std::move(copy));
  }
  return out;
}

void sweep_values(Module& module) {
  std::vector<bool> used(module.values.size());
  auto use = [&](ValueId id) {
    for (; id.valid() && !used[static_cast<size_t>(id.index)]; id = module[id].base)
      used[static_cast<size_t>(id.index)] = true;
  };
  auto each_id = [&](auto&& fn) {
    for (Program& program : module.programs) {
      for (Op& op : program.ops) {
        for (ValueId& id : op.inputs) fn(id);
        for (ValueId& id : op.outputs) fn(id);
        fn(op.predicate);
        fn(op.workspace);
      }
    }
  };
  each_id([&](ValueId& id) { use(id); });
  for (size_t i = 0; i < module.values.size(); ++i) used[i] = used[i] || module.values[i].shared();
  if (std::ranges::all_of(used, std::identity{})) return;
  std::vector<Value> kept;
  kept.reserve(module.values.size());
  std::vector<ValueId> moved(module.values.size());
  for (size_t i = 0; i < module.values.size(); ++i) {
    if (!used[i]) continue;
    moved[i] = {static_cast<int32_t>(kept.size())};
    kept.push_back(std::move(module.values[i]));
  }
  auto follow = [&](ValueId& id) {
    if (id.valid()) id = moved[static_cast<size_t>(id.index)];
  };
  each_id(follow);
  for (Value& value : kept) {
    follow(value.base);
    follow(value.parameter);
  }
  module.values = std::move(kept);
}

}  // namespace snug

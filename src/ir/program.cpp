#include "ir/program.h"

#include <map>

#include "base/error.h"

namespace snug {

std::string_view name_of(Level level) {
  switch (level) {
    case Level::graph: return "graph";
    case Level::step: return "step";
    case Level::placed: return "placed";
  }
  return "?";
}

std::string_view name_of(Phase phase) {
  switch (phase) {
    case Phase::forward: return "forward";
    case Phase::backward: return "backward";
    case Phase::update: return "update";
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

ValueId Module::find_shared(std::string_view wanted) const {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i].shared() && values[i].name == wanted) return {static_cast<int32_t>(i)};
  }
  return {};
}

ValueId Module::root(ValueId id) const {
  while ((*this)[id].base.valid()) id = (*this)[id].base;
  return id;
}

Program unroll(Module& module, const Program& body, int64_t n, std::string name) {
  Program out{std::move(name), {}};
  const auto program = static_cast<int32_t>(module.programs.size());
  for (int64_t m = 0; m < n; ++m) {
    std::map<ValueId, ValueId> renamed;
    auto instance = [&](auto&& self, ValueId id) -> ValueId {
      if (!id.valid() || module[id].shared()) return id;
      if (auto found = renamed.find(id); found != renamed.end()) return found->second;
      Value copy = module[id];
      copy.name = fmt::format("{}@{}", copy.name, m);
      copy.program = program;
      copy.base = self(self, copy.base);
      return renamed[id] = module.add(std::move(copy));
    };
    for (const Op& op : body.ops) {
      Op copy = op;
      copy.name = fmt::format("{}@{}", op.name, m);
      for (ValueId& id : copy.inputs) id = instance(instance, id);
      for (ValueId& id : copy.outputs) id = instance(instance, id);
      copy.predicate = instance(instance, copy.predicate);
      copy.workspace = instance(instance, copy.workspace);
      for (std::string& other : copy.after) other = fmt::format("{}@{}", other, m);
      out.ops.push_back(std::move(copy));
    }
  }
  return out;
}

}  // namespace snug

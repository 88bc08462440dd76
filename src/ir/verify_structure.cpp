#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/verifier_parts.h"

namespace snug::verifying {
namespace {

class Structure {
 public:
  explicit Structure(const Module& module) : facts_{.module = module}, module_(module) {}

  Facts run() {
    const size_t n = module_.values.size();
    facts_.made_by.assign(n, kNotMade);
    facts_.scratch.resize(n);
    facts_.used.resize(n);
    check_values();
    facts_.extents = extents_of(module_);
    for (size_t p = 0; p < module_.programs.size(); ++p) check_ids(p);
    check_names();
    check_views();
    check_parameter_links();
    for (const Program& program : module_.programs) check_program(program);
    check_step_list();
    return std::move(facts_);
  }

 private:
  bool known(ValueId id) const { return id.index < static_cast<int32_t>(module_.values.size()); }
  std::vector<bool>::reference used(ValueId id) {
    return facts_.used[static_cast<size_t>(id.index)];
  }

  void check_values() {
    for (size_t i = 0; i < module_.values.size(); ++i) {
      const Value& v = module_.values[i];
      facts_.used[i] = v.shared();
      if (!v.shared() || v.program == -1) continue;
      throw internal_error("value '{}' is shared and says it is local to program number {}", v.name,
                           v.program);
    }
  }

  // Every id is a value of this program or a shared one, and every output is made once.
  void check_ids(size_t p) {
    const Program& program = module_.programs[p];
    for (size_t at = 0; at < program.ops.size(); ++at) {
      const Op& op = program.ops[at];
      if (op.def == nullptr) throw wrong_op(program, op, "has no definition");
      check_arity(program, op);
      for_each_access(op, [&](ValueId id, bool writes) {
        if (!id.valid() || !known(id))
          throw wrong_op(program, op, "refers to value number {} of {}", id.index,
                         module_.values.size());
        const Value& v = module_[id];
        if (!v.shared() && v.program != static_cast<int32_t>(p))
          throw wrong_op(program, op, "touches '{}', a local of another program", v.name);
        if (writes) make(program, op, id, static_cast<int32_t>(at));
        for (ValueId at_base = id; at_base.valid() && !used(at_base);
             at_base = module_[at_base].base)
          used(at_base) = true;
      });
      if (op.workspace.valid()) facts_.scratch[static_cast<size_t>(op.workspace.index)] = true;
    }
  }

  void make(const Program& program, const Op& op, ValueId id, int32_t at) {
    const Value& v = module_[id];
    if (v.shared())
      throw wrong_op(program, op, "makes the shared value '{}' itself, not a version of it",
                     v.name);
    int32_t& maker = facts_.made_by[static_cast<size_t>(id.index)];
    if (maker != kNotMade) {
      throw wrong_op(program, op, "makes '{}', which '{}' has made", v.name,
                     program.ops[static_cast<size_t>(maker)].name);
    }
    maker = at;
  }

  static void check_arity(const Program& program, const Op& op) {
    const auto& ports = op.def->inputs;
    const bool takes_rest = !ports.empty() && ports.back().variadic();
    const bool right =
        takes_rest ? op.inputs.size() + 1 >= ports.size() : op.inputs.size() == ports.size();
    if (!right)
      throw wrong_op(program, op, "has {} inputs for {} ports", op.inputs.size(), ports.size());
    if (op.outputs.size() > op.def->outputs.size()) {
      throw wrong_op(program, op, "has {} outputs for {} ports", op.outputs.size(),
                     op.def->outputs.size());
    }
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      const Port& port = op.def->port_of_input(i);
      if (!op.inputs[i].valid() && !port.optional())
        throw wrong_op(program, op, "input '{}' is missing", port.name);
    }
  }

  void check_names() const {
    std::unordered_set<std::string_view> shared;
    std::vector<std::unordered_set<std::string_view>> locals(module_.programs.size());
    for (const bool sharing : {true, false}) {
      for (size_t i = 0; i < module_.values.size(); ++i) {
        const Value& v = module_.values[i];
        if (!facts_.used[i] || v.shared() != sharing) continue;
        const bool fresh = v.shared()
                               ? shared.insert(v.name).second
                               : !shared.contains(v.name) &&
                                     locals[static_cast<size_t>(v.program)].insert(v.name).second;
        if (!fresh)
          throw wrong_value(module_, {static_cast<int32_t>(i)}, "another value has the same name");
      }
    }
    std::unordered_set<std::string_view> programs;
    for (const Program& program : module_.programs) {
      if (!programs.insert(program.name).second)
        throw internal_error("two programs are named '{}'", program.name);
    }
  }

  // Where a view of it ends at the latest. A view of what an op writes in place may also show the
  // bytes after it, as they are then.
  int64_t latest_view_end(ValueId base) const {
    const Extent& bytes = facts_.bytes(base);
    const bool in_place = facts_.maker(base) != kNotMade && !module_[base].owns_bytes();
    return in_place ? facts_.bytes(bytes.root).end : bytes.end;
  }

  void check_views() const {
    for (size_t i = 0; i < module_.values.size(); ++i) {
      if (!facts_.used[i]) continue;
      const ValueId id{static_cast<int32_t>(i)};
      const Value& v = module_[id];
      check_padding(id);
      if (v.owns_bytes()) continue;
      const Value& base = module_[v.base];
      if (!base.shared() && base.program != v.program)
        throw wrong_value(module_, id, "its base '{}' is a local of another program", base.name);
      if (facts_.bytes(id).end > latest_view_end(v.base)) {
        throw wrong_value(module_, id, "{} from element {} on ends beyond its base '{}' {}",
                          v.type.text(), v.view_offset, base.name, base.type.text());
      }
      if (v.space != base.space)
        throw wrong_value(module_, id, "is in {}, its base '{}' in {}", name_of(v.space), base.name,
                          name_of(base.space));
      const bool recast = v.type.dtype != base.type.dtype;
      if (recast && (facts_.maker(id) == kNotMade || v.view_offset != 0)) {
        throw wrong_value(module_, id, "reads its base '{}' as another dtype", base.name);
      }
    }
  }

  void check_parameter_links() const {
    for (size_t i = 0; i < module_.values.size(); ++i) {
      const ValueId id{static_cast<int32_t>(i)};
      const Value& v = module_[id];
      if (!facts_.used[i] || !v.parameter.valid()) continue;
      if (!known(v.parameter) || module_[v.parameter].category != Category::params)
        throw wrong_value(module_, id, "belongs to a value that is no parameter");
      const Value& parameter = module_[v.parameter];
      const bool alike = v.category == Category::grads || v.category == Category::master;
      if (alike && v.whole() != parameter.whole())
        throw wrong_value(module_, id, "{} belongs to '{}' {}", v.type.text(), parameter.name,
                          parameter.type.text());
    }
  }

  void check_padding(ValueId id) const {
    const Value& v = module_[id];
    if (v.padded.rank() == 0) return;
    const auto logical = v.type.shape.dims();
    const auto stored = v.padded.dims();
    const bool holds = stored.size() == 1 ? v.type.shape.elements() <= v.padded.elements()
                                          : logical.size() == stored.size() &&
                                                std::equal(logical.begin(), logical.end(),
                                                           stored.begin(), std::less_equal<>());
    if (!holds)
      throw wrong_value(module_, id, "storage {} does not hold {}", v.padded.text(), v.type.text());
  }

  // --- ops --------------------------------------------------------------------------------------

  void check_program(const Program& program) {
    std::unordered_map<std::string_view, Phase> names;  // of the ops so far
    std::vector<const Type*> types;
    sequences_.clear();
    for (size_t at = 0; at < program.ops.size(); ++at) {
      const Op& op = program.ops[at];
      for (const std::string& other : op.after) {
        if (!names.contains(other))
          throw wrong_op(program, op, "waits for '{}', which is no earlier op", other);
      }
      for (const std::string* forward : {&op.clone_of, &op.backward_of}) {
        const auto found = names.find(*forward);
        if (!forward->empty() && found != names.end() && found->second != Phase::forward)
          throw wrong_op(program, op, "refers to '{}' as its forward op", *forward);
      }
      if (!names.emplace(op.name, op.phase).second)
        throw wrong_op(program, op, "an earlier op has the same name");
      check_types(program, op, types);
      check_reads(program, op, static_cast<int32_t>(at));
      check_space(program, op);
      if (op.workspace.valid() && !module_[op.workspace].owns_bytes())
        throw wrong_op(program, op, "its workspace is in another value");
      if (op.def->comm != Comm::none) check_sequence(program, op);
    }
  }

  void check_types(const Program& program, const Op& op, std::vector<const Type*>& types) const {
    types.clear();
    for (ValueId id : op.inputs) types.push_back(id.valid() ? &module_[id].type : nullptr);
    std::vector<Type> inferred;
    try {
      inferred = op.def->infer(OpView{*op.def, op.name, op.layer, types, op.attrs});
    } catch (const Error& e) {
      throw wrong_op(program, op, "its inputs are refused: {}", e.what());
    }
    if (inferred.size() != op.outputs.size())
      throw wrong_op(program, op, "has {} outputs, not {}", op.outputs.size(), inferred.size());
    for (size_t o = 0; o < inferred.size(); ++o) {
      const Value& out = module_[op.outputs[o]];
      if (out.type != inferred[o])
        throw wrong_op(program, op, "makes '{}' as {}, not {}", out.name, inferred[o].text(),
                       out.type.text());
    }
  }

  void check_reads(const Program& program, const Op& op, int32_t at) const {
    auto check = [&](ValueId id) {
      const ValueId version = facts_.version(id);
      const bool there = module_[version].shared() ||
                         (facts_.maker(version) != kNotMade && facts_.maker(version) < at);
      if (!there) throw wrong_op(program, op, "reads '{}' before it is made", module_[id].name);
      if (facts_.scratch[static_cast<size_t>(version.index)])
        throw wrong_op(program, op, "reads '{}', another op's workspace", module_[id].name);
    };
    for (ValueId id : op.inputs) {
      if (id.valid()) check(id);
    }
    if (!op.predicate.valid()) return;
    check(op.predicate);
    if (module_[op.predicate].type != Type{Dtype::i32, {}}) {
      throw wrong_op(program, op, "its predicate '{}' is {}, not i32[]", module_[op.predicate].name,
                     module_[op.predicate].type.text());
    }
  }

  void check_space(const Program& program, const Op& op) const {
    if (op.def->crosses_spaces) return;
    ValueId first;
    for_each_access(op, [&](ValueId id, bool) {
      if (!first.valid()) first = id;
      if (module_[id].space == module_[first].space) return;
      throw wrong_op(program, op, "touches '{}' in {} and '{}' in {}", module_[first].name,
                     name_of(module_[first].space), module_[id].name, name_of(module_[id].space));
    });
  }

  // Collectives of an axis are numbered in the order in which they are. A message's number says what
  // it carries, which the other end takes as the same (verify_ranks).
  void check_sequence(const Program& program, const Op& op) {
    if (op.def->comm != Comm::collective) return;
    const Sequence mine{op.attrs.s("axis"), op.attrs.i("seq")};
    auto known = std::ranges::find(sequences_, mine.axis, &Sequence::axis);
    if (known == sequences_.end()) {
      sequences_.push_back(mine);
      return;
    }
    if (mine.last <= known->last)
      throw wrong_op(program, op, "has number {} on axis '{}', after number {}", mine.last,
                     mine.axis, known->last);
    known->last = mine.last;
  }

  void check_step_list() const {
    for (const Repeat& region : module_.step) {
      if (region.times < 1)
        throw internal_error("module '{}': its step repeats something {} times", module_.name,
                             region.times);
      for (const std::string& name : region.programs) {
        if (module_.program_index(name) < 0)
          throw internal_error("module '{}': its step runs '{}', which is no program", module_.name,
                               name);
      }
    }
  }

  struct Sequence {
    std::string_view axis;
    int64_t last;
  };

  Facts facts_;
  const Module& module_;
  std::vector<Sequence> sequences_;  // of the program being checked
};

}  // namespace

Facts check_structure(const Module& module) { return Structure(module).run(); }

}  // namespace snug::verifying

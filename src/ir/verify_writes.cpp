#include <algorithm>

#include "ir/segments.h"
#include "ir/verifier_parts.h"

namespace snug::verifying {
namespace {

// Input ports whose bytes an output may take over, as the OpDef grants.
bool grants(const OpDef& def, size_t output, size_t input) {
  auto matches = [&](const auto& fact) {
    return fact.output == static_cast<int>(output) && fact.input == static_cast<int>(input);
  };
  return std::ranges::any_of(def.alias, matches) || std::ranges::any_of(def.accumulate, matches);
}

bool lies_in(const Extent& part, const Extent& whole) {
  return part.root == whole.root && whole.begin <= part.begin && part.end <= whole.end;
}

// What an op writes over: granted, allowed there, and not read by the op through another port.
class InPlace {
 public:
  InPlace(const Facts& facts, const Program& program, const Op& op)
      : facts_(facts), module_(facts.module), program_(program), op_(op) {}

  void check() const {
    check_musts();
    for (size_t o = 0; o < op_.outputs.size(); ++o) {
      if (module_[op_.outputs[o]].owns_bytes()) continue;
      check_target(o);
      check_other_ports(o);
    }
  }

 private:
  const Extent& out(size_t o) const { return facts_.bytes(op_.outputs[o]); }
  const std::string& name(size_t o) const { return module_[op_.outputs[o]].name; }

  void check_musts() const {
    for (const Alias& a : op_.def->alias) {
      const auto o = static_cast<size_t>(a.output);
      const auto i = static_cast<size_t>(a.input);
      if (!a.must || o >= op_.outputs.size() || i >= op_.inputs.size() || !op_.inputs[i].valid())
        continue;
      if (out(o) != facts_.bytes(op_.inputs[i])) {
        throw wrong_op(program_, op_, "'{}' must alias '{}'", name(o), module_[op_.inputs[i]].name);
      }
    }
  }

  void check_target(size_t o) const {
    const Value& root = module_[out(o).root];
    if (root.scope == Scope::persistent) {
      if (op_.def->must_alias(static_cast<int>(o)) || op_.def->moves_bytes()) return;
      throw wrong_op(program_, op_, "writes the persistent value '{}' without having to alias it",
                     root.name);
    }
    if (root.scope == Scope::step) return;
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      if (op_.inputs[i].valid() && grants(*op_.def, o, i) && facts_.bytes(op_.inputs[i]) == out(o))
        return;
    }
    throw wrong_op(program_, op_,
                   "makes '{}' in the bytes of '{}', which its definition does not grant", name(o),
                   root.name);
  }

  void check_other_ports(size_t o) const {
    for (size_t i = 0; i < op_.inputs.size(); ++i) {
      if (!op_.inputs[i].valid() || !out(o).overlaps(facts_.bytes(op_.inputs[i]))) continue;
      if (grants(*op_.def, o, i) && facts_.bytes(op_.inputs[i]) == out(o)) continue;
      const bool gathers = op_.def->collective == CollectiveKind::gather;
      if (gathers && lies_in(facts_.bytes(op_.inputs[i]), out(o))) continue;
      throw wrong_op(program_, op_, "reads '{}' as '{}' while it overwrites those bytes with '{}'",
                     module_[op_.inputs[i]].name, op_.def->port_of_input(i).name, name(o));
    }
    if (op_.predicate.valid() && out(o).overlaps(facts_.bytes(op_.predicate))) {
      throw wrong_op(program_, op_, "overwrites its own predicate with '{}'", name(o));
    }
    for (size_t other = 0; other < o; ++other) {
      if (out(o).overlaps(out(other)))
        throw wrong_op(program_, op_, "makes '{}' and '{}' in the same bytes", name(other),
                       name(o));
    }
  }

  const Facts& facts_;
  const Module& module_;
  const Program& program_;
  const Op& op_;
};

// In list order, which conflicting accesses keep on any lanes: the last writer of each byte. A read
// must find its own version.
void check_versions(const Facts& facts, const Program& program) {
  std::vector<Segments<int32_t>> last_writer;
  last_writer.reserve(facts.module.values.size());
  for (int32_t i = 0; std::cmp_less(i, facts.module.values.size()); ++i)
    last_writer.emplace_back(facts.bytes({i}).end, kNotMade);
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const Op& op = program.ops[at];
    for_each_access(op, [&](ValueId id, bool writes) {
      const Extent& bytes = facts.bytes(id);
      const int32_t version = facts.maker(facts.version(id));
      last_writer[static_cast<size_t>(bytes.root.index)].over(
          bytes.begin, bytes.end, [&](int32_t& writer) {
            if (writes) {
              writer = static_cast<int32_t>(at);
            } else if (writer > version) {
              throw wrong_op(program, op, "reads '{}', whose bytes '{}' has overwritten",
                             facts.module[id].name, program.ops[static_cast<size_t>(writer)].name);
            }
          });
    });
  }
}

}  // namespace

void check_writes(const Facts& facts) {
  for (const Program& program : facts.module.programs) {
    for (const Op& op : program.ops) InPlace(facts, program, op).check();
    check_versions(facts, program);
  }
}

}  // namespace snug::verifying

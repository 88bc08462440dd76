// The parts of verify(), one file each, and what they share.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/op_def.h"
#include "ir/order.h"
#include "ir/program.h"

namespace snug::verifying {

constexpr int32_t kNotMade = -1;

struct Facts {
  const Module& module;
  std::vector<Extent> extents = {};   // by value
  std::vector<int32_t> made_by = {};  // by value: the op of its program that makes it, or kNotMade
  std::vector<bool> scratch = {};     // by value: some op's workspace
  // By value: shared, or touched by an op. The rest is not part of any program.
  std::vector<bool> used = {};

  const Extent& bytes(ValueId id) const { return extents[static_cast<size_t>(id.index)]; }
  int32_t maker(ValueId id) const { return made_by[static_cast<size_t>(id.index)]; }
  // The value whose making `id` reads: itself or, for a view, the nearest base that an op made or
  // that owns the bytes.
  ValueId version(ValueId id) const {
    while (maker(id) == kNotMade && module[id].base.valid()) id = module[id].base;
    return id;
  }
};

template <typename... Args>
Error wrong_op(const Program& program, const Op& op, fmt::format_string<Args...> format,
               Args&&... args) {
  return internal_error("program '{}', {} '{}': {}", program.name,
                        op.def != nullptr ? op.def->kind : "op", op.name,
                        fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
Error wrong_value(const Module& module, ValueId id, fmt::format_string<Args...> format,
                  Args&&... args) {
  const Value& v = module[id];
  const std::string where =
      v.program < 0 || v.shared()
          ? ""
          : fmt::format("program '{}', ", module.programs[static_cast<size_t>(v.program)].name);
  return internal_error("{}value '{}': {}", where, v.name,
                        fmt::format(format, std::forward<Args>(args)...));
}

// verify_structure.cpp: ids, names, ports, types, made once before use, views, spaces, predicates,
// order of messages.
Facts check_structure(const Module& module);

// verify_writes.cpp: what an op may write, and that no op reads what has been overwritten.
void check_writes(const Facts& facts);

// verify_placement.cpp: scratch and lifetimes; offsets.
void check_step(const Facts& facts, Backend backend);
void check_placement(const Facts& facts);

}  // namespace snug::verifying

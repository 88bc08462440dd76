#include "runtime/null_executor.h"

#include <algorithm>
#include <map>

#include "ir/op_def.h"

namespace snug {
namespace {

// Who wrote which bytes last, per space: a map from offset to (end, writer) of disjoint ranges.
class Shadow {
 public:
  explicit Shadow(const Module& module) : module_(module) {}

  void write(ValueId id) {
    const auto [space, first, end] = range_of(id);
    auto& ranges = spaces_[space];
    cut(ranges, first);
    cut(ranges, end);
    ranges.erase(ranges.lower_bound(first), ranges.lower_bound(end));
    ranges[first] = {end, id};
    high_water[space] = std::max(high_water[space], end);
  }

  // Every byte of `id` must have been written last by `id` itself or, when it is a view or a shared
  // value, by a value of the same storage.
  void read(const Program& program, const Op& op, ValueId id, bool made_here) const {
    const auto [space, first, end] = range_of(id);
    const auto& ranges = spaces_[space];
    int64_t at = first;
    auto next = ranges.upper_bound(first);
    if (next != ranges.begin()) --next;
    while (at < end) {
      if (next == ranges.end() || next->first > at || next->second.end <= at) {
        throw internal_error("program '{}', {} '{}' reads byte {} of '{}', which nobody wrote",
                             program.name, op.def->kind, op.name, at - first, module_[id].name);
      }
      const ValueId writer = next->second.writer;
      const bool same = made_here ? writer == id : module_.root(writer) == module_.root(id);
      if (!same) {
        throw internal_error(
            "program '{}', {} '{}' reads '{}', whose byte {} was overwritten by '{}'", program.name,
            op.def->kind, op.name, module_[id].name, at - first, module_[writer].name);
      }
      at = next->second.end;
      ++next;
    }
  }

  std::array<int64_t, kSpaces> high_water{};

 private:
  struct Written {
    int64_t end;
    ValueId writer;
  };
  using Ranges = std::map<int64_t, Written>;
  struct Range {
    size_t space;
    int64_t first, end;
  };

  Range range_of(ValueId id) const {
    int64_t offset = 0;
    const int64_t bytes =
        module_[id].owns_bytes() ? module_[id].storage_bytes() : module_[id].type.bytes();
    for (; module_[id].base.valid(); id = module_[id].base)
      offset += module_[id].view_offset * size_of(module_[id].type.dtype);
    offset += *module_[id].offset;
    return {static_cast<size_t>(module_[id].space), offset, offset + bytes};
  }

  static void cut(Ranges& ranges, int64_t at) {
    auto after = ranges.upper_bound(at);
    if (after == ranges.begin()) return;
    auto inside = std::prev(after);
    if (inside->first == at || inside->second.end <= at) return;
    ranges[at] = inside->second;
    inside->second.end = at;
  }

  const Module& module_;
  std::array<Ranges, kSpaces> spaces_;
};

void run_program(const Module& module, const Program& program, Shadow& shadow, NullRun& run) {
  std::vector<bool> made(module.values.size());
  for (const Op& op : program.ops) {
    auto read = [&](ValueId id) {
      if (id.valid()) shadow.read(program, op, id, made[static_cast<size_t>(id.index)]);
    };
    for (ValueId id : op.inputs) read(id);
    read(op.predicate);
    if (op.workspace.valid()) shadow.write(op.workspace);
    for (ValueId id : op.outputs) {
      shadow.write(id);
      made[static_cast<size_t>(id.index)] = true;
    }
    ++run.ops;
  }
}

}  // namespace

NullRun run_null(const Module& module) {
  if (module.level != Level::placed) throw internal_error("module '{}' is not placed", module.name);
  Shadow shadow(module);
  for (size_t i = 0; i < module.values.size(); ++i) {
    if (module.values[i].shared() && module.values[i].owns_bytes())
      shadow.write({static_cast<int32_t>(i)});
  }
  NullRun run;
  for (const Repeat& region : module.step) {
    for (int64_t i = 0; i < std::min<int64_t>(region.times, 2);
         ++i) {  // a third time sees what the second saw
      for (const std::string& name : region.programs)
        run_program(module, module.program(name), shadow, run);
    }
  }
  // Evaluation and the like run between steps, over the same bytes.
  for (const Program& program : module.programs) {
    const bool in_step = std::any_of(module.step.begin(), module.step.end(), [&](const Repeat& r) {
      return std::find(r.programs.begin(), r.programs.end(), program.name) != r.programs.end();
    });
    if (!in_step) run_program(module, program, shadow, run);
  }
  run.high_water = shadow.high_water;
  return run;
}

}  // namespace snug

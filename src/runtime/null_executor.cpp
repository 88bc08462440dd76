#include "runtime/null_executor.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "ir/op_def.h"
#include "ir/order.h"

namespace snug {
namespace {

// Which value wrote which bytes last, per space: disjoint ranges by their first byte.
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

  struct Fault {
    int64_t byte;
    ValueId writer;  // none: unwritten
  };
  // The first byte of `id` that no value wrote, or the wrong one: right(writer, byte of memory).
  template <typename Right>
  std::optional<Fault> fault(ValueId id, const Right& right) const {
    const auto [space, first, end] = range_of(id);
    const auto& ranges = spaces_[space];
    auto next = ranges.upper_bound(first);
    if (next != ranges.begin()) --next;
    for (int64_t at = first; at < end; at = (next++)->second.end) {
      if (next == ranges.end() || next->first > at || next->second.end <= at)
        return Fault{at - first, {}};
      if (!right(next->second.writer, at)) return Fault{at - first, next->second.writer};
    }
    return std::nullopt;
  }

  // The same where any value of its storage is right.
  std::optional<Fault> fault(ValueId id) const {
    const ValueId root = module_.root(id);
    return fault(id, [&](ValueId writer, int64_t) { return module_.root(writer) == root; });
  }

  bool holds(ValueId id, int64_t byte) const {
    const Range range = range_of(id);
    return range.first <= byte && byte < range.end;
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

class ProgramRun {
 public:
  ProgramRun(const Module& module, const Program& program, Shadow& shadow)
      : module_(module), program_(program), shadow_(shadow), made_(module.values.size()) {}

  void run(std::span<const int32_t> order) {
    for (const int32_t at : order) {
      const Op& op = program_.ops[static_cast<size_t>(at)];
      for_each_access(op, [&](ValueId id, bool writes) {
        if (!writes) read(op, id);
      });
      for_each_access(op, [&](ValueId id, bool writes) {
        if (writes) write(id, at);
      });
      for_each_access(op, [&](ValueId id, bool) { require_unharmed(op, id); });
    }
  }

 private:
  void write(ValueId id, int32_t at) {
    shadow_.write(id);
    made_[static_cast<size_t>(id.index)] = at;
  }

  std::optional<int32_t> made_at(ValueId id) const { return made_[static_cast<size_t>(id.index)]; }

  // The value that an op of this program made and that `id` is, or is a view of; none for what
  // comes from outside.
  ValueId maker_of(ValueId id) const {
    while (id.valid() && !made_at(id)) id = module_[id].base;
    return id;
  }

  bool share_storage(ValueId a, ValueId b) const { return module_.root(a) == module_.root(b); }

  void read(const Op& op, ValueId id) const {
    const ValueId maker = maker_of(id);
    // A view may show more than its version wrote: what was there by then.
    const auto fault = shadow_.fault(id, [&](ValueId writer, int64_t byte) {
      if (!maker.valid() || writer == maker) return share_storage(writer, id);
      return !shadow_.holds(maker, byte) && share_storage(writer, maker) &&
             made_at(writer) < made_at(maker);
    });
    if (!fault) return;
    if (!fault->writer.valid()) {
      throw internal_error("program '{}', {} '{}' reads byte {} of '{}', which no op wrote",
                           program_.name, op.def->kind, op.name, fault->byte, module_[id].name);
    }
    throw internal_error("program '{}', {} '{}' reads '{}', whose byte {} was overwritten by '{}'",
                         program_.name, op.def->kind, op.name, module_[id].name, fault->byte,
                         module_[fault->writer].name);
  }

  // A kernel reads its inputs while it writes: only a granted output may share their bytes.
  void require_unharmed(const Op& op, ValueId id) const {
    if (const auto fault = shadow_.fault(id)) {
      throw internal_error("program '{}', {} '{}' uses '{}' and '{}', which share byte {}",
                           program_.name, op.def->kind, op.name, module_[id].name,
                           module_[fault->writer].name, fault->byte);
    }
  }

  const Module& module_;
  const Program& program_;
  Shadow& shadow_;
  std::vector<std::optional<int32_t>> made_;  // by value: the op of this run that made it
};

bool in_step(const Module& module, const Program& program) {
  return std::ranges::any_of(module.step, [&](const Repeat& region) {
    return std::ranges::find(region.programs, program.name) != region.programs.end();
  });
}

}  // namespace

NullRun run_null(const Module& module, std::optional<uint64_t> seed) {
  if (module.level != Level::placed) throw internal_error("module '{}' is not placed", module.name);
  Shadow shadow(module);
  auto each_shared = [&](auto&& visit) {
    for (size_t i = 0; i < module.values.size(); ++i) {
      if (module.values[i].shared() && module.values[i].owns_bytes())
        visit(ValueId{static_cast<int32_t>(i)});
    }
  };
  NullRun run;
  auto run_program = [&](const Program& program) {
    std::vector<int32_t> order(program.ops.size());
    std::iota(order.begin(), order.end(), 0);
    if (seed) order = random_extension(Order(module, program), *seed += 1);
    ProgramRun(module, program, shadow).run(order);
    run.ops += static_cast<int64_t>(program.ops.size());
  };
  each_shared([&](ValueId id) { shadow.write(id); });
  for (const Repeat& region : module.step) {
    const int64_t times = std::min<int64_t>(region.times, 2);  // a third sees what the second saw
    for (int64_t i = 0; i < times; ++i) {
      for (const std::string& name : region.programs) run_program(module.program(name));
    }
  }
  // Evaluation and the like run between steps, over the same bytes.
  for (const Program& program : module.programs) {
    if (!in_step(module, program)) run_program(program);
  }
  // The next step may read what this one did not.
  each_shared([&](ValueId id) {
    if (const auto fault = shadow.fault(id)) {
      throw internal_error("byte {} of '{}' is carried from program to program, but '{}' is there",
                           fault->byte, module[id].name, module[fault->writer].name);
    }
  });
  run.high_water = shadow.high_water;
  return run;
}

}  // namespace snug

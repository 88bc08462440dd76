#include "profile/findings.h"

#include <algorithm>
#include <map>

#include "ir/order.h"
#include "placement/breakdown.h"
#include "placement/space_values.h"

namespace snug {
namespace {

// First and last op that touches each root, in list order.
std::map<ValueId, Lifetime> touches(const Module& module, const Program& program) {
  std::map<ValueId, Lifetime> out;
  for (size_t at = 0; at < program.ops.size(); ++at) {
    for_each_access(program.ops[at], [&](ValueId id, bool) {
      const auto op = static_cast<int32_t>(at);
      out.try_emplace(module.root(id), Lifetime{op, op}).first->second.last = op;
    });
  }
  return out;
}

}  // namespace

MemoryFindings memory_findings(const Module& placed, Space space) {
  const MemoryBreakdown memory = memory_breakdown(placed);
  const SpaceBreakdown& of = memory[space];
  MemoryFindings out{.arena = of.placement.arena_bytes, .max_live = of.placement.max_live_bytes};
  const int32_t program = placed.program_index(of.peak.program);
  if (program < 0) return out;
  const auto touched = touches(placed, placed.programs[static_cast<size_t>(program)]);
  const auto peak = static_cast<int32_t>(of.peak.op_index);
  for (size_t i = 0; i < placed.values.size(); ++i) {
    const Value& value = placed.values[i];
    if (!resides_local(value, space, program)) continue;
    const Block life = block_of(value);
    if (peak < life.first || peak > life.last) continue;
    const auto needed = touched.find(ValueId{static_cast<int32_t>(i)});
    if (needed == touched.end() || needed->second.overlaps({peak, peak})) continue;
    out.held.push_back({value.name, value.type, life.bytes, needed->second, *value.live});
    out.held_bytes += life.bytes;
  }
  std::ranges::stable_sort(out.held, std::greater{}, &HeldValue::bytes);
  return out;
}

Growth growth_of(std::span<const int64_t> bytes) {
  constexpr size_t kWarmUp = 3;
  constexpr int64_t kSteps = 16, kLeast = 1 << 20;
  if (bytes.size() > kWarmUp + 1) bytes = bytes.subspan(kWarmUp);
  if (bytes.size() < 2) return {};
  const auto n = static_cast<double>(bytes.size());
  double mean = 0;
  for (const int64_t b : bytes) mean += static_cast<double>(b) / n;
  double above = 0, below = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const double x = static_cast<double>(i) - (n - 1) / 2;
    above += x * (static_cast<double>(bytes[i]) - mean);
    below += x * x;
  }
  Growth out{.steps = static_cast<int64_t>(bytes.size()) - 1,
             .first = bytes.front(),
             .last = bytes.back(),
             .bytes_per_step = above / below};
  // A few steps say nothing, and one jump is a buffer that was made late: what leaks has grown in
  // the first half and in the second.
  const int64_t middle = bytes[bytes.size() / 2];
  out.leaks = out.steps >= kSteps && middle - out.first > kLeast && out.last - middle > kLeast;
  return out;
}

}  // namespace snug

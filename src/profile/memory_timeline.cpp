#include "profile/memory_timeline.h"

#include <algorithm>
#include <optional>
#include <queue>

#include "placement/space_values.h"

namespace snug {
namespace {

int64_t end_of_value(const Value& value) { return *value.offset + value.storage_bytes(); }

// One past the last live byte, by op. A heap holds the ends of values until their last op.
std::vector<int64_t> reaches(const Module& module, int32_t program, Space space) {
  int64_t shared = 0;
  std::vector<const Value*> locals;
  for (const Value& value : module.values) {
    if (resides_shared(value, space)) shared = std::max(shared, end_of_value(value));
    if (resides_local(value, space, program)) locals.push_back(&value);
  }
  std::ranges::sort(locals, {}, [](const Value* value) { return block_of(*value).first; });
  const auto lower = [](const Value* a, const Value* b) {
    return end_of_value(*a) < end_of_value(*b);
  };
  std::priority_queue<const Value*, std::vector<const Value*>, decltype(lower)> live(lower);
  std::vector<int64_t> out;
  auto next = locals.begin();
  const size_t ops = module.programs[static_cast<size_t>(program)].ops.size();
  for (size_t at = 0; at < ops; ++at) {
    const auto op = static_cast<int64_t>(at);
    for (; next != locals.end() && block_of(**next).first <= op; ++next) live.push(*next);
    while (!live.empty() && block_of(*live.top()).last < op) live.pop();
    out.push_back(live.empty() ? shared : std::max(shared, end_of_value(*live.top())));
  }
  return out;
}

}  // namespace

MemoryTimeline memory_timeline(const Module& placed, Space space) {
  MemoryTimeline out;
  for (size_t p = 0; p < placed.programs.size(); ++p) {
    const auto program = static_cast<int32_t>(p);
    const std::vector<CategoryBytes> live = timeline(placed, program, space);
    const std::vector<int64_t> reach = reaches(placed, program, space);
    std::vector<MemoryInstant>& instants = out.programs.emplace_back();
    for (size_t at = 0; at < live.size(); ++at) {
      instants.push_back({program, static_cast<int32_t>(at), live[at], reach[at]});
      out.max_live = std::max(out.max_live, total(live[at]));
      out.max_reach = std::max(out.max_reach, reach[at]);
    }
  }
  return out;
}

std::vector<int32_t> programs_in_step(const Module& module) {
  std::vector<int32_t> out;
  for (const Repeat& region : module.step)
    for (const std::string& name : region.programs) out.push_back(module.program_index(name));
  return out;
}

// A phase of a step goes from the first of its ops to the last, over all programs.
std::vector<MemorySnapshot> phase_snapshots(const Module& placed, const MemoryTimeline& timeline) {
  std::array<std::optional<MemoryInstant>, kPhases> first, last;
  for (const int32_t program : programs_in_step(placed)) {
    for (const MemoryInstant& instant : timeline.programs[static_cast<size_t>(program)]) {
      const Op& op =
          placed.programs[static_cast<size_t>(program)].ops[static_cast<size_t>(instant.op)];
      const auto phase = static_cast<size_t>(op.phase);
      if (!first[phase]) first[phase] = instant;
      last[phase] = instant;
    }
  }
  std::vector<MemorySnapshot> out;
  for (size_t phase = 0; phase < kPhases; ++phase) {
    if (!first[phase]) continue;
    for (const auto& [when, instant] :
         {std::pair{"before", &*first[phase]}, std::pair{"after", &*last[phase]}}) {
      const Program& program = placed.programs[static_cast<size_t>(instant->program)];
      out.push_back({fmt::format("{} {}", when, name_of(static_cast<Phase>(phase))),
                     program.ops[static_cast<size_t>(instant->op)].name, instant->live});
    }
  }
  return out;
}

}  // namespace snug

// Where bytes are that may leave the device, and what moving them takes. A plan on one lane that
// keeps everything on the device has neither table.
#include <fmt/format.h>

#include <algorithm>

#include "base/bar.h"
#include "base/units.h"
#include "ir/lifetime.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr int kSpaceBarColumns = 22;

template <typename Text>
std::string space_row(std::string_view name, const std::string& bar, Text&& text_of) {
  std::string row = fmt::format("  {:<12} {}", name, bar);
  for (const Space space : kAllSpaces) row += fmt::format("{:>20}", text_of(space));
  return row + "\n";
}

std::string lane_row(const LaneCost& lane) {
  const auto time = [](double seconds) { return seconds > 0 ? step_text(seconds * 1e3) : "-"; };
  return fmt::format("  {:<20}{:>15}{:>20}{:>20}{:>20}\n", lane.lane, time(lane.busy_seconds),
                     time(lane.hidden_seconds()), time(lane.exposed_seconds),
                     some_bytes(lane.moved_bytes));
}

}  // namespace

double PlanFacts::disk_bytes_written_a_day() const {
  constexpr double kDay = 86400;
  if (!step_ms || *step_ms <= 0) return 0;
  for (const LaneCost& lane : lanes) {
    if (lane.lane == kDiskOutLane)
      return static_cast<double>(lane.moved_bytes) * kDay / (*step_ms * 1e-3);
  }
  return 0;
}

bool PlanFacts::needs_offload_dir() const {
  const auto dir = recipe.find("offload-dir");
  return dir == recipe.end() || !dir->is_string() || dir->get<std::string>().empty();
}

bool leaves_device(const MemoryBreakdown& memory, const PlanFacts& facts) {
  return !facts.lanes.empty() || arenas_of(memory).outside_device();
}

// The rows of a column add up to its arena. Bars are shares of the device's.
std::string spaces_text(const MemoryBreakdown& memory, const Paint& paint) {
  const std::string no_bar(kSpaceBarColumns, ' ');
  const auto row = [&](std::string_view name, size_t colour, auto&& bytes_of) {
    const auto arena = static_cast<double>(memory.device().placement.arena_bytes);
    const double share = arena > 0 ? static_cast<double>(bytes_of(Space::device)) / arena : 0;
    return space_row(name, paint.bar(colour, bar_text(share, kSpaceBarColumns)),
                     [&](Space space) { return some_bytes(bytes_of(space)); });
  };
  const std::string_view title = "memory, each space at its peak";
  std::string out = "\n" + paint.title(title);
  out += std::string(15 + kSpaceBarColumns - title.size(), ' ');
  for (const Space space : kAllSpaces) out += fmt::format("{:>20}", name_of(space));
  out += "\n";
  for (size_t c = 0; c < kCategories; ++c) {
    const auto bytes_of = [&](Space space) { return memory[space].breakdown[c]; };
    if (std::ranges::any_of(kAllSpaces, [&](Space space) { return bytes_of(space) > 0; }))
      out += row(name_of(static_cast<Category>(c)), c, bytes_of);
  }
  out += row("gaps", 0, [&](Space space) { return memory[space].gaps; });
  out += "  " + paint.quiet(rule(kTableColumns - 3)) + "\n";
  const SpaceBytes arenas = arenas_of(memory);
  out += space_row("arena", no_bar, [&](Space space) { return some_bytes(arenas[space]); });
  out += space_row("", no_bar, [&](Space space) { return format_exact(arenas[space]); });
  return out;
}

std::string stages_text(const PlanFacts& facts, const Paint& paint) {
  if (facts.stages.empty()) return "";
  const std::string_view title = "stages of a step";
  std::string out =
      fmt::format("\n{}{:>{}}{:>15}{:>15}{:>15}{:>15}\n", paint.title(title), "layers",
                  37 - title.size(), "arena", "kept at once", "computes", "sends");
  for (size_t i = 0; i < facts.stages.size(); ++i) {
    const StagePlan& stage = facts.stages[i];
    const bool shown = static_cast<int64_t>(i) == facts.stage;
    out += fmt::format("  {:<20}{:>15}{:>15}{:>15}{:>15}{:>15}\n",
                       fmt::format("{}{}", i, shown ? " (above)" : ""), text(stage.layers),
                       format_bytes(stage.arenas[Space::device]),
                       counted(stage.micro_batches, "batch"), step_text(stage.computes * 1e3),
                       some_bytes(stage.sent_bytes));
  }
  out += fmt::format(
      "  bubble {:.1f} % of the step; equal stages and free messages would have {:.1f} %\n",
      100 * facts.bubble, 100 * facts.ideal_bubble);
  return out;
}

std::string lanes_text(const PlanFacts& facts, const Paint& paint) {
  if (facts.lanes.empty()) return "";
  const std::string_view title = "lanes of a step";
  std::string out = fmt::format("\n{}{:>{}}{:>20}{:>20}{:>20}\n", paint.title(title), "busy",
                                37 - title.size(), "hidden", "exposed", "bytes moved");
  for (const LaneCost& lane : facts.lanes) out += lane_row(lane);
  if (facts.links.between > 0) {
    out += fmt::format("  a rank sends {} inside its machine and {} to other machines\n",
                       format_bytes(facts.links.within), format_bytes(facts.links.between));
  }
  if (const double written = facts.disk_bytes_written_a_day(); written > 0) {
    out += fmt::format(
        "  writes {} a day to disk: compare that with the drive's rated endurance (TBW)\n",
        format_bytes(static_cast<int64_t>(written)));
  }
  return out;
}

}  // namespace snug

#include "report/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "base/units.h"
#include "profile/memory_timeline.h"
#include "report/layout.h"

namespace snug {
namespace {

constexpr size_t kProfiledKinds = 12, kProfiledLayers = 12, kHeldValues = 5;

std::string time_cell(double seconds) {
  return seconds == 0 ? "-" : fmt::format("{:.3f} ms", seconds * 1e3);
}

std::string share_cell(double part, double whole) {
  return part == 0 || whole == 0 ? "-" : fmt::format("{:.1f} %", 100 * part / whole);
}

// How far the prediction is off; nothing where nothing was measured.
std::string error_cell(const Seconds& time) {
  if (time.measured == 0 || time.predicted == 0) return "";
  return fmt::format("{:+.1f} %", 100 * (time.predicted / time.measured - 1));
}

std::string profile_row(const std::string& what, std::string_view calls, const Seconds& time,
                        const Seconds& whole) {
  const std::string row =
      fmt::format("  {:<32}{:>8}{:>16}{:>9}{:>16}{:>11}", without_beginning(what, 30), calls,
                  time_cell(time.measured),
                  time.measured > 0 ? share_cell(time.measured, whole.measured)
                                    : share_cell(time.predicted, whole.predicted),
                  time_cell(time.predicted), error_cell(time));
  return std::string(trim_end(row)) + "\n";
}

std::string profile_head(std::string_view what) {
  return fmt::format("\n{:<34}{:>8}{:>16}{:>9}{:>16}{:>11}\n", what, "calls", "measured", "share",
                     "predicted", "error");
}

Seconds whole_step(const Profile& profile) {
  return {profile.measured_step, profile.predicted_step};
}

std::string step_part(const Profile& profile) {
  std::string out = profile.steps > 0 ? fmt::format("profile of {} steps; times predicted by {}\n",
                                                    profile.steps, profile.times_from)
                                      : fmt::format("profile of no run; times predicted by {}\n",
                                                    profile.times_from);
  out += profile_head("time of a step");
  out += profile_row("a step", "", whole_step(profile), whole_step(profile));
  if (profile.unmeasured_step > 0 && profile.measured_step > 0) {
    out += profile_row("a step without the profile", "", {.measured = profile.unmeasured_step},
                       whole_step(profile));
    out += fmt::format("  overhead of the profile: {:+.1f} %\n",
                       100 * (profile.measured_step / profile.unmeasured_step - 1));
  }
  return out;
}

std::string lanes_part(const Profile& profile, const ProfileSums& sums) {
  std::string out = profile_head("lanes, busy");
  for (const LaneTime& lane : sums.lanes)
    out += profile_row(lane.lane, "", lane.busy, whole_step(profile));
  return out;
}

std::string phases_part(const Profile& profile, const ProfileSums& sums) {
  std::string out = profile_head("phases, on the compute lane");
  for (size_t p = 0; p < kPhases; ++p)
    out += profile_row(std::string(name_of(static_cast<Phase>(p))), "", sums.phases[p],
                       whole_step(profile));
  return out;
}

std::string kinds_part(const Profile& profile, const ProfileSums& sums) {
  std::string out = profile_head("kinds of ops");
  const size_t shown = std::min(kProfiledKinds, sums.kinds.size());
  for (size_t i = 0; i < shown; ++i) {
    const KindTime& kind = sums.kinds[i];
    out += profile_row(kind.kind, fmt::format("{}", kind.calls), kind.time, whole_step(profile));
  }
  KindTime rest;
  for (size_t i = shown; i < sums.kinds.size(); ++i) {
    rest.calls += sums.kinds[i].calls;
    rest.time.measured += sums.kinds[i].time.measured;
    rest.time.predicted += sums.kinds[i].time.predicted;
  }
  if (shown < sums.kinds.size())
    out += profile_row(fmt::format("{} other kinds", sums.kinds.size() - shown),
                       fmt::format("{}", rest.calls), rest.time, whole_step(profile));
  return out;
}

double time_of(const LayerTime& layer, size_t phase) {
  const Seconds& time = layer.phases[phase];
  return time.measured > 0 ? time.measured : time.predicted;
}

std::string layers_part(const ProfileSums& sums, const MemoryBreakdown& memory) {
  std::string out = fmt::format("\n{:<24}{:>15}{:>15}{:>15}{:>15}{:>15}\n", "layers, all lanes",
                                "forward", "backward", "update", "kept for bwd", "at the peak");
  const auto row = [&](const std::string& name, const std::array<double, kPhases>& times,
                       int64_t kept, int64_t at_peak) {
    return fmt::format("  {:<22}{:>15}{:>15}{:>15}{:>15}{:>15}\n", name, time_cell(times[0]),
                       time_cell(times[1]), time_cell(times[2]), format_bytes(kept),
                       format_bytes(at_peak));
  };
  std::array<double, kPhases> rest_times{};
  int64_t rest_kept = 0, rest_peak = 0;
  size_t rest = 0;
  for (size_t i = 0; i < sums.layers.size(); ++i) {
    const LayerTime& layer = sums.layers[i];
    const auto bytes = std::ranges::find(memory.layers, layer.layer, &LayerBreakdown::layer);
    const int64_t kept = bytes == memory.layers.end() ? 0 : bytes->kept;
    const int64_t at_peak = bytes == memory.layers.end() ? 0 : bytes->at_peak;
    std::array<double, kPhases> times{};
    for (size_t p = 0; p < kPhases; ++p) times[p] = time_of(layer, p);
    if (i < kProfiledLayers) {
      out += row(layer.layer == kNoLayer ? "no layer" : fmt::format("{}", layer.layer), times, kept,
                 at_peak);
      continue;
    }
    for (size_t p = 0; p < kPhases; ++p) rest_times[p] += times[p];
    rest_kept += kept;
    rest_peak += at_peak;
    ++rest;
  }
  if (rest > 0) out += row(fmt::format("{} more together", rest), rest_times, rest_kept, rest_peak);
  return out;
}

// The most that lives in each of as many parts of the step as there are columns.
std::string memory_curve(const Module& module, const MemoryTimeline& timeline) {
  constexpr size_t kWidth = 84;
  constexpr std::array<std::string_view, 8> kHeights{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  std::vector<int64_t> live;
  for (const int32_t program : programs_in_step(module))
    for (const MemoryInstant& instant : timeline.programs[static_cast<size_t>(program)])
      live.push_back(total(instant.live));
  if (live.empty() || timeline.max_live == 0) return "";
  const size_t columns = std::min(kWidth, live.size());
  std::string out;
  for (size_t c = 0; c < columns; ++c) {
    const auto first = live.begin() + static_cast<std::ptrdiff_t>(c * live.size() / columns);
    const auto last = live.begin() + static_cast<std::ptrdiff_t>((c + 1) * live.size() / columns);
    const auto height =
        static_cast<size_t>(7.999 * static_cast<double>(*std::max_element(first, last)) /
                            static_cast<double>(timeline.max_live));
    out += kHeights[std::min<size_t>(height, 7)];
  }
  return out;
}

std::string memory_part(const Profile& profile, const MemoryBreakdown& memory) {
  const Module& module = *profile.module;
  const MemoryTimeline timeline = memory_timeline(module, Space::device);
  const std::vector<MemorySnapshot> snapshots = phase_snapshots(module, timeline);
  std::string out = fmt::format("\n{:<14}", "device memory");
  for (const MemorySnapshot& snapshot : snapshots) {
    const size_t space = snapshot.label.find(' ');
    out += fmt::format("{:>13}", snapshot.label.substr(0, space));
  }
  out += fmt::format("\n{:<14}", "");
  for (const MemorySnapshot& snapshot : snapshots)
    out += fmt::format("{:>13}", snapshot.label.substr(snapshot.label.find(' ') + 1));
  out += "\n";
  for (size_t c = 0; c < kCategories; ++c) {
    if (std::ranges::all_of(snapshots, [&](const auto& s) { return s.live[c] == 0; })) continue;
    out += fmt::format("  {:<12}", name_of(static_cast<Category>(c)));
    for (const MemorySnapshot& snapshot : snapshots)
      out += fmt::format("{:>13}", format_bytes(snapshot.live[c]));
    out += "\n";
  }
  out += fmt::format("  {:<12}", "all");
  for (const MemorySnapshot& snapshot : snapshots)
    out += fmt::format("{:>13}", format_bytes(total(snapshot.live)));
  const SpaceBreakdown& device = memory.device();
  out += fmt::format("\n  step        {}\n", memory_curve(module, timeline));
  out += "  most at once";
  for (size_t p = 0; p < kPhases; ++p)
    out += fmt::format("{} {} {}", p == 0 ? ":" : ",", name_of(static_cast<Phase>(p)),
                       format_bytes(device.phase_peaks[p]));
  out += fmt::format("\n  arena       {} bytes planned", format_exact(profile.planned_bytes));
  if (profile.peak_bytes > 0) out += fmt::format(", {} measured", format_exact(profile.peak_bytes));
  out += fmt::format("\n\nlargest at the peak, {} in {}\n", device.peak.op, device.peak.program);
  for (const OwnedBytes& value : device.largest)
    out += fmt::format("  {:<40}{:<26}{:<14}{:>14}\n", without_beginning(value.name, 39),
                       without_end(value.type.text(), 25), name_of(value.category),
                       format_bytes(value.bytes));
  return out;
}

std::string growth_text(std::string_view what, const Growth& growth) {
  if (growth.steps == 0) return "";
  return fmt::format("  {}: {} at first, {} after {} more steps, {:+.1f} KiB a step{}\n", what,
                     format_bytes(growth.first), format_bytes(growth.last), growth.steps,
                     growth.bytes_per_step / 1024, growth.leaks ? ": it grows" : "");
}

std::string findings_part(const Profile& profile) {
  const MemoryFindings found = memory_findings(*profile.module, Space::device);
  std::string out = "\nunneeded memory\n";
  out += fmt::format("  gaps of the arena at its peak: {} ({:.2f} %)\n", format_bytes(found.gaps()),
                     found.arena == 0 ? 0.0
                                      : 100 * static_cast<double>(found.gaps()) /
                                            static_cast<double>(found.arena));
  out += fmt::format("  kept at the peak beyond their use, because lanes run side by side: {}\n",
                     format_bytes(found.held_bytes));
  for (size_t i = 0; i < std::min(kHeldValues, found.held.size()); ++i) {
    const HeldValue& value = found.held[i];
    out += fmt::format("    {:<34}{:<18}{:>12}  ops {}..{}, used {}..{}\n",
                       without_beginning(value.name, 33), without_end(value.type.text(), 17),
                       format_bytes(value.bytes), value.kept.first, value.kept.last,
                       value.needed.first, value.needed.last);
  }
  return out + growth_text("this process", growth_of(profile.process_bytes)) +
         growth_text("the GPU's context", growth_of(profile.context_bytes));
}

Json json_of(const Seconds& time) {
  return {{"measured_ms", time.measured * 1e3}, {"predicted_ms", time.predicted * 1e3}};
}

Json json_of(const Growth& growth) {
  return {{"steps", growth.steps},
          {"first_bytes", growth.first},
          {"last_bytes", growth.last},
          {"bytes_per_step", growth.bytes_per_step},
          {"leaks", growth.leaks}};
}

Json json_of_categories(const CategoryBytes& bytes) {
  Json out = Json::object();
  for (size_t c = 0; c < kCategories; ++c)
    if (bytes[c] > 0) out[std::string(name_of(static_cast<Category>(c)))] = bytes[c];
  return out;
}

}  // namespace

std::string table_of(const Profile& profile) {
  const ProfileSums sums = sums_of(profile);
  const MemoryBreakdown memory = memory_breakdown(*profile.module);
  return step_part(profile) + lanes_part(profile, sums) + phases_part(profile, sums) +
         kinds_part(profile, sums) + layers_part(sums, memory) + memory_part(profile, memory) +
         findings_part(profile);
}

std::string json_of(const Profile& profile) {
  const ProfileSums sums = sums_of(profile);
  const Module& module = *profile.module;
  const MemoryFindings found = memory_findings(module, Space::device);
  Json out{{"steps", profile.steps},
           {"times_from", profile.times_from},
           {"step", json_of(whole_step(profile))},
           {"unprofiled_step_ms", profile.unmeasured_step * 1e3},
           {"planned_bytes", profile.planned_bytes},
           {"peak_bytes", profile.peak_bytes}};
  for (const LaneTime& lane : sums.lanes) out["lanes"][lane.lane] = json_of(lane.busy);
  for (size_t p = 0; p < kPhases; ++p)
    out["phases"][std::string(name_of(static_cast<Phase>(p)))] = json_of(sums.phases[p]);
  for (const KindTime& kind : sums.kinds) {
    Json row = json_of(kind.time);
    row["calls"] = kind.calls;
    out["kinds"][kind.kind] = std::move(row);
  }
  for (const LayerTime& layer : sums.layers) {
    Json row{{"layer", layer.layer}};
    for (size_t p = 0; p < kPhases; ++p)
      row[std::string(name_of(static_cast<Phase>(p)))] = json_of(layer.phases[p]);
    out["layers"].push_back(std::move(row));
  }
  const MemoryTimeline timeline = memory_timeline(module, Space::device);
  for (const MemorySnapshot& snapshot : phase_snapshots(module, timeline))
    out["snapshots"].push_back({{"label", snapshot.label},
                                {"op", snapshot.op},
                                {"bytes", total(snapshot.live)},
                                {"categories", json_of_categories(snapshot.live)}});
  out["gap_bytes"] = found.gaps();
  out["held_bytes"] = found.held_bytes;
  out["process_growth"] = json_of(growth_of(profile.process_bytes));
  out["context_growth"] = json_of(growth_of(profile.context_bytes));
  return Json{{"profile", std::move(out)}}.dump();
}

}  // namespace snug

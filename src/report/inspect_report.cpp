#include "report/inspect_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bar.h"
#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kSharesShown = 8;
constexpr size_t kLeaksShown = 4;
constexpr int kOwnerBarColumns = 28;

double part_of(int64_t bytes, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(all);
}

std::string title_line(const InspectFacts& facts, const pytorch::DeviceFindings& d,
                       const Paint& paint) {
  const std::string steps =
      d.least_in_step.empty() ? "no steps found" : counted(std::ssize(d.least_in_step), "step");
  return paint.title(without_beginning(facts.file, 40)) +
         fmt::format(" · PyTorch · device {} · {} · {}\n", d.device, counted(d.events, "event"),
                     steps);
}

// What the trace cannot say, and why.
std::string remarks(const pytorch::DeviceFindings& d) {
  std::string out;
  if (d.events == 0)
    out +=
        "the trace is empty: this is the memory when the snapshot was taken, and no peak\n"
        "  torch.cuda.memory._record_memory_history() before the run records one\n";
  if (d.events > 0 && !d.has_frames)
    out +=
        "no frames were recorded: owners are guessed from sizes and lifetimes\n"
        "  _record_memory_history(context=\"all\", stacks=\"all\") records them\n";
  if (d.events > 0 && d.lost > 0)
    out += fmt::format("the trace begins late: it frees {} that it has not seen made\n",
                       counted(d.lost, "block"));
  return out;
}

std::string peak_text(const pytorch::DeviceFindings& d, const Paint& paint) {
  const pytorch::PeakFindings& peak = d.peak;
  std::string where;
  if (d.events > 0) {
    if (!phase_words(peak.phase).empty()) where = fmt::format(", in {}", phase_words(peak.phase));
    if (peak.step < d.least_in_step.size()) where += fmt::format(" of step {}", peak.step + 1);
  }
  std::string out = fmt::format("\n{}     {} allocated, {} reserved{}\n", paint.title("peak"),
                                format_bytes(peak.allocated), format_bytes(peak.reserved), where);
  for (size_t i = 0; i < pytorch::kOwners; ++i) {
    if (peak.bytes[i] == 0) continue;
    const double part = part_of(peak.bytes[i], peak.allocated);
    out += fmt::format("  {:<35} {} {:>12} {:>7.1f} %\n", words_of(static_cast<pytorch::Owner>(i)),
                       paint.bar(i, bar_text(part, kOwnerBarColumns)), format_bytes(peak.bytes[i]),
                       100 * part);
  }
  return out;
}

std::string shares_text(const pytorch::PeakFindings& peak, const Paint& paint) {
  std::string out;
  size_t shown = 0;
  for (const pytorch::Share& share : peak.shares) {
    if (share.label.empty() || shown == kSharesShown) continue;
    ++shown;
    out += fmt::format("  {:<12} {:>12} {:>7} x  {}\n", name_of(share.owner),
                       format_bytes(share.bytes), share.count, without_end(share.label, 60));
  }
  return out.empty() ? "" : "\n" + paint.title("largest at the peak") + "\n" + out;
}

std::string fragmentation_text(const pytorch::DeviceFindings& d, const Paint& paint) {
  std::string out = "\n" + paint.title("fragmentation") + "\n";
  if (d.events > 0) out += fmt::format("  at the peak  {}\n", idle_text(d.at_peak));
  out += fmt::format("  at the end   {}\n", idle_text(d.at_end));
  const double part = part_of(d.at_peak.split, d.at_peak.reserved);
  if (part > 0.1)
    out += fmt::format(
        "  {:.0f} % are in used segments: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
        "returns pages\n",
        100 * part);
  return out;
}

std::string growth_text(const pytorch::DeviceFindings& d, const Paint& paint) {
  if (d.least_in_step.size() < 3) return "";
  const double growth = growth_per_step(d);
  std::string out = "\n" + paint.title("growth") + "    ";
  if (d.leaks.empty())
    return out + fmt::format("none that lasts: at least {} in step 2, {} in step {}\n",
                             format_bytes(d.least_in_step[1]), format_bytes(d.least_in_step.back()),
                             d.least_in_step.size());
  out += fmt::format("{} a step, freed by none of the later ones\n",
                     paint.bad("+" + format_bytes(static_cast<int64_t>(std::max(0.0, growth)))));
  for (size_t i = 0; i < std::min(kLeaksShown, d.leaks.size()); ++i) {
    const pytorch::Leak& leak = d.leaks[i];
    out += fmt::format("  {:>12} in {} of {}, made at {}\n", format_bytes(leak.bytes),
                       counted(leak.count, "block"), counted(leak.steps, "step"),
                       leak.label.empty() ? "a place without frames" : without_end(leak.label, 50));
    for (size_t f = 1; f < leak.frames.size(); ++f)
      out += fmt::format("  {:>12} called from {}\n", "", without_end(leak.frames[f], 60));
  }
  if (d.leaks.size() > kLeaksShown)
    out += fmt::format("  and {} more\n", counted(std::ssize(d.leaks) - kLeaksShown, "place"));
  return out;
}

std::string oom_text(const pytorch::OutOfMemory& oom, const Paint& paint) {
  std::string out = fmt::format(
      "\n{}  {} were asked for{}{}\n", paint.bad("out of memory"), format_bytes(oom.asked),
      phase_words(oom.phase).empty() ? "" : fmt::format(" in {}", phase_words(oom.phase)),
      oom.label.empty() ? "" : ", at " + without_end(oom.label, 50));
  out += fmt::format("  tensors had {}, the driver had {} left\n", format_bytes(oom.allocated),
                     format_bytes(oom.device_free));
  out += fmt::format("  the allocator held {} more, {} in one piece at most\n",
                     format_bytes(oom.held.split + oom.held.whole), format_bytes(oom.held.largest));
  if (oom.limited)
    out +=
        "  the process has a limit: torch.cuda.set_per_process_memory_fraction, "
        "or a setting like it\n";
  if (oom.expandable_would_do) {
    out += "  fragmentation: with expandable_segments:True the free pages would have been enough\n";
  } else {
    out += "  no other order of segments would have done: tensors must be fewer or smaller\n";
  }
  return out;
}

std::string remedies_text(const pytorch::DeviceFindings& d, const Paint& paint) {
  if (d.remedies.empty() || d.events == 0) return "";
  std::string out = "\n" + paint.title("what would be smaller") +
                    paint.quiet("  (this trace played again)          peak        bytes\n");
  for (const pytorch::Remedy& r : d.remedies)
    out += fmt::format("  {:<44} {:>13} {:>12}\n    {}\n", r.name, format_bytes(r.peak),
                       "-" + format_bytes(r.saves), paint.quiet(r.how));
  return out;
}

std::string signed_ms(double ms) {
  return fmt::format("{}{}", ms < 0 ? "-" : "+", step_text(std::abs(ms)));
}

std::string plan_text(const PricedPlan& plan, const pytorch::DeviceFindings& d,
                      const Paint& paint) {
  std::string out = fmt::format(
      "\n{}  {}\n  {} at the peak, PyTorch had {}; {} a step, modelled\n  rests on {}\n",
      paint.title("the nearest plan of Snug"), plan.what, format_bytes(plan.peak_bytes),
      format_bytes(d.peak.allocated), step_text(plan.step_ms), plan.rests_on);
  out += paint.quiet(fmt::format("  {:<27} {:>12} {:>12} {:>11}  {}\n", "change", "in PyTorch",
                                 "here", "a step", "flags"));
  for (const PricedChange& c : plan.changes) {
    const auto said = std::ranges::find(d.remedies, c.remedy, &pytorch::Remedy::name);
    const std::string there = said == d.remedies.end() ? "-" : "-" + format_bytes(said->saves);
    out += fmt::format("  {:<27} {:>12} {:>12} {:>11}  {}\n", c.remedy, there,
                       "-" + format_bytes(c.saves_bytes), signed_ms(c.more_ms), c.flags);
  }
  return out;
}

// --- JSON ----------------------------------------------------------------------------------------

Json fragmentation_json(const pytorch::Fragmentation& f) {
  return {{"allocated_bytes", f.allocated},       {"reserved_bytes", f.reserved},
          {"idle_beside_tensors_bytes", f.split}, {"idle_segments_bytes", f.whole},
          {"largest_idle_bytes", f.largest},      {"idle_ranges", f.ranges}};
}

Json peak_json(const pytorch::PeakFindings& peak) {
  Json owners = Json::object(), shares = Json::array();
  for (size_t i = 0; i < pytorch::kOwners; ++i)
    owners[std::string(name_of(static_cast<pytorch::Owner>(i)))] = peak.bytes[i];
  for (const pytorch::Share& s : peak.shares)
    shares.push_back({{"owner", name_of(s.owner)},
                      {"at", or_null(s.label)},
                      {"bytes", s.bytes},
                      {"count", s.count}});
  return {{"allocated_bytes", peak.allocated},
          {"reserved_bytes", peak.reserved},
          {"event", peak.moment},
          {"phase", or_null(std::string(phase_words(peak.phase)))},
          {"step", peak.step + 1},
          {"known", peak.known()},
          {"owners", owners},
          {"shares", shares}};
}

Json oom_json(const pytorch::OutOfMemory& oom) {
  return {{"asked_bytes", oom.asked},
          {"device_free_bytes", oom.device_free},
          {"allocated_bytes", oom.allocated},
          {"held", fragmentation_json(oom.held)},
          {"times", oom.times},
          {"phase", or_null(std::string(phase_words(oom.phase)))},
          {"at", or_null(oom.label)},
          {"limited", oom.limited},
          {"expandable_segments_would_do", oom.expandable_would_do}};
}

Json device_json(const pytorch::DeviceFindings& d, bool blocks) {
  Json out{{"device", d.device},
           {"events", d.events},
           {"has_frames", d.has_frames},
           {"peak", peak_json(d.peak)},
           {"peak_reserved_bytes", d.peak_reserved},
           {"fragmentation",
            {{"at_peak", fragmentation_json(d.at_peak)}, {"at_end", fragmentation_json(d.at_end)}}},
           {"least_in_step_bytes", d.least_in_step},
           {"growth_bytes_per_step", growth_per_step(d)},
           {"leaks", Json::array()},
           {"oom", d.oom ? oom_json(*d.oom) : Json(nullptr)},
           {"remedies", Json::array()}};
  for (const pytorch::Leak& leak : d.leaks)
    out["leaks"].push_back({{"at", or_null(leak.label)},
                            {"frames", leak.frames},
                            {"bytes", leak.bytes},
                            {"count", leak.count},
                            {"steps", leak.steps}});
  for (const pytorch::Remedy& r : d.remedies)
    out["remedies"].push_back(
        {{"name", r.name}, {"how", r.how}, {"peak_bytes", r.peak}, {"saves_bytes", r.saves}});
  if (!blocks) return out;
  out["blocks"] = Json::array();
  for (const pytorch::LiveBlock& b : d.blocks)
    out["blocks"].push_back({{"address", b.address},
                             {"bytes", b.bytes},
                             {"owner", name_of(b.owner)},
                             {"at_peak", b.at_peak},
                             {"at_end", b.at_end}});
  return out;
}

Json plan_json_of(const PricedPlan& plan) {
  Json out{{"what", plan.what},
           {"peak_bytes", plan.peak_bytes},
           {"step_ms", plan.step_ms},
           {"rests_on", plan.rests_on},
           {"changes", Json::array()}};
  for (const PricedChange& c : plan.changes)
    out["changes"].push_back({{"remedy", c.remedy},
                              {"flags", c.flags},
                              {"peak_bytes", c.peak_bytes},
                              {"saves_bytes", c.saves_bytes},
                              {"step_ms", c.step_ms},
                              {"more_ms", c.more_ms}});
  return out;
}

}  // namespace

std::string idle_text(const pytorch::Fragmentation& f) {
  return fmt::format("{} idle of {}: {} in used segments, {} in free segments",
                     format_bytes(f.split + f.whole), format_bytes(f.reserved),
                     format_bytes(f.split), format_bytes(f.whole));
}

std::string_view phase_words(pytorch::Phase phase) {
  switch (phase) {
    case pytorch::Phase::setup:
      return "setting the model up";
    case pytorch::Phase::forward:
      return "forward";
    case pytorch::Phase::backward:
      return "backward";
    case pytorch::Phase::optimizer:
      return "the update";
    case pytorch::Phase::script:
      return "the script's own lines";
    case pytorch::Phase::bare:
      break;
  }
  return "";
}

std::string inspect_table(const InspectFacts& facts, const Paint& paint) {
  std::string out;
  for (const pytorch::DeviceFindings& d : facts.devices) {
    if (!out.empty()) out += "\n";
    out += title_line(facts, d, paint) + remarks(d) + peak_text(d, paint);
    if (d.oom) out += oom_text(*d.oom, paint);
    out += shares_text(d.peak, paint) + growth_text(d, paint) + fragmentation_text(d, paint) +
           remedies_text(d, paint);
  }
  if (facts.plan && !facts.devices.empty())
    out += plan_text(*facts.plan, facts.devices.front(), paint);
  return out;
}

std::string inspect_json(const InspectFacts& facts) {
  Json out{{"file", facts.file},
           {"allocator",
            {{"settings", or_null(facts.snapshot->allocator_settings)},
             {"expandable_segments", facts.snapshot->expandable_segments}}},
           {"devices", Json::array()},
           {"plan", facts.plan ? plan_json_of(*facts.plan) : Json(nullptr)}};
  for (const pytorch::DeviceFindings& d : facts.devices)
    out["devices"].push_back(device_json(d, facts.blocks));
  return out.dump(2);
}

}  // namespace snug

#include "page/snapshot_subject.h"

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <tuple>

#include "base/text.h"
#include "base/units.h"

namespace snug {
namespace {

using pytorch::DeviceFindings;

constexpr size_t kMostLeaks = 50;

std::string in_phase(pytorch::Phase phase) {
  const std::string_view words = phase_words(phase);
  return words.empty() ? "" : fmt::format(" in {}", words);
}

// ", in backward of step 2"; of a trace without steps, or without frames, what is known.
std::string where_is(const DeviceFindings& d) {
  const std::string phase = in_phase(d.peak.phase);
  if (d.peak.step >= d.least_in_step.size()) return phase.empty() ? "" : "," + phase;
  return fmt::format(",{} {} step {}", phase, phase.empty() ? "in" : "of", d.peak.step + 1);
}

// The device that the answer is about: one that ran out of memory, or else leaks, or else the fullest.
int64_t device_told(const std::vector<DeviceFindings>& devices) {
  const auto rank = [](const DeviceFindings& d) {
    return std::tuple(d.oom.has_value(), !d.leaks.empty(), d.peak.allocated);
  };
  return std::ranges::max_element(devices, {}, rank) - devices.begin();
}

Json answer_of_snapshot(const DeviceFindings& d) {
  if (d.oom) {
    const std::string at = d.oom->label.empty() ? "" : ", at " + d.oom->label;
    return {
        {"verdict", "ran out of memory"},
        {"tone", "bad"},
        {"text", fmt::format("{} were asked for{}{}; tensors had {}", format_bytes(d.oom->asked),
                             in_phase(d.oom->phase), at, format_bytes(d.oom->allocated))}};
  }
  if (!d.leaks.empty())
    return {{"verdict", "leaks"},
            {"tone", "bad"},
            {"text", fmt::format("{} a step are made and not freed, most at {}",
                                 format_bytes(static_cast<int64_t>(pytorch::growth_per_step(d))),
                                 d.leaks.front().label.empty() ? "a place without frames"
                                                               : d.leaks.front().label)}};
  return {{"verdict", format_bytes(d.peak.allocated)},
          {"tone", "plain"},
          {"text",
           fmt::format("at the peak{}; {} reserved", where_is(d), format_bytes(d.peak.reserved))}};
}

Json facts_of_snapshot(const InspectFacts& facts) {
  Json out = Json::array();
  const auto add = [&](const std::string& name, const std::string& text) {
    if (!text.empty()) out.push_back({name, text});
  };
  for (const DeviceFindings& d : facts.devices) {
    const std::string which = facts.devices.size() > 1 ? fmt::format(" {}", d.device) : "";
    add("peak" + which, fmt::format("{} allocated, {} reserved{}", format_bytes(d.peak.allocated),
                                    format_bytes(d.peak.reserved), where_is(d)));
    add("owners" + which,
        fmt::format("known of {:.1f} % of the bytes at the peak", 100 * d.peak.known()));
    add("at the peak" + which, idle_text(d.at_peak));
    add("at the end" + which, idle_text(d.at_end));
    if (const double growth = pytorch::growth_per_step(d); growth > 0)
      add("grows" + which, format_bytes(static_cast<int64_t>(growth)) + " a step");
    add("trace" + which, fmt::format("{}, {}", counted(d.events, "event"),
                                     counted(std::ssize(d.least_in_step), "step")));
    if (!d.oom) continue;
    add("out of memory" + which,
        fmt::format("the driver had {} left; the allocator held {} more, {} in one piece at most",
                    format_bytes(d.oom->device_free),
                    format_bytes(d.oom->held.whole + d.oom->held.split),
                    format_bytes(d.oom->held.largest)));
    if (d.oom->limited)
      add("limit" + which,
          "the process has one: torch.cuda.set_per_process_memory_fraction, or a setting like it");
    if (d.oom->expandable_would_do)
      add("would do" + which, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
  }
  add("allocator", facts.snapshot->allocator_settings);
  if (facts.plan)
    add("as a plan", fmt::format("{}: {} and {:.1f} ms a step, modelled", facts.plan->what,
                                 format_bytes(facts.plan->peak_bytes), facts.plan->step_ms));
  return out;
}

// What the trace says it would save, and what a plan says it would cost.
Json advice_of(const InspectFacts& facts, const DeviceFindings& told, const std::string& command) {
  Json rows = Json::array();
  const auto priced = [&](const std::string& remedy) -> const PricedChange* {
    if (!facts.plan) return nullptr;
    const auto found = std::ranges::find(facts.plan->changes, remedy, &PricedChange::remedy);
    return found == facts.plan->changes.end() ? nullptr : &*found;
  };
  for (const pytorch::Remedy& remedy : told.remedies) {
    Json row = {{"change", remedy.name},
                {"how", remedy.how},
                {"peak_bytes", remedy.peak},
                {"saves_bytes", remedy.saves}};
    if (const PricedChange* change = priced(remedy.name)) {
      row["step_ms"] = change->step_ms;
      row["time_ratio"] = change->step_ms / facts.plan->step_ms;
      row["command"] = command + " " + change->flags;
    }
    rows.push_back(std::move(row));
  }
  return {{"title", told.oom ? "What would make it fit" : "What would be smaller"}, {"rows", rows}};
}

Json leaks_table(const std::vector<DeviceFindings>& devices) {
  Json rows = Json::array();
  for (const DeviceFindings& d : devices)
    for (const pytorch::Leak& leak : d.leaks)
      if (rows.size() < kMostLeaks)
        rows.push_back({leak.label, format_bytes(leak.bytes), format_exact(leak.count),
                        format_exact(leak.steps), join(leak.frames, " ← ")});
  return {{"title", "Leaks"},
          {"columns", {"made at", "bytes", "tensors", "in steps", "frames"}},
          {"rows", rows}};
}

Json plan_table(const PricedPlan& plan) {
  Json rows = Json::array();
  for (const PricedChange& change : plan.changes)
    rows.push_back({change.remedy, change.flags, format_bytes(change.peak_bytes),
                    format_bytes(change.saves_bytes), fmt::format("{:.1f} ms", change.step_ms),
                    fmt::format("{:+.1f} ms", change.more_ms)});
  return {{"title", "The same as a plan of Snug"},
          {"columns", {"change", "flags", "peak", "saves", "a step", "more"}},
          {"rows", rows}};
}

}  // namespace

Json snapshot_subject(const InspectFacts& facts, const std::string& command) {
  Texts texts;
  texts.index("");
  Json axes = Json::array(), spaces = Json::array(), tables = Json::array();
  std::vector<std::string> notes;
  const int64_t told = device_told(facts.devices);
  std::vector<size_t> order(facts.devices.size());  // the one that the answer is about first
  std::iota(order.begin(), order.end(), size_t{0});
  std::rotate(order.begin(), order.begin() + told, order.begin() + told + 1);
  for (const size_t i : order) {
    DeviceOnPage device = device_on_page(*facts.snapshot, facts.snapshot->devices[i],
                                         facts.devices[i], axes.size(), texts);
    const int64_t stride = device.axis["stride"];
    const int64_t all = device.space["values"]["all"],
                  shown = std::ssize(device.space["values"]["name"]);
    if (stride > 1)
      notes.push_back(fmt::format(
          "{} events are one instant of the drawings: the one with most bytes", stride));
    if (shown < all)
      notes.push_back(fmt::format("the {} largest and longest of {} allocations are drawn",
                                  format_exact(shown), format_exact(all)));
    if (!facts.devices[i].has_frames)
      notes.emplace_back(
          "The snapshot has no frames: owners are guessed from sizes and lifetimes.");
    axes.push_back(std::move(device.axis));
    spaces.push_back(std::move(device.space));
  }
  if (Json leaks = leaks_table(facts.devices); !leaks["rows"].empty())
    tables.push_back(std::move(leaks));
  if (facts.plan && !facts.plan->changes.empty()) tables.push_back(plan_table(*facts.plan));
  Json categories = Json::array();
  for (size_t owner = 0; owner < pytorch::kOwners; ++owner)
    categories.push_back(name_of(static_cast<pytorch::Owner>(owner)));
  const DeviceFindings& about = facts.devices[static_cast<size_t>(told)];
  Json answer = answer_of_snapshot(about);
  if (order.size() > 1)
    answer["text"] = fmt::format("device {}: {}", about.device, answer["text"].get<std::string>());
  const std::string name = std::filesystem::path(facts.file).filename().string();
  Json out = {{"kind", "snapshot"},
              {"name", name},
              {"title", name + ", PyTorch's memory"},
              {"answer", std::move(answer)},
              {"facts", facts_of_snapshot(facts)},
              {"notes", notes},
              {"categories", categories},
              {"layers", Json::array()},
              {"axes", axes},
              {"spaces", spaces},
              {"lanes", Json::array()},
              {"tables", tables},
              {"advice", advice_of(facts, about, command)}};
  out["texts"] = texts.all();
  return out;
}

}  // namespace snug

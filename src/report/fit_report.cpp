// What `snug fit` says: for a person, and as one object for a program.
#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/fit_report.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kLabel = 11;
constexpr size_t kLevel = 22;  // "+ everything allowed"

// Words, but a flag and its value are one: a line does not break between them.
std::vector<std::string> unbroken(std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& word : split(text, ' ')) {
    const bool value = !words.empty() && words.back().starts_with("--") &&
                       words.back().find(' ') == std::string::npos && !word.starts_with("--");
    if (value)
      words.back() += " " + word;
    else
      words.push_back(word);
  }
  return words;
}

// "label      text", in lines that break between words.
std::string line(std::string_view label, std::string_view text, size_t indent = kLabel) {
  std::string out;
  for (const std::string& row : lines_of(unbroken(text), kColumns - indent))
    out += fmt::format("{:<{}}{}\n", out.empty() ? label : "", indent, row);
  return out;
}

std::string with_exact(int64_t bytes) {
  return fmt::format("{} ({} bytes)", format_bytes(bytes), format_exact(bytes));
}

std::string fit_budget_line(const FitReport& report, const Options& options) {
  std::string text = format_bytes(report.budget_bytes);
  if (!options.gpu.empty() && !options.budget.given()) text += " of " + options.gpu;
  if (report.context_bytes > 0)
    text += fmt::format(", {} of it for driver and libraries", format_bytes(report.context_bytes));
  return line("budget", text);
}

std::string next_line(const FitReport& report, const FitLevel& level) {
  if (!level.next_bytes) return line("limit", level.limit);
  const int64_t too_much = *level.next_bytes + report.context_bytes - report.budget_bytes;
  return line("one more", fmt::format("{} needs {}: {} too much", level.next,
                                      with_exact(*level.next_bytes), format_bytes(too_much)));
}

// One group of layers to a line.
std::string recompute_lines(const std::string& policy) {
  std::string out;
  for (const std::string& group : split(policy, ';'))
    out += line(out.empty() ? "recompute" : "", trim(group));
  return out;
}

std::string one_table(const FitReport& report, const Options& options) {
  const FitLevel& level = report.levels.at(0);
  const int64_t left = report.budget_bytes - report.context_bytes - level.arena_bytes;
  std::string out = fmt::format("{} on {}: up to {}\n", options.model, report.device, level.flags);
  out += fit_budget_line(report, options);
  out += line("a step", fmt::format("{} x {} tokens, {}", level.batch, level.seq,
                                    counted(level.accum, "micro-batch")));
  out +=
      line("peak", fmt::format("{}, {} left", with_exact(level.arena_bytes), format_bytes(left)));
  out += recompute_lines(level.recompute);
  out +=
      line("time", fmt::format("{} a step, {} tokens/s ({})", step_text(level.step_seconds * 1e3),
                               format_rate(level.tokens_per_s), report.times_from));
  if (!level.attention.empty()) out += line("attention", level.attention);
  return out + next_line(report, level);
}

std::string level_row(const FitLevel& level) {
  if (level.model.empty()) {
    return line(level.name,
                fmt::format("nothing: {} needs {}", level.next, format_bytes(*level.next_bytes)),
                kLevel);
  }
  return fmt::format("{:<{}}{:>10}{:>8}{:>8}{:>12}{:>11}{:>11}\n", level.name, kLevel,
                     format_count(static_cast<double>(level.parameters)), level.width, level.layers,
                     format_bytes(level.arena_bytes), step_text(level.step_seconds * 1e3),
                     format_rate(level.tokens_per_s));
}

std::string models_table(const FitReport& report, const Options& options) {
  const FitLevel& last = report.levels.back();
  std::string out = fmt::format("{} on {}: the largest of its family at {} x {} tokens\n",
                                options.model, report.device, last.batch, last.seq);
  out += fit_budget_line(report, options);
  out += line("family", "layers grow with width; the rest is in proportion, or as it was");
  out += line("time", report.times_from);
  out += fmt::format("\n{:<{}}{:>10}{:>8}{:>8}{:>12}{:>11}{:>11}\n", "", kLevel, "parameters",
                     "width", "layers", "peak", "a step", "tokens/s");
  for (const FitLevel& level : report.levels) out += level_row(level);
  out += "\n";
  for (const FitLevel& level : report.levels) {
    if (level.model.empty()) continue;
    out += line(level.name, fmt::format("{} {}", level.model, level.flags), kLevel);
    out += line("",
                level.next_bytes
                    ? fmt::format("{} needs {}", level.next, format_bytes(*level.next_bytes))
                    : level.limit,
                kLevel);
    if (level.attention.starts_with("plain"))
      out += line("", "attention on " + level.attention, kLevel);
  }
  return out;
}

Json level_json(const FitLevel& level) {
  Json out{{"name", level.name},
           {"fits", !level.model.empty()},
           {"flags", level.flags},
           {"model", level.model},
           {"params", level.parameters},
           {"layers", level.layers},
           {"width", level.width},
           {"batch", level.batch},
           {"seq", level.seq},
           {"accum", level.accum},
           {"arena_bytes", level.arena_bytes},
           {"step_ms", level.step_seconds * 1e3},
           {"tokens_per_s", level.tokens_per_s},
           {"recompute", level.recompute},
           {"attention", or_null(level.attention)},
           {"next", level.next},
           {"next_bytes", nullptr},
           {"limit", nullptr}};
  if (level.next_bytes) out["next_bytes"] = *level.next_bytes;
  if (!level.limit.empty()) out["limit"] = level.limit;
  if (level.name.empty()) out.erase("name");
  return out;
}

}  // namespace

std::string fit_table(const FitReport& report, const Options& options) {
  return report.of == "model" ? models_table(report, options) : one_table(report, options);
}

std::string fit_json(const FitReport& report, const Options& options) {
  Json out{{"of", report.of},
           {"model", options.model},
           {"device", report.device},
           {"budget_bytes", report.budget_bytes},
           {"context_bytes", report.context_bytes},
           {"prices", report.times_from}};
  if (report.of == "model") {
    out["levels"] = Json::array();
    for (const FitLevel& level : report.levels) out["levels"].push_back(level_json(level));
  } else {
    out.update(level_json(report.levels.at(0)));
  }
  return out.dump(2);
}

}  // namespace snug

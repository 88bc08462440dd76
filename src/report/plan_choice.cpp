// What the search chose, and with --explain what else it considered.
#include <fmt/format.h>

#include "base/text.h"
#include "base/units.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kVariantColumns = 42;
constexpr size_t kWhyColumns = 22;
constexpr size_t kPolicyColumns = 80;

// Every group of layers begins a line.
std::string recompute_text(const ChosenRecompute& chosen, std::string_view title) {
  std::string out;
  for (const std::string& group : split(chosen.policy, ';')) {
    for (const std::string& line : lines_of(split(trim(group), ' '), kPolicyColumns))
      out += fact(out.empty() ? title : "", (out.empty() ? "recompute: " : "           ") + line);
  }
  if (chosen.extra_time < 0)
    return out + fact("", fmt::format(
                              "keeping everything takes {:.1f} % longer: kept values are offloaded",
                              100 * (1 / (1 + chosen.extra_time) - 1)));
  return out +
         fact("", fmt::format("keeping everything needs {} ({} bytes); modelled time {:+.1f} %",
                              format_bytes(chosen.needed_without),
                              format_exact(chosen.needed_without), 100 * chosen.extra_time));
}

// A name or a reason that is too long for its column has a line of its own.
std::string runner_up_row(const RunnerUp& r) {
  const std::string name = r.name.empty() ? "as asked" : r.name;
  const bool long_name = name.size() > kVariantColumns;
  const bool long_reason = r.why.size() > kWhyColumns;
  std::string out;
  if (long_name) {
    for (const std::string& line : flag_lines(name, 98)) out += fmt::format("  {}\n", line);
  }
  out += fmt::format("  {:<{}} {:>11} {:>10}  ", long_name ? "" : name, kVariantColumns,
                     format_bytes(r.bytes), r.seconds > 0 ? step_text(r.seconds * 1e3) : "");
  return out + (long_reason ? fmt::format("{}\n    {}\n", name_of(r.effect), r.why)
                            : fmt::format("{:<8}  {}\n", name_of(r.effect), r.why));
}

// What is estimated is said to be about as much.
std::string mesh_row(const MeshRow& row) {
  const std::string flags = flags_of(row.change);
  const std::vector<std::string> lines = flag_lines(flags, kVariantColumns);
  const std::string about = row.whole ? "" : "~";
  std::string out =
      fmt::format("  {:<{}} {:>11} {:>10}  {}\n", lines.empty() ? "" : lines[0], kVariantColumns,
                  row.bytes > 0 ? about + format_bytes(row.bytes) : "",
                  row.seconds > 0 ? about + step_text(row.seconds * 1e3) : "",
                  row.why.empty() ? "chosen" : row.why);
  for (size_t i = 1; i < lines.size(); ++i) out += fmt::format("    {}\n", lines[i]);
  return out;
}

}  // namespace

std::vector<std::string> lines_of(std::span<const std::string> words, size_t columns) {
  std::vector<std::string> lines;
  for (const std::string& word : words) {
    if (lines.empty() || lines.back().size() + 1 + word.size() > columns)
      lines.push_back(word);
    else
      lines.back() += " " + word;
  }
  return lines;
}

std::vector<std::string> flag_lines(std::string_view flags, size_t columns) {
  std::vector<std::string> each;
  for (const std::string& word : split(flags, ' ')) {
    if (each.empty() || word.starts_with("--"))
      each.push_back(word);
    else
      each.back() += " " + word;
  }
  return lines_of(each, columns);
}

std::string runners_up_text(const PlanFacts& facts, const Paint& paint) {
  if (!facts.explain || (facts.runners_up.empty() && !facts.meshes.empty())) return "";
  const std::string_view title = "what else was considered";
  if (facts.runners_up.empty()) {
    const bool searched = facts.budget_bytes && !facts.within_free_memory;
    return "\n" + paint.title(title) +
           (searched ? "  nothing that was open and fits\n"
                     : "  nothing: without --budget or --gpu what fits is not searched\n");
  }
  std::string out = "\n" + paint.title(title) +
                    paint.quiet(fmt::format("{:>{}} {:>10}  {:<8}  {}\n", "peak",
                                            kVariantColumns + 14 - title.size(), "a step", "effect",
                                            "why it was not chosen"));
  for (const RunnerUp& r : facts.runners_up) out += runner_up_row(r);
  return out;
}

std::string meshes_text(const PlanFacts& facts, const Paint& paint) {
  constexpr size_t kShown = 5;  // --explain shows all
  if (facts.meshes.size() < 2) return "";
  const std::string_view title = "meshes of as many sequences a step";
  std::string out =
      "\n" + paint.title(title) +
      paint.quiet(fmt::format("{:>{}} {:>10}  {}\n", "peak", kVariantColumns + 14 - title.size(),
                              "a step", "why it was not chosen"));
  const size_t shown = facts.explain ? facts.meshes.size() : std::min(kShown, facts.meshes.size());
  for (size_t i = 0; i < shown; ++i) out += mesh_row(facts.meshes[i]);
  if (shown < facts.meshes.size())
    out += fmt::format("  {} more: --explain\n", facts.meshes.size() - shown);
  return out;
}

std::string choice_text(const PlanFacts& facts) {
  std::string out;
  for (const std::string& flags : facts.changed) out += fact(out.empty() ? "chosen" : "", flags);
  if (facts.chosen) out += recompute_text(*facts.chosen, out.empty() ? "chosen" : "");
  return out;
}

}  // namespace snug

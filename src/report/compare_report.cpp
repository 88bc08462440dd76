#include "report/compare_report.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kComparedName = 20;
constexpr size_t kCellColumns = 26;

// Two cells and what the second is more than the first.
std::string row(std::string_view name, const std::string& a, const std::string& b,
                const std::string& difference = "") {
  return fmt::format("{:<{}} {:>{}} {:>{}}{}\n", name, kComparedName,
                     without_beginning(a, kCellColumns), kCellColumns,
                     without_beginning(b, kCellColumns), kCellColumns,
                     difference.empty() ? "" : fmt::format(" {:>22}", difference));
}

// "+1.20 GiB  +14.0 %", or "same".
std::string difference_of(double a, double b, const std::string& amount) {
  if (a == b) return "same";
  constexpr double kTimes = 10;  // from here on a percentage says less than a multiple
  std::string part;
  if (a != 0 && b / a >= kTimes) part = fmt::format("   x {:>5.0f}", b / a);
  if (a != 0 && b / a < kTimes) part = fmt::format(" {:>+7.1f} %", 100 * (b / a - 1));
  return fmt::format("{}{}{}", b < a ? "-" : "+", amount, part);
}

std::string bytes_row(std::string_view name, int64_t a, int64_t b) {
  const auto text = [](int64_t bytes) { return bytes == 0 ? "-" : format_bytes(bytes); };
  return row(
      name, text(a), text(b),
      difference_of(static_cast<double>(a), static_cast<double>(b), format_bytes(std::abs(b - a))));
}

std::string number_row(std::string_view name, double a, double b, std::string (*text)(double)) {
  return row(name, text(a), text(b), difference_of(a, b, text(std::abs(b - a))));
}

std::string option_cell(const Json& option) {
  const std::string text = typed_text(option);
  if (option.is_null() || text.empty()) return "-";
  return text.starts_with("auto:") ? "auto" : text;  // the budget's bytes are below
}

// The options that are not the same on both sides.
std::string recipe_rows(const ComparedPlan& a, const ComparedPlan& b) {
  std::string out;
  for (const auto& [key, value] : a.facts.recipe.items()) {
    const Json& other = b.facts.recipe.at(key);
    if (key != "model" && value != other)
      out += row("  " + key, option_cell(value), option_cell(other));
  }
  return out;
}

std::string category_rows(const SpaceBreakdown& a, const SpaceBreakdown& b) {
  std::string out;
  for (size_t c = 0; c < a.breakdown.size(); ++c) {
    if (a.breakdown[c] == 0 && b.breakdown[c] == 0) continue;
    const std::string name(name_of(static_cast<Category>(c)));
    out += bytes_row("  " + name, a.breakdown[c], b.breakdown[c]);
  }
  return out + bytes_row("  gaps", a.gaps, b.gaps);
}

std::string params_of(const ComparedPlan& s) {
  return format_count(static_cast<double>(s.memory.trainable_params + s.memory.frozen_params));
}

int64_t context_of(const ComparedPlan& s) {
  return s.facts.context_bytes + s.facts.page_table_bytes(arenas_of(s.memory));
}

std::string verdict_of(const ComparedPlan& s) {
  if (!s.facts.budget_bytes) return "no budget";
  const int64_t left = s.facts.left_by(arenas_of(s.memory))[Space::device];
  return fmt::format("{}: {} {}", left >= 0 ? "yes" : "no", format_bytes(std::abs(left)),
                     left >= 0 ? "left" : "too much");
}

std::string peak_of(const ComparedPlan& s) {
  const Peak& peak = s.memory.device().peak;
  if (peak.layer == kNoLayer) return fmt::format("{}, {}", name_of(peak.phase), peak.op);
  return fmt::format("{}, layer {}", name_of(peak.phase), peak.layer);
}

Json difference_json(const Json& a, const Json& b) {
  Json out = Json::object();
  for (const char* key : {"arena_bytes", "context_bytes", "step_ms", "tokens_per_s", "params"})
    out[key] = a[key].is_number_float() ? Json(b[key].get<double>() - a[key].get<double>())
                                        : Json(b[key].get<int64_t>() - a[key].get<int64_t>());
  for (const auto& [category, bytes] : a["breakdown"].items())
    out["breakdown"][category] = b["breakdown"][category].get<int64_t>() - bytes.get<int64_t>();
  return out;
}

Json json_of(const ComparedPlan& s) {
  Json out{{"name", s.name}};
  out.update(plan_json(s.memory, s.facts));
  return out;
}

}  // namespace

std::string compare_table(const ComparedPlan& a, const ComparedPlan& b, const Paint& paint) {
  const auto both = [&](std::string_view name,
                        const std::function<std::string(const ComparedPlan&)>& f) {
    return row(name, f(a), f(b));
  };
  const auto total = [](const ComparedPlan& s) { return s.arena() + context_of(s); };
  std::string out = paint.title(row("", a.name, b.name, "difference"));
  out += both("parameters", params_of);
  out += recipe_rows(a, b);
  out += "\n" + paint.title("device memory at the peak") + "\n";
  out += category_rows(a.memory.device(), b.memory.device());
  out += bytes_row("arena", a.arena(), b.arena());
  if (context_of(a) + context_of(b) > 0) {
    out += bytes_row("context", context_of(a), context_of(b));
    out += bytes_row("together", total(a), total(b));
  }
  out += both("peak in", peak_of) + "\n";
  out += number_row("a step", *a.facts.step_ms, *b.facts.step_ms, step_text);
  out += number_row("tokens/s", *a.facts.tokens_per_s(), *b.facts.tokens_per_s(), format_rate);
  out += both("fits", verdict_of);
  const bool alike = a.facts.rests_on == b.facts.rests_on;
  out += paint.quiet(fmt::format("\ntimes rest on {}{}\n", a.facts.rests_on,
                                 alike ? "" : "\n          and on " + b.facts.rests_on));
  return out;
}

std::string compare_json(const ComparedPlan& a, const ComparedPlan& b) {
  const Json ja = json_of(a);
  const Json jb = json_of(b);
  return Json{{"a", ja}, {"b", jb}, {"difference", difference_json(ja, jb)}}.dump(2);
}

}  // namespace snug

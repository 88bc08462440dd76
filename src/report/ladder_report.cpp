#include "report/ladder_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bar.h"
#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr int kRungColumns = 21;
constexpr int kTimeColumns = 11;  // "123456.7 ms"
constexpr int kRatioColumns = 7;  // "x 12.34"
constexpr int kLossColumns = 7;
constexpr int kLargestBar = 24;
constexpr std::string_view kTooLarge = "does not fit";

// Flags after a label, in lines that break before a flag.
std::string labelled(std::string_view label, std::string_view flags) {
  std::string out;
  for (const std::string& line : flag_lines(flags, kColumns - label.size() - 1))
    out += fmt::format("{:<{}} {}\n", out.empty() ? label : "", label.size(), line);
  return out;
}

}  // namespace

LadderTable::LadderTable(const LadderReport& report, const Options& options)
    : title_(fmt::format(
          "{} on {} · {} x {} tokens a step · {} · one change to the baseline at a time\n",
          options.model, report.device, report.sequences, report.seq,
          counted(options.steps, "step"))),
      baseline_(report.rungs.front().change),
      all_together_(report.rungs.back().change),
      computes_(options.device != DeviceChoice::null) {
  for (const Rung& rung : report.rungs) largest_ = std::max(largest_, rung.planned_bytes);
  const bool all_fit = std::ranges::all_of(report.rungs, &Rung::fits);
  const size_t least = all_fit ? std::string_view("measured").size() : kTooLarge.size();
  byte_columns_ = static_cast<int>(std::max(least, format_exact(largest_).size()));
  const int taken =
      kRungColumns + 2 * (byte_columns_ + 2) + kTimeColumns + kRatioColumns + kLossColumns + 8;
  bar_columns_ = std::clamp(kColumns - taken, 4, kLargestBar);
}

std::string LadderTable::head() const {
  return title_ + labelled("baseline", baseline_) + "\n" +
         columns("", bar_text(0, bar_columns_), "planned", computes_ ? "measured" : "followed",
                 computes_ ? "a step" : "", "", computes_ ? "loss" : "");
}

std::string LadderTable::row(const Rung& rung) {
  if (!has_rows_) baseline_seconds_ = rung.step_seconds;
  has_rows_ = true;
  const double share = static_cast<double>(rung.planned_bytes) / static_cast<double>(largest_);
  std::string time, ratio, loss;
  if (rung.step_seconds) time = fmt::format("{:.1f} ms", *rung.step_seconds * 1e3);
  if (rung.step_seconds && baseline_seconds_)
    ratio = fmt::format("x {:.2f}", *rung.step_seconds / *baseline_seconds_);
  if (rung.loss) loss = fmt::format("{:.4f}", *rung.loss);
  std::string out =
      columns(rung.name, bar_text(share, bar_columns_), format_exact(rung.planned_bytes),
              rung.fits ? format_exact(rung.measured_bytes.value()) : std::string(kTooLarge), time,
              ratio, loss);
  if (!rung.as_planned())
    out += fmt::format("{:>{}}\n", "^^^ MEASURED IS NOT PLANNED ^^^", kColumns);
  return out;
}

std::string LadderTable::foot() const { return "\n" + labelled("all together", all_together_); }

// The bar comes with its padding: its letters are of several bytes.
std::string LadderTable::columns(std::string_view name, std::string_view bar,
                                 std::string_view planned, std::string_view measured,
                                 std::string_view time, std::string_view ratio,
                                 std::string_view loss) const {
  return std::string(trim_end(fmt::format("{:<{}}  {}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}",
                                          name, kRungColumns, bar, planned, byte_columns_, measured,
                                          byte_columns_, time, kTimeColumns, ratio, kRatioColumns,
                                          loss, kLossColumns))) +
         "\n";
}

std::string ladder_json(const LadderReport& report, const Options& options) {
  Json out{{"model", options.model}, {"device", report.device}, {"sequences", report.sequences},
           {"seq", report.seq},      {"steps", options.steps},  {"rungs", Json::array()}};
  for (const Rung& rung : report.rungs) {
    out["rungs"].push_back({{"name", rung.name},
                            {"change", rung.change},
                            {"fits", rung.fits},
                            {"planned_bytes", rung.planned_bytes},
                            {"measured_bytes", or_null(rung.measured_bytes)},
                            {"step_ms", or_null(rung.step_seconds, 1e3)},
                            {"loss", or_null(rung.loss)},
                            {"skipped", rung.skipped}});
  }
  return out.dump(2);
}

}  // namespace snug

// snug ladder MODEL: a row for each rung as soon as it is measured, with a bar for its bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/bar.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "base/units.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {
namespace {

constexpr int kColumns = 100;
constexpr int kNameColumns = 21;
constexpr int kTimeColumns = 11;  // "123456.7 ms"
constexpr int kRatioColumns = 7;  // "x 12.34"
constexpr int kLossColumns = 7;
constexpr int kLargestBar = 24;
constexpr std::string_view kTooLarge = "does not fit";

// Flags after a label, in lines that break before a flag.
std::string flag_lines(std::string_view label, const std::string& flags) {
  std::vector<std::string> groups;  // a flag and its value
  for (const std::string& word : split(flags, ' ')) {
    if (word.starts_with("--")) {
      groups.push_back(" " + word);
    } else {
      groups.back() += " " + word;
    }
  }
  std::string out, line(label);
  for (const std::string& group : groups) {
    if (line.size() + group.size() > kColumns) {
      out += line + "\n";
      line.assign(label.size(), ' ');
    }
    line += group;
  }
  return out + line + "\n";
}

class Table {
 public:
  explicit Table(const Options& options) : options_(options) {}

  void planned(const LadderReport& report) {
    total_ = report.rungs.size();
    for (const Rung& rung : report.rungs) largest_ = std::max(largest_, rung.planned_bytes);
    const bool all_fit = std::ranges::all_of(report.rungs, &Rung::fits);
    const size_t least = all_fit ? std::string_view("measured").size() : kTooLarge.size();
    byte_columns_ = static_cast<int>(std::max(least, format_exact(largest_).size()));
    const int taken =
        kNameColumns + 2 * (byte_columns_ + 2) + kTimeColumns + kRatioColumns + kLossColumns + 8;
    bar_columns_ = std::clamp(kColumns - taken, 4, kLargestBar);
    if (options_.json) return;
    fmt::print(
        "{} · {} x {} tokens a step · {} step{} · one change to the baseline at a time\n{}\n",
        options_.model, report.sequences, report.seq, options_.steps,
        options_.steps == 1 ? "" : "s", flag_lines("baseline", report.rungs.front().change));
    const bool computed = options_.device != "null";
    print_columns("", bar_text(0, bar_columns_), "planned", computed ? "measured" : "followed",
                  computed ? "a step" : "", "", computed ? "loss" : "");
  }

  void started(const Rung& rung) {
    ++running_;
    if (!stderr_is_terminal()) return;
    fmt::print(stderr, "[{}/{}] {}", running_, total_,
               running_ == 1 || running_ == total_ ? rung.name : rung.change);
    std::fflush(stderr);
  }

  void measured(const Rung& rung) {
    if (stderr_is_terminal()) fmt::print(stderr, "\r\033[K");
    if (running_ == 1) baseline_seconds_ = rung.step_seconds;
    if (!options_.json) print_row(rung);
    std::fflush(stdout);
    if (rung.skipped > 0) {
      log("{}: {} of {} steps skipped, their gradient norm was not finite", rung.name, rung.skipped,
          options_.steps);
    }
  }

 private:
  void print_row(const Rung& rung) const {
    const double share = static_cast<double>(rung.planned_bytes) / static_cast<double>(largest_);
    std::string time, ratio, loss;
    if (rung.step_seconds) time = fmt::format("{:.1f} ms", *rung.step_seconds * 1e3);
    if (rung.step_seconds && baseline_seconds_)
      ratio = fmt::format("x {:.2f}", *rung.step_seconds / *baseline_seconds_);
    if (rung.loss) loss = fmt::format("{:.4f}", *rung.loss);
    print_columns(rung.name, bar_text(share, bar_columns_), format_exact(rung.planned_bytes),
                  rung.fits ? format_exact(rung.measured_bytes.value()) : std::string(kTooLarge),
                  time, ratio, loss);
    if (!rung.as_planned()) fmt::print("{:>{}}\n", "^^^ MEASURED IS NOT PLANNED ^^^", kColumns);
  }

  // The bar comes with its padding: its letters are of several bytes.
  void print_columns(std::string_view name, std::string_view bar, std::string_view planned,
                     std::string_view measured, std::string_view time, std::string_view ratio,
                     std::string_view loss) const {
    const std::string line =
        fmt::format("{:<{}}  {}  {:>{}}  {:>{}}  {:>{}}  {:>{}}  {:>{}}", name, kNameColumns, bar,
                    planned, byte_columns_, measured, byte_columns_, time, kTimeColumns, ratio,
                    kRatioColumns, loss, kLossColumns);
    fmt::print("{}\n", line.substr(0, line.find_last_not_of(' ') + 1));
  }

  const Options& options_;
  std::optional<double> baseline_seconds_;
  int64_t largest_ = 1;
  int byte_columns_ = 0;
  int bar_columns_ = 0;
  size_t total_ = 0;
  size_t running_ = 0;
};

template <typename T>
nlohmann::json or_null(const std::optional<T>& value, T factor = 1) {
  return value ? nlohmann::json(*value * factor) : nlohmann::json(nullptr);
}

nlohmann::ordered_json to_json(const LadderReport& report, const Options& options) {
  nlohmann::ordered_json out{{"model", options.model},
                             {"sequences", report.sequences},
                             {"seq", report.seq},
                             {"steps", options.steps},
                             {"rungs", nlohmann::ordered_json::array()}};
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
  return out;
}

void require_as_planned(const std::vector<Rung>& rungs) {
  for (const Rung& rung : rungs) {
    if (!rung.as_planned()) {
      throw internal_error("{} ({}): {} bytes were planned and {} measured", rung.name, rung.change,
                           format_exact(rung.planned_bytes), format_exact(*rung.measured_bytes));
    }
  }
}

}  // namespace

int ladder_verb(const std::vector<std::string>& arguments) {
  CLI::App app("what each memory technique saves and costs on this model", "snug ladder");
  Options options;
  options.steps = 10;
  add_options(app, options, OptionUse::train);
  if (!parse(app, arguments)) return 0;

  Table table(options);
  const LadderReport report =
      ladder(options, {.planned = [&](const LadderReport& all) { table.planned(all); },
                       .started = [&](const Rung& rung) { table.started(rung); },
                       .measured = [&](const Rung& rung) { table.measured(rung); }});
  if (options.json) {
    fmt::print("{}\n", to_json(report, options).dump(2));
  } else {
    fmt::print("\n{}", flag_lines("all together", report.rungs.back().change));
  }
  require_as_planned(report.rungs);
  return 0;
}

}  // namespace snug::cli

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

constexpr size_t kColumns = 100;
constexpr int kNameColumns = 22;
constexpr int kTimeColumns = 10;  // "12345.6 ms" is rare; wider ones push the row
constexpr int kRatioColumns = 7;  // "x 12.34"
constexpr int kLossColumns = 8;

// Flags after a label, broken into lines before a flag.
std::string flag_lines(const std::string& label, const std::string& flags) {
  const std::string margin(label.size(), ' ');
  std::string out, line = label;
  for (const std::string& word : split(flags, ' ')) {
    const bool starts_flag = word.starts_with("--");
    // A flag's value is at most 20 columns: a line that a flag starts has room for it.
    if (starts_flag && line.size() + 1 + word.size() + 20 > kColumns) {
      out += line + "\n";
      line = margin;
    }
    line += " " + word;
  }
  return out + line + "\n";
}

class Table {
 public:
  explicit Table(const Options& options) : options_(options) {}

  void planned(const std::vector<Rung>& rungs) {
    total_ = rungs.size();
    for (const Rung& rung : rungs) largest_ = std::max(largest_, rung.planned_bytes);
    byte_columns_ = std::max<int>(8, static_cast<int>(format_exact(largest_).size()));
    bar_columns_ = static_cast<int>(kColumns) - kNameColumns - 2 * byte_columns_ - kTimeColumns -
                   kRatioColumns - kLossColumns - 6;
    if (options_.json) return;
    fmt::print("{} · {} step{} each · one change to the baseline at a time\n{}\n", options_.model,
               options_.steps, options_.steps == 1 ? "" : "s",
               flag_lines("baseline", rungs.front().change));
    fmt::print("{:<{}} {:<{}} {:>{}} {:>{}} {:>{}} {:>{}} {:>{}}\n", "", kNameColumns, "bytes",
               bar_columns_, "planned", byte_columns_,
               options_.device == "null" ? "followed" : "measured", byte_columns_, "a step",
               kTimeColumns, "", kRatioColumns, "loss", kLossColumns);
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
    if (!options_.json) fmt::print("{}\n", row(rung));
    std::fflush(stdout);
    if (rung.skipped > 0) {
      log("{}: {} of {} steps skipped, their gradient norm was not finite", rung.name, rung.skipped,
          options_.steps);
    }
  }

 private:
  std::string row(const Rung& rung) const {
    const double share = static_cast<double>(rung.planned_bytes) / static_cast<double>(largest_);
    std::string out =
        fmt::format("{:<{}} {} {:>{}} ", rung.name, kNameColumns, bar_text(share, bar_columns_),
                    format_exact(rung.planned_bytes), byte_columns_);
    if (!rung.fits) return out + "does not fit";
    out += fmt::format("{:>{}}", format_exact(rung.measured_bytes.value()), byte_columns_);
    if (rung.step_seconds) {
      out += fmt::format(" {:>{}} {:>{}} {:>{}.4f}", format_ms(*rung.step_seconds), kTimeColumns,
                         ratio(*rung.step_seconds), kRatioColumns, rung.loss.value(), kLossColumns);
    }
    return rung.as_planned() ? out : out + "\n  ^^^ MEASURED IS NOT PLANNED";
  }

  static std::string format_ms(double seconds) { return fmt::format("{:.1f} ms", seconds * 1e3); }
  std::string ratio(double seconds) const {
    return baseline_seconds_ ? fmt::format("x {:.2f}", seconds / *baseline_seconds_) : "";
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

nlohmann::ordered_json to_json(const std::vector<Rung>& rungs, const Options& options) {
  nlohmann::ordered_json out{{"model", options.model},
                             {"steps", options.steps},
                             {"rungs", nlohmann::ordered_json::array()}};
  for (const Rung& rung : rungs) {
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

int ladder_verb(std::vector<std::string> arguments) {
  CLI::App app("what each memory technique saves and costs on this model", "snug ladder");
  Options options;
  options.steps = 10;
  add_options(app, options, OptionUse::train);
  if (!parse(app, std::move(arguments))) return 0;

  Table table(options);
  const std::vector<Rung> rungs =
      ladder(options, {.planned = [&](const std::vector<Rung>& all) { table.planned(all); },
                       .started = [&](const Rung& rung) { table.started(rung); },
                       .measured = [&](const Rung& rung) { table.measured(rung); }});
  if (options.json) {
    fmt::print("{}\n", to_json(rungs, options).dump(2));
  } else {
    fmt::print("\n{}", flag_lines("all together", rungs.back().change));
  }
  require_as_planned(rungs);
  return 0;
}

}  // namespace snug::cli

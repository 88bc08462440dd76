// snug calibrate: measures this device, so that plans rest on what it does.
#include "snug/calibrate.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "arguments.h"
#include "base/log.h"
#include "base/units.h"
#include "verbs.h"

namespace snug::cli {
namespace {

constexpr size_t kShown = 14;
constexpr size_t kSettingColumns = 72;

std::string rate_text(double rate, bool arithmetic) {
  const double giga = rate * 1e-9;
  const char* unit = arithmetic ? "FLOP/s" : "B/s";
  return giga >= 1000 ? fmt::format("{:.2f} T{}", giga * 1e-3, unit)
                      : fmt::format("{:.2f} G{}", giga, unit);
}

void print_progress(const CalibrateReport& so_far, const std::string& setting, double step_ms,
                    const std::string& why_not) {
  if (why_not.empty()) {
    log("{:>2}/{}  {:<{}} {:>9.2f} ms", so_far.measured, so_far.settings,
        setting.substr(0, kSettingColumns), kSettingColumns, step_ms);
  } else {
    log("       {}: left out: {}", setting, why_not);
  }
}

void print_table(const CalibrateReport& report) {
  const std::string threads = report.threads > 0 ? fmt::format(", {} thread{}", report.threads,
                                                               report.threads == 1 ? "" : "s")
                                                 : "";
  fmt::print("{}{}: {} ops of {} of {} small trainings in {}\n", report.device, threads,
             format_exact(report.points), report.measured, report.settings,
             format_seconds(report.seconds));
  fmt::print("copies at {:.1f} GB/s, bytes read and written\n\n", report.copy_bytes_per_s * 1e-9);
  fmt::print("{:<32}{:<8}{:>8}{:>18}{:>18}{:>10}\n", "op", "type", "sizes", "best", "all sizes",
             "of best");
  for (size_t i = 0; i < std::min(kShown, report.kinds.size()); ++i) {
    const KindRates& row = report.kinds[i];
    fmt::print("{:<32}{:<8}{:>8}{:>18}{:>18}{:>9.0f}%\n", row.kind, row.dtype, row.points,
               rate_text(row.best, row.arithmetic), rate_text(row.mean, row.arithmetic),
               100 * row.mean / row.best);
  }
  if (report.kinds.size() > kShown)
    fmt::print("and {} other kinds and types of op, which take less\n",
               report.kinds.size() - kShown);
  if (report.measured < report.settings)
    fmt::print(
        "ops that were not met are still priced by the catalogue: more --seconds time more\n");
  fmt::print("\nkept in {}\n", report.path);
}

nlohmann::ordered_json to_json(const CalibrateReport& report) {
  nlohmann::ordered_json out{{"device", report.device},
                             {"threads", report.threads},
                             {"path", report.path},
                             {"settings", report.settings},
                             {"measured", report.measured},
                             {"points", report.points},
                             {"copy_bytes_per_s", report.copy_bytes_per_s},
                             {"seconds", report.seconds},
                             {"kinds", nlohmann::ordered_json::array()}};
  for (const KindRates& row : report.kinds) {
    out["kinds"].push_back({{"kind", row.kind},
                            {"dtype", row.dtype},
                            {"points", row.points},
                            {"bound", row.arithmetic ? "arithmetic" : "bytes"},
                            {"best", row.best},
                            {"mean", row.mean}});
  }
  return out;
}

}  // namespace

int calibrate_verb(const std::vector<std::string>& arguments) {
  CLI::App app("measures this device, so that plans rest on what it does", "snug calibrate");
  CalibrateOptions options;
  bool json = false;
  app.add_option("--device", options.device, "cpu | cuda")->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads (0: all)")->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "begin no other measurement after this long (0: 105 on a GPU, 90 on a CPU)")
      ->capture_default_str();
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  const CalibrateReport report = calibrate(options, {.measured = print_progress});
  if (json) {
    fmt::print("{}\n", to_json(report).dump(2));
  } else {
    print_table(report);
  }
  return 0;
}

}  // namespace snug::cli

#include "report/calibrate_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/units.h"

namespace snug {
namespace {

constexpr size_t kKindsShown = 14;
constexpr size_t kSettingColumns = 72;

std::string rate_text(double rate, bool arithmetic) {
  const double giga = rate * 1e-9;
  const char* unit = arithmetic ? "FLOP/s" : "B/s";
  return giga >= 1000 ? fmt::format("{:.2f} T{}", giga * 1e-3, unit)
                      : fmt::format("{:.2f} G{}", giga, unit);
}

std::string rates_row(const KindRates& row) {
  return fmt::format("{:<32}{:<8}{:>8}{:>18}{:>18}{:>9.0f}%\n", row.kind, row.dtype, row.points,
                     rate_text(row.best, row.arithmetic), rate_text(row.mean, row.arithmetic),
                     100 * row.mean / row.best);
}

}  // namespace

std::string calibrate_line(const CalibrateReport& so_far, const std::string& setting,
                           double step_ms, const std::string& why_not) {
  if (!why_not.empty()) return fmt::format("       {}: left out: {}", setting, why_not);
  return fmt::format("{:>2}/{}  {:<{}} {:>9.2f} ms", so_far.measured, so_far.settings,
                     setting.substr(0, kSettingColumns), kSettingColumns, step_ms);
}

std::string calibrate_table(const CalibrateReport& report) {
  if (report.ranks > 0) {
    return fmt::format(
        "{}: {} over {}\na collective takes {:.0f} us and sends {:.2f} GB/s from each rank\n\n{}\n",
        report.device, counted(report.ranks, "rank"), report.engine, report.wire_latency * 1e6,
        report.wire_bytes_per_s * 1e-9,
        report.path.empty() ? "not kept: these ranks share a GPU" : "kept in " + report.path);
  }
  const std::string threads =
      report.threads > 0 ? ", " + counted(report.threads, "thread") : std::string();
  std::string out = fmt::format(
      "{}{}: {} of {} of {} in {}\n", report.device, threads, counted(report.points, "op"),
      report.measured, counted(report.settings, "small training"), format_seconds(report.seconds));
  out += fmt::format("copies at {:.1f} GB/s, bytes read and written\n",
                     report.copy_bytes_per_s * 1e-9);
  if (report.link_in > 0) {
    out += fmt::format("link to the host: {:.1f} GB/s in, {:.1f} out, {:.1f} each way at once\n",
                       report.link_in * 1e-9, report.link_out * 1e-9, report.link_both * 1e-9);
  }
  if (report.disk_read_bytes_per_s > 0) {
    out += fmt::format("the disk reads {:.2f} GB/s and writes {:.2f} GB/s\n",
                       report.disk_read_bytes_per_s * 1e-9, report.disk_write_bytes_per_s * 1e-9);
  }
  out += "\n";
  out += fmt::format("{:<32}{:<8}{:>8}{:>18}{:>18}{:>10}\n", "op", "type", "sizes", "best",
                     "all sizes", "of best");
  const size_t shown = std::min(kKindsShown, report.kinds.size());
  for (size_t i = 0; i < shown; ++i) out += rates_row(report.kinds[i]);
  if (shown < report.kinds.size())
    out += fmt::format("and {} other kinds and types of op, which take less\n",
                       report.kinds.size() - shown);
  if (report.measured < report.settings)
    out += "ops not measured keep the catalogue's times: a larger --seconds measures more\n";
  return out + fmt::format("\nkept in {}\n", report.path);
}

std::string calibrate_json(const CalibrateReport& report) {
  nlohmann::ordered_json out{{"device", report.device},
                             {"threads", report.threads},
                             {"path", report.path},
                             {"settings", report.settings},
                             {"measured", report.measured},
                             {"points", report.points},
                             {"copy_bytes_per_s", report.copy_bytes_per_s},
                             {"link", nullptr},
                             {"seconds", report.seconds},
                             {"kinds", nlohmann::ordered_json::array()}};
  if (report.link_in > 0) {
    out["link"] = {{"in", report.link_in}, {"out", report.link_out}, {"both", report.link_both}};
  }
  if (report.disk_read_bytes_per_s > 0) {
    out["disk_read_bytes_per_s"] = report.disk_read_bytes_per_s;
    out["disk_write_bytes_per_s"] = report.disk_write_bytes_per_s;
  }
  if (report.ranks > 0) {
    out["wire"] = {{"ranks", report.ranks},
                   {"engine", report.engine},
                   {"latency", report.wire_latency},
                   {"bytes_per_s", report.wire_bytes_per_s}};
  }
  for (const KindRates& row : report.kinds) {
    out["kinds"].push_back({{"kind", row.kind},
                            {"dtype", row.dtype},
                            {"points", row.points},
                            {"bound", row.arithmetic ? "arithmetic" : "bytes"},
                            {"best", row.best},
                            {"mean", row.mean}});
  }
  return out.dump(2);
}

}  // namespace snug

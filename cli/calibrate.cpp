// snug calibrate: measures this device, so that plans rest on what it does.
#include "snug/calibrate.h"

#include "arguments.h"
#include "base/log.h"
#include "report/calibrate_report.h"
#include "verbs.h"

namespace snug::cli {

int calibrate_verb(const std::vector<std::string>& arguments) {
  CLI::App app("measures this device, so that plans rest on what it does", "snug calibrate");
  CalibrateOptions options;
  bool json = false;
  app.add_option("--device", options.device, "auto | cpu | cuda")->capture_default_str();
  app.add_option("--threads", options.threads, "CPU threads (0: all)")->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "begin no other measurement after this long (0: 105 on a GPU, 90 on a CPU)")
      ->capture_default_str();
  app.add_option("--offload-dir", options.offload_dir,
                 "directory on a local disk: reading and writing there is measured too")
      ->capture_default_str();
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  const CalibrateReport report =
      calibrate(options, {.measured = [](const CalibrateReport& so_far, const std::string& setting,
                                         double step_ms, const std::string& why_not) {
                  log_line(calibrate_line(so_far, setting, step_ms, why_not));
                }});
  print_text(json ? calibrate_json(report) + "\n" : calibrate_table(report));
  return 0;
}

}  // namespace snug::cli

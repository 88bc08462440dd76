// snug calibrate: measures this device, so that plans rest on what it does.
#include "snug/calibrate.h"

#include "arguments.h"
#include "base/log.h"
#include "report/calibrate_report.h"
#include "settings/parse.h"
#include "snug/ranks.h"
#include "verbs.h"

namespace snug::cli {

int calibrate_verb(const std::vector<std::string>& arguments) {
  CLI::App app("measures this device, so that plans rest on what it does", "snug calibrate");
  CalibrateOptions options;
  bool json = false;
  app.add_option_function<std::string>(
         "--device",
         [&](const std::string& text) {
           options.device = parse_setting<Open<DeviceChoice>>(text, "device");
         },
         "auto | cpu | cuda")
      ->default_str(print_setting(options.device));
  app.add_option("--threads", options.threads, "CPU threads (0: all)")->capture_default_str();
  app.add_option("--seconds", options.seconds,
                 "begin no other measurement after this long (0: 105 on a GPU, 90 on a CPU)")
      ->capture_default_str();
  app.add_option("--offload-dir", options.offload_dir,
                 "directory on a local disk: reading and writing there is measured too")
      ->capture_default_str();
  app.add_option(
         "--ranks", options.ranks,
         "processes on this machine between which collectives are timed, and nothing else (0: "
         "none, or as many as mpirun, torchrun or srun has started)")
      ->capture_default_str();
  app.add_flag("--share-gpu", options.share_gpu,
               "more ranks than GPUs: several use one, for tests");
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  Options of_job;
  of_job.device = options.device;
  of_job.ranks = options.ranks;
  of_job.share_gpu = options.share_gpu;
  if (const RankRole role = rank_role(of_job); role.launches) {
    return launch_ranks(of_job, "calibrate", arguments);
  } else if (!role.prints) {
    silence_log();
    silence_results();
  }
  const CalibrateReport report =
      calibrate(options, {.measured = [](const CalibrateReport& so_far, const std::string& setting,
                                         double step_ms, const std::string& why_not) {
                  log_line(calibrate_line(so_far, setting, step_ms, why_not));
                }});
  print_text(json ? calibrate_json(report) + "\n" : calibrate_table(report));
  return 0;
}

}  // namespace snug::cli

// snug doctor: the machine, its libraries, free memory, and what is missing. --oom LOG: why a run
// ran out of memory.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "snug/inspect.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int doctor_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the machine, its libraries, free memory, and what is missing", "snug doctor");
  bool json = false;
  std::string oom;
  Options run;
  app.add_option("--oom", oom, "the log of a run that ran out of memory: what it means");
  add_plan_options(app, run);
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  run.given = names_given(app);
  if (oom.empty()) {
    std::erase(run.given, "json");
    if (!run.given.empty()) throw usage_error("--{} goes with --oom LOG", run.given.front());
    const DoctorReport report = doctor();
    print("{}", json ? report.json + "\n" : report.table);
    return 0;
  }
  const InspectReport report =
      explain_out_of_memory(oom, run.model.empty() ? std::nullopt : std::optional(run));
  print_text(json ? report.json + "\n" : report.table);
  return 0;
}

}  // namespace snug::cli

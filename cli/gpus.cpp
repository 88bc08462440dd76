// snug gpus: the GPUs that --gpu may name.
#include "arguments.h"
#include "base/log.h"
#include "report/gpus_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int gpus_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the GPUs that --gpu may name", "snug gpus");
  bool json = false;
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  print_text(json ? gpus_json(gpus()) + "\n" : gpus_table(gpus()));
  return 0;
}

}  // namespace snug::cli

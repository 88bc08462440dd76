// snug models: the built-in models.
#include "arguments.h"
#include "base/log.h"
#include "report/models_report.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int models_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the built-in models", "snug models");
  bool json = false;
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  print_text(json ? models_json(models()) + "\n" : models_table(models()));
  return 0;
}

}  // namespace snug::cli

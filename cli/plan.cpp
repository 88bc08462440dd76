// snug plan MODEL: where every byte will go, before anything runs.
#include <fmt/format.h>

#include "arguments.h"
#include "base/error.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int plan_verb(std::vector<std::string> arguments) {
  CLI::App app("where every byte will go, before anything runs", "snug plan");
  Options options;
  bool show_program = false;
  add_options(app, options, OptionUse::plan_and_train);
  app.add_flag("--program", show_program,
               "print the placed program: every op and value, lifetimes and offsets");
  if (!parse(app, std::move(arguments))) return 0;
  if (options.json && show_program) throw usage_error("--json and --program ask for two answers");

  const PlanReport report = plan(options, show_program);
  if (options.json) {
    fmt::print("{}\n", report.json);
  } else if (show_program) {
    fmt::print("{}", report.program);
  } else {
    fmt::print("{}", report.table);
  }
  return static_cast<int>(report.fits ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace snug::cli

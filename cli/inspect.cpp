// snug inspect snapshot.pickle: a memory snapshot of PyTorch, explained.
#include "snug/inspect.h"

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "verbs.h"

namespace snug::cli {

int inspect_verb(const std::vector<std::string>& arguments) {
  CLI::App app("a memory snapshot of PyTorch: the peak, whose it is, and what would be smaller",
               "snug inspect");
  InspectOptions options;
  Options run;
  bool json = false;
  app.add_option("snapshot", options.snapshot,
                 "a file of torch.cuda.memory._dump_snapshot; nothing in it is executed");
  add_plan_options(app, run);
  app.add_flag("--blocks", options.blocks, "list every block of the peak and of the end (--json)");
  app.add_flag("--json", json, "results as JSON on stdout");
  if (!parse(app, arguments)) return 0;
  if (options.snapshot.empty())
    throw usage_error("snug inspect needs a snapshot").hint(help_hint(app));
  run.given = names_given(app);
  if (!run.model.empty()) options.run = run;
  const InspectReport report = inspect(options);
  print_text(json ? report.json + "\n" : report.table);
  return 0;
}

}  // namespace snug::cli

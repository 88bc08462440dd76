// snug deepspeed FILE MODEL: DeepSpeed's configuration key by key, and the plan that it makes.
#include "snug/deepspeed.h"

#include "arguments.h"
#include "base/error.h"
#include "base/log.h"
#include "verbs.h"

namespace snug::cli {

int deepspeed_verb(const std::vector<std::string>& arguments) {
  CLI::App app("what each key of a DeepSpeed configuration does here", "snug deepspeed");
  Options options;
  std::string file;
  app.add_option("file", file, "DeepSpeed's configuration, a JSON file")->required();
  add_options(app, options, Verbs::plan);
  if (!parse(app, arguments)) return 0;
  options.given = names_given(app);
  const DeepSpeedReport report =
      deepspeed(options, file, [](const std::string& what) { show_status(what + " ..."); });
  clear_status();
  print("{}", options.json ? report.json + "\n" : report.table);
  return static_cast<int>(report.fits ? ExitCode::ok : ExitCode::does_not_fit);
}

}  // namespace snug::cli

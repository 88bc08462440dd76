#include "deepspeed_file.h"

#include "base/error.h"
#include "base/log.h"
#include "snug/deepspeed.h"

namespace snug::cli {

void add_deepspeed(CLI::App& app) {
  app.add_option("--deepspeed", "DeepSpeed's configuration, a JSON file; the command line wins")
      ->take_last();
}

void use_deepspeed(const CLI::App& app, Options& options, Quietly quietly) {
  const CLI::Option* file = app.get_option("--deepspeed");
  if (file->count() == 0) return;
  if (!options.resume.empty()) {
    throw usage_error("--deepspeed and --resume: a run that goes on has its options")
        .hint("leave one of them out");
  }
  options = with_deepspeed(options, file->as<std::string>(), [&](const std::string& line) {
    if (quietly == Quietly::no) log_line(line);
  });
}

}  // namespace snug::cli

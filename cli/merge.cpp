// snug merge MODEL --adapter DIR --out DIR: the two as one model.
#include "arguments.h"
#include "base/log.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int merge_verb(const std::vector<std::string>& arguments) {
  CLI::App app("a model and its adapter as one model that transformers opens", "snug merge");
  std::string model, adapter, directory;
  app.add_option("model", model, "directory of the adapter's base model")->required();
  app.add_option("--adapter", adapter, "directory of the adapter")->required();
  app.add_option("--out", directory, "directory for the sum")->required();
  if (!parse(app, arguments)) return 0;
  merge_adapter(model, adapter, directory,
                [](const std::string& what) { show_status(what + " ..."); });
  log_line(fmt::format("the model is in {}", directory));
  return 0;
}

}  // namespace snug::cli

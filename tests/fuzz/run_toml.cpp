// run.toml and other files for --config: what a run accepts it saves, and accepts again.
#include <CLI/CLI.hpp>

#include "arguments.h"
#include "formats/toml_file.h"
#include "fuzz/input.h"
#include "recipe/resolve.h"

namespace {

using namespace snug;

// The run that `snug train --config FILE` would make. The model is always the same, so that no
// input leads to other files.
Resolved resolve_file(std::string_view bytes) {
  static const Model model = Model::load("snug-tiny");
  CLI::App app("", "snug train");
  Options options;
  cli::add_options(app, options, Verbs::train);
  cli::parse(app, {"snug-tiny", "--device", "cpu", "--config", fuzz::as_file(bytes)});
  return resolve(options, model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file = fuzz::text(data, size);
  if (!fuzz::parse_or_refuse([&] { read_toml(file, "run.toml", {"settled"}); })) return 0;
  fuzz::parse_or_refuse([&] {
    const Resolved run = resolve_file(file);
    const std::string saved = to_toml(run, run.recipe.recompute);
    fuzz::require(fuzz::parse_or_refuse([&] { resolve_file(saved); }),
                  "a run.toml that was saved is refused");
  });
  return 0;
}

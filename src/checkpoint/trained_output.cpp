#include "checkpoint/trained_output.h"

#include <system_error>
#include <utility>

namespace snug {

void save_trained(const Resolved& run, const Module& module, const PiecesOf& pieces_of,
                  std::string run_toml, const std::filesystem::path& directory) {
  if (trained_part(run.recipe) == Part::adapter) {
    save_adapter(module, pieces_of,
                 {.directory = directory,
                  .config_json = adapter_config_json(module, run.recipe.adapters, base_name(run)),
                  .run_toml = std::move(run_toml)});
  } else {
    save_model(module, pieces_of,
               {.directory = directory,
                .config_json = run.model.config_json(saved_dtype(run.recipe)),
                .run_toml = std::move(run_toml),
                .tokenizer_from = run.model.source_dir()});
  }
}

std::string base_name(const Resolved& run) {
  std::error_code failure;
  const std::filesystem::path path = run.options.model;
  return std::filesystem::exists(path, failure) ? std::filesystem::absolute(path, failure).string()
                                                : run.options.model;
}

Spellings spellings_of(const Resolved& run, Part part) {
  if (part == Part::adapter) return {};
  return [&run](std::string_view tensor) { return run.model.spellings(tensor); };
}

}  // namespace snug

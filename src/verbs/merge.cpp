// `snug merge`: an adapter and its model become one model.
#include "checkpoint/merge.h"
#include "base/error.h"
#include "checkpoint/model_directory.h"
#include "snug/snug.h"

namespace snug {

namespace fs = std::filesystem;

void merge_adapter(const std::string& model, const std::string& adapter,
                   const std::string& directory,
                   const std::function<void(const std::string&)>& doing) {
  const Model base = Model::load(model);
  if (!base.has_weights()) {
    throw usage_error("'{}' holds no weights to add an adapter to", model)
        .hint("give the directory of the adapter's base model");
  }
  std::error_code ignored;
  if (fs::exists(fs::path(directory) / kConfigFile, ignored))
    throw usage_error("--out {} holds a model", directory).hint("give a directory of its own");
  save_merged(base, adapter, directory, doing);
}

}  // namespace snug

#include "formats/safetensors_checkpoint.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_error.h"

namespace snug {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

// The file to open for `path`: itself, or what the directory holds. Empty when the directory has no
// weights.
fs::path weights_file(const fs::path& path) {
  if (!fs::is_directory(path)) return path;
  for (const char* name : {kSingleWeightsFile, kWeightsIndexFile}) {
    if (fs::exists(path / name)) return path / name;
  }
  return {};
}

Error no_weights(const fs::path& directory) {
  Error error = bad_input("{} has neither {} nor {}", directory.string(), kSingleWeightsFile,
                          kWeightsIndexFile);
  if (!fs::exists(directory / "pytorch_model.bin")) return error;
  return std::move(error).hint(
      "its weights are a Python pickle; save them again in Python with "
      "model.save_pretrained(directory, safe_serialization=True)");
}

std::map<std::string, std::string> read_weight_map(const fs::path& index) {
  json parsed;
  try {
    parsed = json::parse(read_file(index));
  } catch (const json::exception& error) {
    throw bad_input("{} is not valid JSON: {}", index.string(), plain_words(error));
  }
  if (!parsed.is_object() || !parsed.contains("weight_map") || !parsed["weight_map"].is_object()) {
    throw bad_input("{} has no weight_map of tensor names to files", index.string());
  }
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : parsed["weight_map"].items()) {
    if (!file.is_string())
      throw bad_input("{}: the file of tensor {} is not a string", index.string(), tensor);
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

// An index comes from strangers: a shard is a plain name beside it, never a path to elsewhere.
void check_shard_name(const fs::path& index, const std::string& name) {
  const bool plain =
      !name.empty() && name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || !name.ends_with(".safetensors")) {
    throw bad_input("{}: '{}' is not the name of a .safetensors file beside it", index.string(),
                    name);
  }
}

}  // namespace

bool has_weights(const fs::path& path) {
  const fs::path file = weights_file(path);
  return !file.empty() && fs::exists(file) &&
         (file.extension() == ".safetensors" || file.filename() == kWeightsIndexFile);
}

CheckpointReader::CheckpointReader(const fs::path& path) : path_(path) {
  const fs::path file = weights_file(path);
  if (file.empty()) throw no_weights(path);
  if (file.string().ends_with(".index.json")) {
    open_shards(file);
    return;
  }
  files_.emplace_back(file);
  for (const TensorEntry& tensor : files_[0].tensors()) file_of_.emplace(tensor.name, 0);
}

void CheckpointReader::open_shards(const fs::path& index) {
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, name] : read_weight_map(index)) {
    const auto [shard, is_new] = opened.emplace(name, files_.size());
    if (is_new) {
      check_shard_name(index, name);
      files_.emplace_back(index.parent_path() / name);
    }
    file_of_.emplace(tensor, shard->second);
  }
  for (const auto& [tensor, shard] : file_of_) {
    if (!files_[shard].contains(tensor)) {
      throw bad_input("{} lists tensor {} in {}, which does not hold it", index.string(), tensor,
                      files_[shard].path().filename().string());
    }
  }
}

std::vector<std::string> CheckpointReader::names() const {
  std::vector<std::string> names;
  for (const auto& [name, file] : file_of_) names.push_back(name);
  return names;
}

const TensorEntry* CheckpointReader::find(std::string_view name) const {
  const auto at = file_of_.find(name);
  return at == file_of_.end() ? nullptr : files_[at->second].find(name);
}

}  // namespace snug

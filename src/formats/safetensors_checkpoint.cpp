#include "formats/safetensors_checkpoint.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

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

constexpr const char* kSavePretrained =
    "load it in Python with AutoModelForCausalLM.from_pretrained and save it with "
    "model.save_pretrained(directory, safe_serialization=True)";

// A form of weights that Snug does not read, and what to do about it.
struct OtherWeights {
  bool (*matches)(std::string_view file);
  const char* form;
  const char* remedy;
};

constexpr std::array<OtherWeights, 5> kOtherWeights{{
    {[](std::string_view f) { return f.starts_with("adapter_model."); }, "an adapter (LoRA)",
     "merge it into its base model in Python (model.merge_and_unload(), then save_pretrained)"},
    {[](std::string_view f) { return f.ends_with(".safetensors"); },
     "safetensors under another name than model.safetensors, or shards without their index",
     "fetch model.safetensors.index.json too, or rename a single file to model.safetensors"},
    {[](std::string_view f) {
       return (f.starts_with("pytorch_model") && f.ends_with(".bin")) || f.ends_with(".pt") ||
              f.ends_with(".pth") || f.ends_with(".ckpt");
     },
     "a Python pickle", kSavePretrained},
    {[](std::string_view f) { return f.ends_with(".gguf"); }, "GGUF, a format for inference",
     "fetch the model's own directory, with model.safetensors"},
    {[](std::string_view f) { return f.ends_with(".h5") || f.ends_with(".msgpack"); },
     "weights of TensorFlow or Flax", kSavePretrained},
}};

struct FoundWeights {
  std::string file;
  const OtherWeights* is = nullptr;
};

std::optional<FoundWeights> other_weights_in(const fs::path& directory) {
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored))
    files.push_back(entry.path().filename().string());
  std::sort(files.begin(), files.end());
  for (const OtherWeights& kind : kOtherWeights) {
    const auto found = std::find_if(files.begin(), files.end(), kind.matches);
    if (found != files.end()) return FoundWeights{*found, &kind};
  }
  return std::nullopt;
}

Error no_weights(const fs::path& directory) {
  Error error = bad_input("{} has neither {} nor {}", directory.string(), kSingleWeightsFile,
                          kWeightsIndexFile);
  const std::optional<FoundWeights> other = other_weights_in(directory);
  if (!other) return error;
  return std::move(error).hint(
      fmt::format("it has {}: {}; {}", other->file, other->is->form, other->is->remedy));
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

// An index is untrusted input: a shard is a plain name next to it, never a path to another place.
void check_shard_name(const fs::path& index, const std::string& name) {
  const bool plain =
      !name.empty() && name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
  if (!plain || !name.ends_with(".safetensors")) {
    throw bad_input("{}: '{}' is not the name of a .safetensors file next to it", index.string(),
                    name);
  }
}

}  // namespace

bool has_weights(const fs::path& path) {
  const fs::path file = weights_file(path);
  return !file.empty() && fs::exists(file) &&
         (file.extension() == ".safetensors" || file.filename() == kWeightsIndexFile);
}

std::set<std::string> shards_of(const fs::path& index) {
  std::set<std::string> shards;
  for (const auto& [tensor, file] : read_weight_map(index)) shards.insert(file);
  return shards;
}

void refuse_other_weights(const fs::path& directory) {
  const std::optional<FoundWeights> other = other_weights_in(directory);
  if (!other || has_weights(directory)) return;
  throw bad_input("{} has weights that Snug cannot read: {} is {}", directory.string(), other->file,
                  other->is->form)
      .hint(
          fmt::format("{}; or say --init scratch to begin with random weights", other->is->remedy));
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

// A model's weights as Hugging Face lays them out: one safetensors file, or shards with an index.
//
//   CheckpointReader weights("Qwen2.5-0.5B");   // a directory, an index or a .safetensors file
//   const TensorEntry* norm = weights.find("model.norm.weight");   // null when there is none
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/safetensors.h"

namespace snug {

constexpr const char* kSingleWeightsFile = "model.safetensors";
constexpr const char* kWeightsIndexFile = "model.safetensors.index.json";

// Whether a directory (or path) has weights that CheckpointReader would open.
bool has_weights(const std::filesystem::path& path);

// The files that an index names. Throws bad_input where it is none.
std::set<std::string> shards_of(const std::filesystem::path& index);

// Throws bad_input when a directory without weights that CheckpointReader would open has weights in
// another form: pickles, GGUF, an adapter, shards without their index. Says how to convert them.
void refuse_other_weights(const std::filesystem::path& directory);

class CheckpointReader {
 public:
  // Opens and checks every shard. Throws bad_input when one is missing or damaged, or lacks a
  // tensor of the index.
  explicit CheckpointReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::vector<std::string> names() const;                // sorted
  const TensorEntry* find(std::string_view name) const;  // as SafetensorsFile::find

 private:
  void open_shards(const std::filesystem::path& index);

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, size_t, std::less<>> file_of_;  // tensor -> index into files_
};

}  // namespace snug

#include "formats/safetensors_writer.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "base/error.h"
#include "base/staged_file.h"
#include "base/units.h"
#include "formats/safetensors.h"
#include "formats/safetensors_checkpoint.h"

namespace snug {
namespace {

using nlohmann::json;
using Shard = std::vector<const TensorToWrite*>;

// Wide elements first: every tensor then begins at a multiple of its element's size.
void order_for_alignment(Shard& shard) {
  std::stable_sort(shard.begin(), shard.end(), [](const TensorToWrite* a, const TensorToWrite* b) {
    return size_of(a->type.dtype) > size_of(b->type.dtype);
  });
}

// The length and the JSON, padded with spaces so that the data begins at a multiple of 8.
std::string header_of(const Shard& shard) {
  json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t begin = 0;
  for (const TensorToWrite* tensor : shard) {
    const int64_t end = checked_add(begin, tensor->type.bytes(), "a safetensors file");
    header[tensor->name] = {{"dtype", file_dtype_name(tensor->type.dtype)},
                            {"shape", tensor->type.shape.dims()},
                            {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize(static_cast<size_t>(round_up(static_cast<int64_t>(text.size()), 8)), ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i));
  return length + text;
}

void write_shard(StagedFile& file, Shard shard) {
  order_for_alignment(shard);
  file.write(header_of(shard));
  for (const TensorToWrite* tensor : shard) {
    const int64_t expected = file.written() + tensor->type.bytes();
    tensor->bytes([&](std::span<const std::byte> bytes) { file.write(bytes); });
    if (file.written() != expected) {
      throw internal_error("tensor {} {} gave {} bytes too many to {}", tensor->name,
                           tensor->type.text(), file.written() - expected, file.target().string());
    }
  }
  file.sync();
}

void check_names(std::span<const TensorToWrite> tensors) {
  std::unordered_set<std::string_view> names;
  for (const TensorToWrite& tensor : tensors) {
    if (!names.insert(tensor.name).second)
      throw internal_error("tensor {} is saved twice", tensor.name);
  }
}

std::vector<Shard> cut_into_shards(std::span<const TensorToWrite> tensors, int64_t max_bytes) {
  std::vector<Shard> shards(1);
  int64_t filled = 0;
  for (const TensorToWrite& tensor : tensors) {
    const int64_t bytes = tensor.type.bytes();
    if (!shards.back().empty() && bytes > max_bytes - filled) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(&tensor);
    filled = checked_add(filled, bytes, "a safetensors file");
  }
  return shards;
}

std::string shard_name(std::string_view prefix, size_t index, size_t count) {
  if (count == 1) return kSingleWeightsFile;
  return fmt::format("{}-{:05}-of-{:05}.safetensors", prefix, index + 1, count);
}

std::string index_text(const std::vector<Shard>& shards, std::string_view prefix) {
  json weight_map = json::object();
  int64_t total = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const TensorToWrite* tensor : shards[i]) {
      weight_map[tensor->name] = shard_name(prefix, i, shards.size());
      total += tensor->type.bytes();
    }
  }
  const json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  return index.dump(2) + "\n";
}

}  // namespace

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors) {
  check_names(tensors);
  Shard all;
  for (const TensorToWrite& tensor : tensors) all.push_back(&tensor);
  StagedFile file(path);
  write_shard(file, all);
  file.commit();
}

void write_checkpoint(const std::filesystem::path& directory,
                      std::span<const TensorToWrite> tensors, int64_t max_shard_bytes,
                      std::string_view shard_prefix) {
  check_names(tensors);
  const std::vector<Shard> shards = cut_into_shards(tensors, max_shard_bytes);
  std::vector<StagedFile> files;
  for (size_t i = 0; i < shards.size(); ++i) {
    files.emplace_back(directory / shard_name(shard_prefix, i, shards.size()));
    write_shard(files.back(), shards[i]);
  }
  if (shards.size() > 1) {
    files.emplace_back(directory / kWeightsIndexFile);
    files.back().write(index_text(shards, shard_prefix));
  }
  for (StagedFile& file : files) file.commit();
  sync_directory(directory);
}

}  // namespace snug

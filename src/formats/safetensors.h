// safetensors, read: every number of the header is checked before the first tensor is used, and
// tensors are read where and when they are asked for.
//
//   SafetensorsFile file("model.safetensors");
//   const TensorEntry* weight = file.find("lm_head.weight");   // null when there is none
//   weight->read(0, first_row);   // *weight->dtype; bytes 0 and on of weight->bytes
//
// Layout: u64 N, N bytes of JSON {name: {dtype, shape, data_offsets}}, then the tensors' bytes with
// no hole and no overlap.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/file_reader.h"
#include "ir/type.h"

namespace snug {

// An element type as the file spells it. Some have no counterpart in a program; some are smaller
// than a byte.
struct FileDtype {
  std::string_view name;  // "BF16"
  int64_t bits = 0;
  std::optional<Dtype> dtype;  // none: Snug does not compute with it
};
const FileDtype* find_file_dtype(std::string_view name);  // null when unknown
std::string_view file_dtype_name(Dtype dtype);

struct TensorEntry {
  std::string name;
  std::string_view file_dtype;  // "BF16"
  std::optional<Dtype> dtype;   // always there in what find() returns
  Shape shape;
  int64_t bytes = 0;  // little-endian, row-major
  int64_t begin = 0;  // of the file's bytes
  std::shared_ptr<const FileReader> file;

  // Its bytes from `at` on, which are inside it. Throws bad_input where the file is shorter by now.
  void read(int64_t at, std::span<std::byte> out) const { file->read(begin + at, out); }
};

class SafetensorsFile {
 public:
  // Throws bad_input, naming file, tensor and numbers, when anything in the header is wrong.
  explicit SafetensorsFile(std::filesystem::path path);

  const std::filesystem::path& path() const { return file_->path(); }
  // In the order of their bytes.
  const std::vector<TensorEntry>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  bool contains(std::string_view name) const { return by_name_.contains(name); }
  // Null when there is none. Throws bad_input when Snug does not compute with its dtype.
  const TensorEntry* find(std::string_view name) const;

 private:
  std::shared_ptr<const FileReader> file_;
  std::vector<TensorEntry> tensors_;
  std::unordered_map<std::string_view, size_t>
      by_name_;  // index into tensors_; keys view its names
  std::map<std::string, std::string> metadata_;
};

}  // namespace snug

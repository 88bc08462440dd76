// A file's bytes, read-only, mapped into memory: read when they are used, copied nowhere.
//
//   MappedFile file("model.safetensors");
//   std::span<const std::byte> bytes = file.bytes();   // stays valid when `file` is moved
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace snug {

class MappedFile {
 public:
  // Throws bad_input when the path is missing, a directory or unreadable.
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace snug

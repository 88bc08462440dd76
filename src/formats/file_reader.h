// A file's bytes, read where they are asked for. Unlike a mapping, a file that was truncated after
// it was opened is an error with a sentence, not a signal.
//
//   FileReader file("train.bin");
//   file.read(1024, buffer);   // bytes 1024 and on, all of them or bad_input
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>

namespace snug {

class FileReader {
 public:
  // Throws bad_input when the path is missing, unreadable or not a regular file.
  explicit FileReader(std::filesystem::path path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }
  int64_t size() const { return size_; }  // in bytes, when it was opened
  int descriptor() const { return fd_; }

  // Fills `out` from byte `offset` on. Throws bad_input where the file is shorter by now. Allocates
  // nothing.
  void read(int64_t offset, std::span<std::byte> out) const;

  // Visits the file from byte `offset` to its end in blocks of kBlock bytes, the last one shorter.
  // The visitor returns false to stop.
  static constexpr size_t kBlock = size_t{1} << 20;
  void each_block(int64_t offset,
                  const std::function<bool(int64_t at, std::span<const std::byte>)>& visit) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace snug

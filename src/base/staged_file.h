// A file that appears only when it is complete: bytes go to a temporary file in the target's
// directory and reach the disk before commit() renames it. Dropped without commit, it leaves
// no file. Large ones reach the disk while they are written, and do not stay in memory.
//
//   StagedFile file("out/model.safetensors");
//   file.write(header);
//   file.write(data);
//   file.commit();
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

#include "base/error.h"

namespace snug {

class StagedFile {
 public:
  // Throws bad_input when the directory cannot be written; so does write() when the disk is full.
  explicit StagedFile(std::filesystem::path target);
  ~StagedFile();
  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;

  const std::filesystem::path& target() const { return target_; }
  int64_t written() const { return written_; }

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Puts other bytes in the place of some that were written: a header, when its counts are known.
  void rewrite(int64_t offset, std::span<const std::byte> bytes);
  void sync();    // the bytes are on the disk; no more may be written
  void commit();  // sync, then rename onto the target

  // So many bytes of a large file are sent to the disk at once.
  static constexpr int64_t kWindow = int64_t{32} << 20;

 private:
  void send_window();

  std::filesystem::path target_;
  std::filesystem::path part_;
  int fd_ = -1;
  int64_t written_ = 0;
  int64_t sent_ = 0;  // of these: on their way to the disk, or there
};

// What a file that cannot be written is refused with. `reason`: an errno.
Error cannot_write(const std::filesystem::path& path, int reason);

// Makes renames and new names in a directory survive a power cut. Throws bad_input where the disk
// fails; nothing happens where the file system or the permissions do not allow it.
void sync_directory(const std::filesystem::path& directory);

}  // namespace snug

// The directory of --out, held for one run: made, proved writable, and locked against a second run.
//
//   OutputDirectory out("runs/a");          // refused where another training has it
//   out.require_space(weights_bytes);       // refused where the disk is too small for them
//   save_model(..., {.directory = out.path()});
//
// The lock is a file lock: it ends with the process, however that ends, and it goes along when a
// save exchanges the directory. A run that saves nothing leaves no trace; what an interrupted one
// left is removed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace snug {

// Where saves are prepared before they move into place; an interrupted save leaves such a folder.
constexpr const char* kSavingPrefix = ".saving";

// Does a training hold the directory now?
bool is_held(const std::filesystem::path& directory);

class OutputDirectory {
 public:
  // Throws a usage error where the directory cannot be made, written or locked.
  explicit OutputDirectory(const std::filesystem::path& path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Throws bad_input where the file system has less free than `bytes` and what goes along with
  // them.
  void require_space(int64_t bytes) const;

 private:
  void make();
  void lock();
  void remove_what_was_made();

  std::filesystem::path path_;
  std::vector<std::filesystem::path> made_;  // directories that were not there, outermost first
  int fd_ = -1;                              // of the lock file
};

}  // namespace snug

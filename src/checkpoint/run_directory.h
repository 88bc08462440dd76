// A run's checkpoints in its --out directory, each a folder that is there whole or not at all:
//
//   runs/a/step-00000100/manifest.json, state.safetensors
//   runs/a/step-00000200/...
//   runs/a/latest                       "step-00000200"
//
//   StagedCheckpoint staged("runs/a", 300);
//   write_into(staged.folder());
//   staged.commit();                                    // on disk, named, and `latest`
//   remove_old_checkpoints("runs/a", {.run = id, .keep = 2});
//
// A checkpoint is written in a hidden folder whose files and names are made durable before one
// rename shows it, and `latest` names it only after that.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/run_manifest.h"

namespace snug {

constexpr const char* kManifestFile = "manifest.json";
constexpr const char* kLatestFile = "latest";

std::string checkpoint_name(int64_t step);                         // "step-00000100"
std::optional<int64_t> step_of_checkpoint(std::string_view name);  // none: it is no such name

// Folders of that name with a manifest, by step. Links are none of ours.
std::vector<std::filesystem::path> checkpoints_in(const std::filesystem::path& directory);
int64_t last_step_in(const std::filesystem::path& directory);  // 0: there is none
bool is_latest(const std::filesystem::path& checkpoint);       // of those next to it
RunManifest read_manifest(const std::filesystem::path& checkpoint);

// The checkpoint that a path means: itself, or what `latest` in it names. Throws bad_input where
// that is none, naming the newest that there is.
std::filesystem::path find_checkpoint(const std::filesystem::path& path);

class StagedCheckpoint {
 public:
  StagedCheckpoint(std::filesystem::path directory, int64_t step);
  ~StagedCheckpoint();  // not committed: leaves nothing
  StagedCheckpoint(const StagedCheckpoint&) = delete;
  StagedCheckpoint& operator=(const StagedCheckpoint&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  // Takes the place of a checkpoint of that step. Throws bad_input where the file system refuses;
  // what was there before is untouched then.
  std::filesystem::path commit();

 private:
  std::filesystem::path directory_, folder_;
  std::string name_;
};

struct Retention {
  std::string run;         // only its own checkpoints are removed
  int64_t keep = 2;        // the newest
  int64_t keep_every = 0;  // and those of every so many steps
  bool others = false;     // those of other runs are removed, all of them
};
// Never what `latest` names, nor later steps of the run: it went back, and may replace them.
void remove_old_checkpoints(const std::filesystem::path& directory, const Retention& retention);

}  // namespace snug

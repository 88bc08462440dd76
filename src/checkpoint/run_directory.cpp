#include "checkpoint/run_directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <random>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/notes.h"
#include "base/number.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "checkpoint/output_directory.h"
#include "formats/file_reader.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kStep = "step-";
constexpr size_t kDigits = 8;
constexpr int64_t kMaxManifest = int64_t{1} << 28;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() == fs::file_type::directory;
}

bool is_checkpoint(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(path / kManifestFile, ignored));
}

std::string text_of(const fs::path& path, int64_t most) {
  const FileReader file(path);
  if (file.size() > most)
    throw bad_input("{} has {} bytes, far too many", path.string(), file.size());
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

fs::path hidden_folder(const fs::path& directory) {
  std::random_device random;
  while (true) {
    fs::path name = directory / fmt::format("{}-{}-{:08x}", kSavingPrefix, ::getpid(), random());
    if (::mkdir(name.c_str(), 0777) == 0) return name;
    if (errno != EEXIST) throw cannot_write(directory, errno);
  }
}

// Gone at once, by one rename; its bytes after that is sure. What cannot be removed stays, and is
// said: the new checkpoint is there.
void remove_checkpoint(const fs::path& checkpoint) {
  std::error_code ignored;
  try {
    const fs::path folder = hidden_folder(checkpoint.parent_path());
    const bool hidden = ::rename(checkpoint.c_str(), folder.c_str()) == 0;
    const Error why = cannot_write(checkpoint, errno);
    if (hidden) sync_directory(checkpoint.parent_path());
    fs::remove_all(folder, ignored);
    if (!hidden) throw why;
  } catch (const Error& e) {
    note("an old checkpoint stays: {}", e.what());
  }
}

// The name in `latest`; empty where there is none.
std::string latest_in(const fs::path& directory) {
  std::error_code ignored;
  const fs::path file = directory / kLatestFile;
  if (!fs::exists(fs::symlink_status(file, ignored))) return "";
  const std::string text = text_of(file, 4096);
  std::string name(trim(text));
  if (!step_of_checkpoint(name))
    throw bad_input("{} says '{}', which is no name of a checkpoint", file.string(),
                    printable(name));
  return name;
}

std::string others_hint(const fs::path& directory) {
  const std::vector<fs::path> there = checkpoints_in(directory);
  return there.empty()
             ? "there is no complete checkpoint in it"
             : fmt::format("the newest complete one is --resume {}", there.back().string());
}

}  // namespace

std::string checkpoint_name(int64_t step) { return fmt::format("{}{:0{}}", kStep, step, kDigits); }

std::optional<int64_t> step_of_checkpoint(std::string_view name) {
  int64_t step = 0;
  if (!name.starts_with(kStep) || !read_number(name.substr(kStep.size()), step) || step < 0 ||
      name != checkpoint_name(step))
    return std::nullopt;
  return step;
}

std::vector<fs::path> checkpoints_in(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(directory, failure)) {
    const std::string name = entry.path().filename().string();
    if (step_of_checkpoint(name) && is_folder(entry.path()) && is_checkpoint(entry.path()))
      found.push_back(directory / name);
  }
  std::ranges::sort(
      found, {}, [](const fs::path& path) { return step_of_checkpoint(path.filename().string()); });
  return found;
}

int64_t last_step_in(const fs::path& directory) {
  const auto checkpoints = checkpoints_in(directory);
  return checkpoints.empty() ? 0 : *step_of_checkpoint(checkpoints.back().filename().string());
}

bool is_latest(const fs::path& checkpoint) {
  const fs::path path = fs::absolute(checkpoint);
  try {
    return latest_in(path.parent_path()) == path.filename();
  } catch (const Error&) {
    return false;
  }
}

RunManifest read_manifest(const fs::path& checkpoint) {
  const fs::path file = checkpoint / kManifestFile;
  return parse_manifest(text_of(file, kMaxManifest), file.string());
}

fs::path find_checkpoint(const fs::path& path) {
  std::error_code failure;
  if (!fs::is_directory(path, failure))
    throw bad_input("--resume {}: there is no such directory", path.string());
  if (is_checkpoint(path)) return path;
  std::string name;
  try {
    name = latest_in(path);
  } catch (const Error& e) {
    throw bad_input("--resume {}: {}", path.string(), e.what()).hint(others_hint(path));
  }
  if (name.empty())
    throw bad_input("--resume {}: it has no '{}', so no run has saved a checkpoint there",
                    path.string(), kLatestFile)
        .hint(others_hint(path));
  if (!is_checkpoint(path / name)) {
    throw bad_input("--resume {}: '{}' names {}, which is not there, or not whole", path.string(),
                    kLatestFile, name)
        .hint(others_hint(path));
  }
  return path / name;
}

StagedCheckpoint::StagedCheckpoint(fs::path directory, int64_t step)
    : directory_(std::move(directory)),
      folder_(hidden_folder(directory_)),
      name_(checkpoint_name(step)) {}

StagedCheckpoint::~StagedCheckpoint() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

fs::path StagedCheckpoint::commit() {
  sync_directory(folder_);
  fs::path target = directory_ / name_;
  if (::rename(folder_.c_str(), target.c_str()) == 0) {
    folder_.clear();
  } else if (::renameat2(AT_FDCWD, folder_.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) !=
             0) {
    throw cannot_write(target, errno);  // else the hidden folder holds what was there, and goes
  }
  sync_directory(directory_);
  StagedFile latest(directory_ / kLatestFile);
  latest.write(name_ + "\n");
  latest.commit();
  sync_directory(directory_);
  return target;
}

void remove_old_checkpoints(const fs::path& directory, const Retention& retention) {
  const std::string latest = latest_in(directory);
  const std::optional<int64_t> latest_step = step_of_checkpoint(latest);
  std::vector<fs::path> own, others;
  for (const fs::path& path : checkpoints_in(directory)) {
    const auto manifest = [&]() -> std::optional<RunManifest> {
      try {
        return read_manifest(path);
      } catch (const Error&) {
        return std::nullopt;  // not ours to judge, so not ours to remove
      }
    }();
    if (!manifest || path.filename() == latest) continue;
    // Of a run that went back: later than all that it has done since.
    if (manifest->run == retention.run && latest_step && manifest->step > *latest_step) continue;
    (manifest->run == retention.run ? own : others).push_back(path);
  }
  const auto stays = [&](size_t i) {
    const int64_t step = *step_of_checkpoint(own[i].filename().string());
    const bool newest = static_cast<int64_t>(own.size() - i) < retention.keep;  // and `latest`
    return newest || (retention.keep_every > 0 && step % retention.keep_every == 0);
  };
  for (size_t i = 0; i < own.size(); ++i)
    if (!stays(i)) remove_checkpoint(own[i]);
  if (!retention.others) return;
  for (const fs::path& path : others) remove_checkpoint(path);
}

}  // namespace snug

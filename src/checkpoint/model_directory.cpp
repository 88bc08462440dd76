#include "checkpoint/model_directory.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/notes.h"
#include "base/staged_file.h"
#include "base/text.h"
#include "checkpoint/output_directory.h"
#include "formats/peft_config.h"
#include "formats/safetensors_checkpoint.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReplaced = "replaced";  // in the folder of a save: what it set aside
constexpr size_t kDrawn = 8;                   // hexadecimal digits of a name of our own

std::string drawn_name() { return fmt::format("{:08x}", std::random_device()()); }

bool is_drawn(std::string_view text) {
  return text.size() == kDrawn &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(path, ignored));
}

// No link to one.
bool is_own_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

// The file that readers open first: a directory with it holds a model or an adapter.
const char* config_of(Part as) { return as == Part::adapter ? kAdapterConfigFile : kConfigFile; }

bool is_weights(Part as, std::string_view name) {
  if (as == Part::adapter) return name == kAdapterWeightsFile;
  return name == kSingleWeightsFile || name == kWeightsIndexFile ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}
bool is_model_weights(std::string_view name) { return is_weights(Part::model, name); }
bool is_adapter_weights(std::string_view name) { return is_weights(Part::adapter, name); }

bool belongs_to_a_save(std::string_view name) {
  return is_model_weights(name) || is_adapter_weights(name) || goes_with_a_model(name) ||
         name == kConfigFile || name == kAdapterConfigFile || name == kRunFile ||
         name == kLockFile || name.starts_with(kSavingPrefix);
}

// The name that readers open first: it says which weights count. Empty where there are none.
std::string entry_of_weights(Part as, const fs::path& folder) {
  if (as == Part::adapter) return is_there(folder / kAdapterWeightsFile) ? kAdapterWeightsFile : "";
  for (const char* name : {kSingleWeightsFile, kWeightsIndexFile})
    if (is_there(folder / name)) return name;
  return "";
}

// All of them, or an error: half a list would be half a model.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code failure;
  for (fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure))
    entries.push_back(at->path());
  if (failure) throw bad_input("cannot read {}: {}", folder.string(), failure.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

void move_to(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw cannot_write(to, errno);
}

void make_folder(const fs::path& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0) throw cannot_write(folder, errno);
}

// Renames that are undone unless they are kept.
class Moves {
 public:
  Moves() = default;
  ~Moves() {
    for (auto last = made_.rbegin(); last != made_.rend(); ++last)
      ::rename(last->to.c_str(), last->from.c_str());
  }
  Moves(const Moves&) = delete;
  Moves& operator=(const Moves&) = delete;

  void make(const fs::path& from, const fs::path& to) {
    move_to(from, to);
    made_.push_back({from, to});
  }
  void keep() { made_.clear(); }

 private:
  struct Move {
    fs::path from, to;
  };
  std::vector<Move> made_;
};

// Makes `to` look like `from` to other users of the machine, as far as this one may.
void take_permissions(const fs::path& from, const fs::path& to) {
  struct stat old {};
  if (::stat(from.c_str(), &old) != 0) return;
  if (::chown(to.c_str(), old.st_uid, old.st_gid) != 0)
    note("{}: the folder's owner is now this user", from.string());
  ::chmod(to.c_str(), old.st_mode & 07777);
}

using LeftOut = std::function<bool(std::string_view name)>;
bool nothing(std::string_view /*name*/) { return false; }

// The same files in another folder, under second names; a folder becomes a folder of such names.
// Existing files stay; those that cannot have a second name are left out.
void link_into(const fs::path& from, const fs::path& to, const LeftOut& left_out) {
  for (const fs::path& entry : entries_of(from)) {
    const fs::path copy = to / entry.filename();
    if (left_out(entry.filename().string())) continue;
    if (!is_own_folder(entry)) {
      if (::link(entry.c_str(), copy.c_str()) != 0 && errno != EEXIST)
        note("{} cannot have a second name: {}", entry.string(), std::strerror(errno));
    } else if (::mkdir(copy.c_str(), 0777) == 0) {
      take_permissions(entry, copy);
      link_into(entry, copy, nothing);
    }
  }
  sync_directory(to);
}

// Moves the files that `from` has and `to` has not.
void move_rest(const fs::path& from, const fs::path& to, const LeftOut& left_out) {
  for (const fs::path& entry : entries_of(from)) {
    if (left_out(entry.filename().string())) continue;
    const fs::path there = to / entry.filename();
    if (!is_there(there))
      move_to(entry, there);
    else if (is_own_folder(entry) && is_own_folder(there))
      move_rest(entry, there, nothing);
  }
  sync_directory(to);
}

// A save that was interrupted before its commit gives back what it had set aside; after it, it
// still owes run.toml.
void settle(const fs::path& saving, const fs::path& directory) {
  const Part as = is_there(saving / kAdapterConfigFile) ? Part::adapter : Part::model;
  if (!is_there(directory / config_of(as)) || !entry_of_weights(as, saving).empty()) {
    if (is_own_folder(saving / kReplaced)) move_rest(saving / kReplaced, directory, nothing);
  } else if (is_there(saving / kRunFile) && !is_there(directory / kRunFile)) {
    move_to(saving / kRunFile, directory / kRunFile);
    sync_directory(directory);
  }
}

// Shards of a save that did not come to its commit: named as saves name them, and by no index.
void remove_shards_without_index(const fs::path& directory) {
  std::set<std::string> named;
  try {
    if (is_there(directory / kWeightsIndexFile)) named = shards_of(directory / kWeightsIndexFile);
  } catch (const Error&) {
    return;  // an index that cannot be read: the owner of the shards is unknown
  }
  for (const std::string& name : files_in(directory)) {
    constexpr std::string_view kModel = "model-";
    const bool ours = is_model_weights(name) && name.size() > kModel.size() + kDrawn &&
                      is_drawn(std::string_view(name).substr(kModel.size(), kDrawn)) &&
                      name[kModel.size() + kDrawn] == '-';
    if (ours && !named.contains(name)) ::unlink((directory / name).c_str());
  }
}

}  // namespace

bool goes_with_a_model(std::string_view file) {
  constexpr std::array<std::string_view, 6> known{"vocab.json",        "vocab.txt",
                                                  "merges.txt",        "special_tokens_map.json",
                                                  "added_tokens.json", kGenerationConfigFile};
  return std::find(known.begin(), known.end(), file) != known.end() || file.ends_with(".model") ||
         (file.starts_with("tokenizer") && file.ends_with(".json")) ||
         file.starts_with("chat_template");
}

std::vector<std::string> files_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const fs::path& entry : entries_of(folder))
    if (fs::is_regular_file(entry, failure)) names.push_back(entry.filename().string());
  return names;
}

StagedModel::StagedModel(const fs::path& directory, Part as)
    : as_(as), directory_(directory), shard_prefix_("model-" + drawn_name()) {
  std::error_code failure;
  is_new_ = fs::create_directories(directory, failure);
  // A link to the directory stays one when the directory is exchanged.
  if (!failure) directory_ = fs::canonical(directory, failure);
  if (failure) throw cannot_write(directory, failure.value());
  try {
    const fs::path folder = directory_ / fmt::format("{}-{}", kSavingPrefix, drawn_name());
    make_folder(folder);
    folder_ = folder;
  } catch (...) {
    if (is_new_) ::rmdir(directory_.c_str());
    throw;
  }
}

StagedModel::~StagedModel() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
  if (is_new_) ::rmdir(directory_.c_str());  // only when nothing was moved into it
}

void StagedModel::write(std::string_view name, std::string_view text) const {
  StagedFile file(folder_ / name);
  file.write(text);
  file.commit();
}

void StagedModel::commit() {
  sync_directory(folder_);
  if (!is_there(directory_ / config_of(as_)))
    fill();
  else if (only_weights_differ())
    replace_weights();
  else
    exchange();
}

bool StagedModel::same_content(const std::string& name) const {
  std::error_code ignored;
  return fs::is_regular_file(directory_ / name, ignored) &&
         read_file(directory_ / name) == read_file(folder_ / name);
}

bool StagedModel::only_weights_differ() const {
  const std::string old = entry_of_weights(as_, directory_);
  if (!old.empty() && old != entry_of_weights(as_, folder_)) return false;
  const std::vector<std::string> names = files_in(folder_);
  return std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return is_weights(as_, name) || name == kRunFile || same_content(name);
  });
}

// Makes the folder for replaced files, durable before they move into it.
void StagedModel::prepare_replacing() const {
  make_folder(folder_ / kReplaced);
  sync_directory(folder_);
  sync_directory(directory_);
}

// There is no model until config.json comes. Weights without one are not a model, but they would
// be taken for the new one's.
void StagedModel::fill() {
  const std::vector<std::string> names = files_in(folder_);
  prepare_replacing();
  Moves moves;
  const auto set_aside = [&](const std::string& name) {
    if (is_there(directory_ / name)) moves.make(directory_ / name, folder_ / kReplaced / name);
  };
  for (const std::string& old : files_in(directory_))
    if (is_weights(as_, old)) set_aside(old);
  for (const std::string& name : names) {
    if (name == config_of(as_)) continue;
    set_aside(name);
    moves.make(folder_ / name, directory_ / name);
  }
  sync_directory(directory_);
  sync_directory(directory_.parent_path());  // which may not know the directory's name yet
  moves.make(folder_ / config_of(as_), directory_ / config_of(as_));
  moves.keep();
  sync_directory(directory_);
}

void StagedModel::replace_weights() {
  const std::vector<std::string> names = files_in(folder_);
  const std::string entry = entry_of_weights(as_, folder_);
  const bool other_run = is_there(folder_ / kRunFile) && !same_content(kRunFile);
  Moves moves;
  for (const std::string& name : names)
    if (is_weights(as_, name) && name != entry) moves.make(folder_ / name, directory_ / name);
  if (other_run && is_there(directory_ / kRunFile)) {
    prepare_replacing();
    moves.make(directory_ / kRunFile, folder_ / kReplaced / kRunFile);
  }
  sync_directory(directory_);
  move_to(folder_ / entry, directory_ / entry);  // the commit
  moves.keep();
  const fs::path staged = std::exchange(folder_, {});  // where this fails, the next run goes on
  sync_directory(directory_);                          // before the old weights go
  if (other_run) move_to(staged / kRunFile, directory_ / kRunFile);
  for (const std::string& old : files_in(directory_)) {
    const bool is_new = std::find(names.begin(), names.end(), old) != names.end();
    if (is_weights(as_, old) && !is_new) ::unlink((directory_ / old).c_str());
  }
  sync_directory(directory_);
  folder_ = staged;
}

namespace {

constexpr const char* kExchangeHint =
    "a model with another config.json, tokenizer or layout of weights needs the whole directory "
    "exchanged: move it by hand, or give --out a directory of its own";

void refuse_working_directory(const fs::path& directory) {
  std::error_code failure;
  if (fs::equivalent(fs::current_path(failure), directory, failure))
    throw bad_input("it is the working directory of this run");
}

// A name that remove_interrupted_saves knows.
fs::path drawn_sibling(const fs::path& directory) {
  return directory.parent_path() /
         fmt::format("{}-{}-{}", kSavingPrefix, directory.filename().string(), drawn_name());
}

void exchange_folders(const fs::path& a, const fs::path& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) != 0)
    throw bad_input("cannot exchange it with {}: {}", a.string(), std::strerror(errno));
}

// Exchanges two empty folders next to it; throws where that fails.
void try_exchange_next_to(const fs::path& directory) {
  struct Folder {
    explicit Folder(fs::path p) : path(std::move(p)) { make_folder(path); }
    ~Folder() { ::rmdir(path.c_str()); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    fs::path path;
  };
  const Folder a(drawn_sibling(directory)), b(drawn_sibling(directory));
  exchange_folders(a.path, b.path);
}

}  // namespace

void require_replaceable(const fs::path& directory, std::string_view config_json, bool in_shards,
                         Part as) {
  std::error_code failure;
  const std::string old = entry_of_weights(as, directory);
  const bool same_layout = old.empty() || in_shards == (old == kWeightsIndexFile);
  if (!is_there(directory / config_of(as)) ||
      (same_layout && read_file(directory / config_of(as)) == config_json))
    return;
  const fs::path target = fs::canonical(directory, failure);
  try {
    refuse_working_directory(target);
    try_exchange_next_to(target);
  } catch (const Error& error) {
    throw bad_input("the model in {} could not be replaced by this one at the end: {}",
                    directory.string(), error.what())
        .hint(kExchangeHint);
  }
}

// The folder moves next to the directory, with second names of all that stays.
void StagedModel::prepare_exchange() {
  refuse_working_directory(directory_);
  take_permissions(directory_, folder_);
  const fs::path parent = directory_.parent_path();
  const fs::path sibling = drawn_sibling(directory_);
  move_to(folder_, sibling);
  folder_ = sibling;
  const LeftOut replaced = as_ == Part::adapter ? is_adapter_weights : is_model_weights;
  link_into(directory_, folder_, [&](std::string_view name) {
    return replaced(name) || name.starts_with(kSavingPrefix);
  });
  sync_directory(parent);
}

void StagedModel::exchange() {
  const std::vector<std::string> names = files_in(folder_);
  try {
    prepare_exchange();
    exchange_folders(folder_, directory_);
  } catch (const Error& error) {
    for (const fs::path& entry : entries_of(folder_)) {
      std::error_code ignored;
      if (std::find(names.begin(), names.end(), entry.filename()) == names.end())
        fs::remove_all(entry, ignored);
    }
    keep_next_to_the_old(error.what());
  }
  // The folder is the old model's now, and goes when it is sure that the new one stays.
  const fs::path old = std::exchange(folder_, {});
  sync_directory(directory_.parent_path());
  move_rest(old, directory_, as_ == Part::adapter ? is_adapter_weights : is_model_weights);
  folder_ = old;
}

void StagedModel::keep_next_to_the_old(std::string_view why) {
  const fs::path kept = directory_ / ("new-model-" + drawn_name());
  if (::rename(folder_.c_str(), kept.c_str()) == 0) folder_ = kept;
  throw bad_input("cannot replace the model in {}: {}; the new one is in {}", directory_.string(),
                  why, std::exchange(folder_, {}).string())
      .hint(kExchangeHint);
}

void remove_interrupted_saves(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::path& entry : entries_of(directory)) {
    if (!entry.filename().string().starts_with(kSavingPrefix)) continue;
    if (is_own_folder(entry)) settle(entry, directory);
    fs::remove_all(entry, ignored);
  }
  remove_shards_without_index(directory);

  const fs::path target = fs::canonical(directory, ignored);
  if (::access(target.parent_path().c_str(), R_OK) != 0) return;  // nothing was exchanged there
  const std::string beginning = fmt::format("{}-{}-", kSavingPrefix, target.filename().string());
  for (const fs::path& entry : entries_of(target.parent_path())) {
    const std::string name = entry.filename().string();
    if (!name.starts_with(beginning) || !is_drawn(name.substr(beginning.size()))) continue;
    if (!is_own_folder(entry)) continue;  // a link may lead anywhere
    move_rest(entry, target, belongs_to_a_save);
    fs::remove_all(entry, ignored);
  }
}

}  // namespace snug

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <map>

#include "base/error.h"
#include "base/staged_file.h"
#include "base/units.h"
#include "train/checkpoint.h"
#include "train/output_directory.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "config.json";
constexpr const char* kRunToml = "run.toml";
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr std::string_view kDefaultGenerationConfig = "{\n  \"_from_model_config\": true\n}\n";

[[noreturn]] void cannot_write(const fs::path& path, const std::error_code& why) {
  throw bad_input("cannot write {}: {}", path.string(), why.message());
}

bool is_weights(std::string_view name) {
  return name == kSingleWeightsFile || name == kWeightsIndexFile ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

// What accompanies a model's weights and does not depend on them.
bool goes_along(std::string_view name) {
  constexpr std::array<std::string_view, 6> known{"vocab.json",        "vocab.txt",
                                                  "merges.txt",        "special_tokens_map.json",
                                                  "added_tokens.json", kGenerationConfig};
  return std::find(known.begin(), known.end(), name) != known.end() || name.ends_with(".model") ||
         (name.starts_with("tokenizer") && name.ends_with(".json")) ||
         name.starts_with("chat_template");
}

std::vector<std::string> files_in(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(directory, failure)) {
    if (entry.is_regular_file(failure)) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A hidden folder in the target directory, whose files move into place together.
class Staging {
 public:
  explicit Staging(fs::path target) : target_(std::move(target)) {
    std::error_code failure;
    is_new_ = fs::create_directories(target_, failure);
    if (failure) cannot_write(target_, failure);
    std::string name = (target_ / fmt::format("{}-{}-XXXXXX", kSavingPrefix, ::getpid())).string();
    if (::mkdtemp(name.data()) == nullptr)
      cannot_write(target_, std::error_code(errno, std::generic_category()));
    folder_ = name;
    fs::create_directory(replaced(), failure);
    if (failure) cannot_write(target_, failure);
  }
  ~Staging() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    if (is_new_) fs::remove(target_, ignored);  // only when nothing was moved into it
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  const fs::path& folder() const { return folder_; }

  void write(const char* name, std::string_view text) const {
    StagedFile file(folder_ / name);
    file.write(text);
    file.commit();
  }

  void move_into_place() const {
    const std::vector<std::string> names = files_in(folder_);
    std::vector<Move> made;
    try {
      set_aside(kConfig, made);
      sync_directory(target_);
      for (const std::string& old : files_in(target_))
        if (is_weights(old)) set_aside(old, made);
      for (const std::string& name : names)
        if (name != kConfig) replace(name, made);
      sync_directory(target_);  // before the name that says that all is there
      replace(kConfig, made);
    } catch (...) {
      undo(made);
      throw;
    }
    sync_directory(target_);
  }

 private:
  struct Move {
    fs::path from, to;
  };

  fs::path replaced() const { return folder_ / "replaced"; }

  static void move(const fs::path& from, const fs::path& to, std::vector<Move>& made) {
    std::error_code failure;
    fs::rename(from, to, failure);
    if (failure) cannot_write(to, failure);
    made.push_back({from, to});
  }

  void set_aside(const std::string& name, std::vector<Move>& made) const {
    std::error_code ignored;
    if (fs::exists(fs::symlink_status(target_ / name, ignored)))
      move(target_ / name, replaced() / name, made);
  }

  void replace(const std::string& name, std::vector<Move>& made) const {
    set_aside(name, made);
    move(folder_ / name, target_ / name, made);
  }

  static void undo(const std::vector<Move>& made) {
    std::error_code ignored;
    for (auto last = made.rbegin(); last != made.rend(); ++last)
      fs::rename(last->to, last->from, ignored);
  }

  fs::path target_;
  fs::path folder_;
  bool is_new_ = false;
};

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const std::string& name : files_in(from)) {
    if (!goes_along(name)) continue;
    std::error_code failure;
    fs::copy_file(from / name, to / name, fs::copy_options::overwrite_existing, failure);
    if (failure) {
      throw bad_input("cannot copy {} to {}: {}", (from / name).string(), to.string(),
                      failure.message());
    }
  }
}

std::vector<TensorToWrite> tensors_to_write(const Module& module, const PiecesOf& pieces_of) {
  std::vector<TensorToWrite> tensors;
  for (const SavedTensor& tensor : saved_tensors(module)) {
    tensors.push_back(
        {tensor.name, tensor.type,
         [&pieces_of, part = tensor.part()](const ByteSink& sink) { pieces_of(part, sink); }});
  }
  return tensors;
}

// A part is dense only where padding, if any, comes after the parameter's last row.
void check_part(const Value& value, const CheckpointPart& part) {
  const auto rows_only = [](const Shape& shape) { return shape.dims().subspan(1); };
  const bool dense = value.padded.rank() == 0 ||
                     (value.padded.rank() == value.type.shape.rank() &&
                      std::ranges::equal(rows_only(value.padded), rows_only(value.type.shape)));
  const int64_t end = checked_add(part.offset, part.shape.elements(), "a checkpoint part");
  if (dense && part.offset >= 0 && end <= value.type.shape.elements()) return;
  throw internal_error("tensor {} {} at element {} is not a dense part of {} {}", part.name,
                       part.shape.text(), part.offset, value.name, value.type.text());
}

}  // namespace

std::vector<SavedTensor> saved_tensors(const Module& module) {
  std::vector<SavedTensor> tensors;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (value.scope != Scope::persistent || !value.owns_bytes() || !value.param) continue;
    for (const CheckpointPart& part : value.param->checkpoint) {
      check_part(value, part);
      tensors.push_back({ValueId{static_cast<int32_t>(i)}, part.name,
                         Type{value.type.dtype, part.shape},
                         part.offset * size_of(value.type.dtype)});
    }
  }
  return tensors;
}

int64_t saved_bytes(const Module& module) {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : saved_tensors(module))
    bytes = checked_add(bytes, tensor.type.bytes(), "the saved model");
  return bytes;
}

std::set<ValueId> loaded_values(const Module& module) {
  std::map<ValueId, int64_t> bytes;
  for (const SavedTensor& tensor : saved_tensors(module))
    bytes[tensor.value] += tensor.type.bytes();
  std::set<ValueId> loaded;
  for (const auto& [id, covered] : bytes)
    if (covered == module[id].storage_bytes()) loaded.insert(id);
  return loaded;
}

void save_model(const Module& module, const PiecesOf& pieces_of, const SaveOptions& options) {
  const Staging staging(options.directory);
  write_checkpoint(staging.folder(), tensors_to_write(module, pieces_of), options.max_shard_bytes);
  staging.write(kGenerationConfig, kDefaultGenerationConfig);
  if (!options.tokenizer_from.empty()) copy_companions(options.tokenizer_from, staging.folder());
  if (!options.generation_config_json.empty()) {
    staging.write(kGenerationConfig, options.generation_config_json);
  }
  if (!options.run_toml.empty()) staging.write(kRunToml, options.run_toml);
  staging.write(kConfig, options.config_json);
  staging.move_into_place();
}

}  // namespace snug

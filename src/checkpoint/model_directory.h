// A model prepared in a hidden folder of its directory, which replaces the model that is there in
// one step. A reader, a kill and a power cut at any time find the old model or the new one, whole.
//
//   StagedModel model("runs/a");                       // made where it is missing
//   write_checkpoint(model.folder(), tensors, kMaxShardBytes, model.shard_prefix());
//   model.write("config.json", text);
//   model.commit();                                    // dropped without it, nothing changed
//
// One rename commits. Which one depends on what is there:
//   no config.json             config.json, when all else is in place
//   the same but for weights   model.safetensors or its index; shards have new names
//   anything else              the whole directory, exchanged with a complete sibling
//
// An adapter is saved in the same way, with the names that PEFT gives its two files.
//
// run.toml says how the weights came to be: it goes before other weights come, and its new text
// comes after them. Other files and folders of the directory stay.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kRunFile = "run.toml";
constexpr const char* kGenerationConfigFile = "generation_config.json";
constexpr const char* kLockFile = ".snug-lock";

// Whether a file of that name accompanies a model's weights and does not depend on them.
bool goes_with_a_model(std::string_view file);

// The regular files of a folder, sorted. Throws bad_input where it cannot be read.
std::vector<std::string> files_in(const std::filesystem::path& folder);

// Adapters are saved and loaded separately from their base model.
enum class Part : uint8_t { model, adapter };

class StagedModel {
 public:
  // Throws bad_input where the directory cannot be written, as the others do.
  explicit StagedModel(const std::filesystem::path& directory, Part as = Part::model);
  ~StagedModel();
  StagedModel(const StagedModel&) = delete;
  StagedModel& operator=(const StagedModel&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  const std::string& shard_prefix() const { return shard_prefix_; }  // "model-1f0c93aa"
  void write(std::string_view name, std::string_view text) const;

  // Throws when it cannot write; before the commit, the directory is then as it was. Where the
  // directory should be exchanged and cannot be, the new model is kept in a folder inside it,
  // which the error names.
  void commit();

 private:
  void fill();
  void prepare_replacing() const;
  void replace_weights();
  void exchange();
  void prepare_exchange();
  [[noreturn]] void keep_next_to_the_old(std::string_view why);
  bool only_weights_differ() const;
  bool same_content(const std::string& name) const;

  Part as_;
  std::filesystem::path directory_;
  std::filesystem::path folder_;  // empty: nothing to remove
  std::string shard_prefix_;
  bool is_new_ = false;
};

// Before a run: throws bad_input where the directory holds a model that one with this config.json,
// in shards or in one file, could not take the place of, because that needs an exchange of
// directories which is not possible there.
void require_replaceable(const std::filesystem::path& directory, std::string_view config_json,
                         bool in_shards, Part as = Part::model);

// Removes what interrupted saves into a directory left in it and in its parent. Files of others
// that an exchange had not carried over yet are restored. The caller holds the directory's lock.
void remove_interrupted_saves(const std::filesystem::path& directory);

}  // namespace snug

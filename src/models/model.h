// A model: from a name or a path to a forward pass.
//
//   Model m = Model::load("qwen2.5-0.5b");  // or a directory, a config.json, "mlp:4096x48",
//                                           // a family at another size: "llama-7b:2048x16"
//   ForwardBuilder forward = m.forward({.batch = 8, .seq = 2048});
//   Forward f = add_forward(module, forward, ProgramRole::training_first);
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/forward.h"
#include "models/families/hf_config.h"
#include "models/model_config.h"
#include "models/parts/inputs.h"
#include "settings/build_options.h"

namespace snug {

class Model {
 public:
  // A built-in name goes before a directory of that name: write ./gpt2 for the directory. Throws a
  // usage error for an unknown name, bad_input for a path that cannot be read as a model.
  static Model load(std::string_view name_or_path);
  static Model from_config(HfConfig hf, std::string name);

  const ModelConfig& config() const { return config_; }
  int64_t parameters() const;  // trainable elements, counted from a built program

  // The same with another number of layers: what a layer costs can be asked of a shallow one.
  Model with_layers(int64_t layers) const;

  // Throws a usage error where the options do not suit the model.
  ForwardBuilder forward(const BuildOptions& options = {}) const;
  // Generation: programs over caches of so many positions. Throws a usage error where the model does
  // not read from left to right.
  CachedForwardBuilder cached_forward(int64_t positions, const BuildOptions& options = {}) const;
  // What each micro-batch of that forward pass is fed.
  std::vector<Input> inputs(const BuildOptions& options = {}) const;
  Input::Sizes input_sizes(const BuildOptions& options = {}) const;
  // What a user should know before using sequences of T tokens, or "".
  std::string sequence_note(int64_t T) const;

  // The config.json to save with the weights, so that `transformers` opens the directory.
  std::string config_json(Dtype weights = Dtype::f32) const;

  // Where weights and tokenizer are; empty for built-in models.
  const std::filesystem::path& source_dir() const { return source_dir_; }
  bool has_weights() const;
  bool has_tokenizer() const;  // one that transformers would read; Snug reads tokenizer.json
  // How files may spell a checkpoint tensor, the usual way first.
  std::vector<std::string> spellings(std::string_view tensor) const;

 private:
  // A transformer: its config.json and its parts.
  struct Transformer {
    HfConfig hf;
    ModelParts parts;
  };
  ModelConfig config_;
  std::optional<Transformer> transformer_;  // none: mlp
  std::filesystem::path source_dir_;
};

}  // namespace snug

#include "models/model.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "base/units.h"
#include "formats/safetensors_checkpoint.h"
#include "models/catalogue.h"
#include "models/mlp.h"
#include "models/scaled.h"
#include "models/transformer.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

bool looks_like_path(std::string_view text) {
  return text.find('/') != text.npos || text.ends_with(".json") || text == "." || text == "..";
}

Error unknown_model(std::string_view name) {
  const auto names = catalogue_names();
  return usage_error("there is no model '{}'{}", name, did_you_mean_model(name, names))
      .hint(
          "give a built-in name (`snug models` lists them), a model's directory, a config.json, or "
          "mlp:WxL");
}

// "Qwen/Qwen2.5-7B": a name on the Hugging Face hub, where nothing of that path is here.
bool looks_like_hub_id(std::string_view text) {
  const size_t slash = text.find('/');
  return slash != text.npos && slash > 0 && slash + 1 < text.size() && text.front() != '.' &&
         text.front() != '~' && text.find('/', slash + 1) == text.npos && !text.ends_with(".json");
}

// What a name with a slash and nothing behind it is.
Error not_here(std::string_view path) {
  const std::string name(path.substr(path.find('/') + 1));
  std::string built_in = name;
  std::ranges::transform(built_in, built_in.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  Error error = bad_input("cannot read {}: No such file or directory", path);
  if (!looks_like_hub_id(path)) return error;
  std::string hint = fmt::format(
      "a model of the Hugging Face hub is downloaded first (`huggingface-cli download {} "
      "--local-dir {}`); then give its directory",
      path, name);
  if (find_in_catalogue(built_in))
    hint += fmt::format("; without weights, '{}' is built in", built_in);
  return std::move(error).hint(hint);
}

void check_options(const BuildOptions& o) {
  if (o.batch < 1) throw usage_error("a batch of {} sequences makes no step", o.batch);
  if (o.seq < 1) throw usage_error("a sequence of {} tokens makes no step", o.seq);
  if (o.loss_chunk < 1)
    throw usage_error("the loss cannot work in chunks of {} tokens", o.loss_chunk);
  if (o.dropout && !(*o.dropout >= 0 && *o.dropout < 1)) {
    throw usage_error("dropout is {} and must be at least 0 and below 1", *o.dropout);
  }
  checked_mul(o.batch, o.seq, "tokens of a micro-batch");
}

// Samples are told apart by a causal mask from each one's beginning on.
void check_packing(const ModelConfig& c) {
  if (!c.transformer) {
    throw usage_error("model '{}' takes features, not tokens: its rows hold one sample each",
                      c.name)
        .hint("leave --pack out");
  }
  if (c.causal) return;
  throw usage_error(
      "model '{}' ({}) lets every token see the whole row: samples that share one would see each "
      "other",
      c.name, c.family)
      .hint("leave --pack out, and train on rows of one sample each");
}

}  // namespace

Model Model::from_config(HfConfig hf, std::string name) {
  Model m;
  m.config_ = model_config(hf);
  m.config_.name = std::move(name);
  m.hf_ = std::move(hf);
  return m;
}

Model Model::load(std::string_view name_or_path) {
  if (auto mlp = parse_mlp(name_or_path)) {
    Model m;
    m.config_ = std::move(*mlp);
    return m;
  }
  if (auto built_in = find_in_catalogue(name_or_path)) {
    return from_config(std::move(*built_in), std::string(name_or_path));
  }
  const fs::path path(name_or_path);
  std::error_code ignored;
  const bool exists = fs::exists(path, ignored);
  if (const auto to = parse_scaled(name_or_path); to && !exists) {
    const Model base = load(to->base);
    return from_config(scaled(base.hf_.value(), *to, name_or_path), std::string(name_or_path));
  }
  if (!exists && !looks_like_path(name_or_path)) throw unknown_model(name_or_path);
  if (!exists) throw not_here(name_or_path);
  const bool directory = fs::is_directory(path, ignored);
  fs::path home = directory ? path : path.parent_path();
  if (home.empty()) home = ".";
  Model m = from_config(load_hf_config(path),
                        printable(fs::weakly_canonical(home, ignored).filename().string()));
  m.source_dir_ = home;
  return m;
}

int64_t Model::parameters() const {
  Module module{.name = config_.name};
  forward({.batch = 1, .seq = 1})(module, "forward", /*training=*/false);
  int64_t count = 0;
  for (const Value& value : module.values) {
    if (value.category != Category::params || !value.param->trainable) continue;
    count = checked_add(count, value.type.shape.elements(), "parameters");
  }
  return count;
}

Model Model::with_layers(int64_t layers) const {
  Model m = *this;
  m.config_.L = layers;
  if (m.hf_) m.hf_->num_hidden_layers = layers;
  return m;
}

ForwardBuilder Model::forward(const BuildOptions& options) const {
  check_options(options);
  if (options.packed) check_packing(config_);
  if (!hf_) {
    return [c = config_, options](Module& module, std::string_view program, bool) {
      return build_mlp(c, options, module, program);
    };
  }
  check_sequence(*hf_, options.seq);
  return [c = config_, options](Module& module, std::string_view program, bool training) {
    return build_transformer(c, options, module, program, training);
  };
}

CachedForwardBuilder Model::cached_forward(int64_t positions, const BuildOptions& o) const {
  if (!hf_ || !config_.causal) {
    throw usage_error("model '{}' does not write text: it {}", config_.name,
                      hf_ ? "fills in what is hidden, and sees a whole sequence at once"
                          : "takes features, not tokens");
  }
  check_sequence(*hf_, positions);
  return [c = config_, positions, in_matmul = o.residual_in_matmul](
             Module& module, std::string_view program, int64_t tokens, bool logits) {
    return build_cached_transformer(c,
                                    {.tokens = tokens,
                                     .positions = positions,
                                     .logits = logits,
                                     .residual_in_matmul = in_matmul},
                                    module, program);
  };
}

std::string Model::sequence_note(int64_t T) const { return hf_ ? check_sequence(*hf_, T) : ""; }

std::string Model::config_json(Dtype weights) const {
  if (hf_) return to_json(*hf_, weights);
  return fmt::format("{{\n  \"model_type\": \"mlp\",\n  \"width\": {},\n  \"layers\": {}\n}}\n",
                     config_.C, config_.L);
}

bool Model::has_weights() const {
  if (source_dir_.empty()) return false;
  return snug::has_weights(source_dir_);
}

bool Model::has_tokenizer() const {
  if (source_dir_.empty()) return false;
  std::error_code ignored;
  return std::ranges::any_of(
      std::array{"tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model"},
      [&](const char* name) { return fs::exists(source_dir_ / name, ignored); });
}

std::vector<std::string> Model::spellings(std::string_view tensor) const {
  std::vector<std::string> found{std::string(tensor)};
  // A file saved from the bare model, without its head, lacks the first part of the name.
  for (std::string_view prefix : {"transformer.", "model.", "gpt_neox.", "bert."}) {
    if (tensor.starts_with(prefix)) found.emplace_back(tensor.substr(prefix.size()));
  }
  // transformers 5 calls GPT-NeoX's head so while it is not saved.
  if (tensor == "embed_out.weight") found.emplace_back("lm_head.weight");
  // BERT's oldest files name the parts of a norm after the paper.
  for (const auto& [now, then] : {std::pair{"LayerNorm.weight", "LayerNorm.gamma"},
                                  std::pair{"LayerNorm.bias", "LayerNorm.beta"}}) {
    if (!tensor.ends_with(now)) continue;
    for (size_t i = 0, n = found.size(); i < n; ++i) {
      found.push_back(found[i].substr(0, found[i].size() - std::string_view(now).size()) + then);
    }
  }
  return found;
}

}  // namespace snug

#include "models/model.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "base/units.h"
#include "formats/safetensors_checkpoint.h"
#include "models/families/catalogue.h"
#include "models/parts/mlp.h"
#include "models/parts/transformer.h"
#include "models/scaled.h"

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

// What a name with a slash and nothing after it is.
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
  ModelParts parts = find_family(hf.model_type)->parts(hf);
  m.config_ = config_of(parts, std::move(name));
  m.transformer_ = {std::move(hf), std::move(parts)};
  return m;
}

Model Model::load(std::string_view name_or_path) {
  if (const auto mlp = parse_mlp(name_or_path)) {
    Model m;
    m.config_ = {.name = std::string(name_or_path),
                 .family = "mlp",
                 .transformer = false,
                 .L = mlp->L,
                 .C = mlp->W,
                 .F = mlp->W,
                 .V = mlp->W};
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
    return from_config(scaled(base.transformer_.value().hf, *to, name_or_path),
                       std::string(name_or_path));
  }
  if (!exists && !looks_like_path(name_or_path)) throw unknown_model(name_or_path);
  if (!exists) throw not_here(name_or_path);
  const bool directory = fs::is_directory(path, ignored);
  fs::path source = directory ? path : path.parent_path();
  if (source.empty()) source = ".";
  Model m = from_config(load_hf_config(path),
                        printable(fs::weakly_canonical(source, ignored).filename().string()));
  m.source_dir_ = source;
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
  if (!m.transformer_) return m;
  m.transformer_->hf.num_hidden_layers = layers;
  m.transformer_->parts.stacks.front().L = layers;
  return m;
}

ForwardBuilder Model::forward(const BuildOptions& options) const {
  check_options(options);
  if (options.packed) check_packing(config_);
  if (!transformer_) {
    return [size = MlpSize{config_.C, config_.L}, options](Module& module, std::string_view program,
                                                           bool) {
      return build_mlp(size, options, module, program);
    };
  }
  check_sequence(transformer_->hf, options.seq);
  return [parts = transformer_->parts, options](Module& module, std::string_view program,
                                                bool training) {
    return build_transformer(parts, options, module, program, training);
  };
}

CachedForwardBuilder Model::cached_forward(int64_t positions, const BuildOptions& o) const {
  if (!transformer_ || !config_.causal) {
    throw usage_error("model '{}' does not write text: it {}", config_.name,
                      transformer_ ? "fills in what is hidden, and sees a whole sequence at once"
                                   : "takes features, not tokens");
  }
  check_sequence(transformer_->hf, positions);
  return [parts = transformer_->parts, positions, in_matmul = o.residual_in_matmul](
             Module& module, std::string_view program, int64_t tokens, bool logits) {
    return build_cached_transformer(parts,
                                    {.tokens = tokens,
                                     .positions = positions,
                                     .logits = logits,
                                     .residual_in_matmul = in_matmul},
                                    module, program);
  };
}

std::vector<Input> Model::inputs(const BuildOptions& options) const {
  return transformer_ ? transformer_inputs(options.packed) : mlp_inputs();
}

Input::Sizes Model::input_sizes(const BuildOptions& options) const {
  return {.B = options.batch, .T = options.seq, .C = config_.C};
}

std::string Model::sequence_note(int64_t T) const {
  return transformer_ ? check_sequence(transformer_->hf, T) : "";
}

std::string Model::config_json(Dtype weights) const {
  if (transformer_) return to_json(transformer_->hf, weights);
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
  if (!transformer_) return found;
  const Family& family = *find_family(transformer_->hf.model_type);
  if (tensor.starts_with(family.base_prefix))
    found.emplace_back(tensor.substr(family.base_prefix.size()));
  for (const OtherEnding& ending : family.other_endings) {
    if (!tensor.ends_with(ending.usual)) continue;
    for (size_t i = 0, n = found.size(); i < n; ++i)
      found.push_back(
          found[i].substr(0, found[i].size() - ending.usual.size()).append(ending.other));
  }
  return found;
}

}  // namespace snug

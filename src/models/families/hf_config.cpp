#include "models/families/hf_config.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/text.h"
#include "base/units.h"
#include "models/families/experts.h"
#include "models/families/family.h"

namespace snug {
namespace {

constexpr std::uintmax_t kMaxFileBytes = 16 << 20;

void refuse_what_no_family_supports(const JsonFields& f) {
  if (f.has("quantization_config")) {
    throw f.refusal("quantization_config", "is set; quantised weights cannot be trained")
        .hint("use the model's unquantised directory");
  }
  if (const OrderedJson* pruned = f.find("pruned_heads"); pruned != nullptr && !pruned->empty()) {
    throw f.refusal("pruned_heads", "is not empty, which Snug does not support");
  }
}

// Families whose names are an edit or two from a supported one.
bool is_another_family(std::string_view word) {
  constexpr std::array<std::string_view, 12> others{
      "albert",    "camembert", "deberta",    "distilbert", "flaubert", "mixtral",
      "ministral", "mllama",    "mobilebert", "modernbert", "roberta",  "xlm"};
  return std::ranges::find(others, word) != others.end();
}

std::vector<std::string> model_types() {
  std::vector<std::string> all;
  for (const Family* family : families()) all.emplace_back(family->model_type);
  return all;
}

const char* torch_name(Dtype dtype) {
  if (dtype == Dtype::bf16) return "bfloat16";
  return dtype == Dtype::f16 ? "float16" : "float32";
}

}  // namespace

std::string did_you_mean_model(std::string_view word, std::span<const std::string> candidates) {
  const auto digits = [](std::string_view text) {
    std::string found;
    std::ranges::copy_if(text, std::back_inserter(found),
                         [](char c) { return c >= '0' && c <= '9'; });
    std::ranges::sort(found);
    return found;
  };
  const std::string_view family = word.substr(0, word.find_first_of("-_:0123456789"));
  if (word == "gpt_neo" || is_another_family(family)) return "";
  std::vector<std::string> near(candidates.begin(), candidates.end());
  std::erase_if(near, [&](const std::string& name) { return digits(name) != digits(word); });
  return did_you_mean(word, near);
}

HfConfig parse_hf_config(std::string_view text, std::string_view where) {
  const OrderedJson json = parse_json_object(text, where);
  const JsonFields f(json, where);
  HfConfig c;
  c.original = text;
  c.model_type = f.text("model_type", "");
  if (c.model_type.empty()) {
    throw f.refusal("model_type", "is missing")
        .hint("it names the family: " + join(model_types(), ", "));
  }
  if (is_mixture_of_experts(c.model_type)) throw experts_refused(f, c.model_type);
  const Family* family = find_family(c.model_type);
  if (family == nullptr) {
    throw f
        .refusal("model_type", "is '{}', a family that Snug does not support{}", c.model_type,
                 did_you_mean_model(c.model_type, model_types()))
        .hint("supported: " + join(model_types(), ", "));
  }
  refuse_what_no_family_supports(f);
  c.dtype = f.text(f.either("dtype", "torch_dtype"), "float32");
  c.initializer_range = f.non_negative("initializer_range", 0.02);
  family->read(f, c);
  return c;
}

HfConfig load_hf_config(const std::filesystem::path& file_or_directory) {
  namespace fs = std::filesystem;
  fs::path file = file_or_directory;
  std::error_code ignored;
  if (fs::is_directory(file, ignored)) {
    file /= "config.json";
    if (!fs::exists(file, ignored)) {
      throw bad_input("{} has no config.json", file_or_directory.string())
          .hint("a model is a directory as transformers saves it, or its config.json");
    }
  }
  if (fs::is_regular_file(file, ignored) && fs::file_size(file, ignored) > kMaxFileBytes) {
    throw bad_input("{} is {}, far too large for a config.json", file.string(),
                    format_bytes(static_cast<int64_t>(fs::file_size(file, ignored))));
  }
  return parse_hf_config(read_file(file), file.string());
}

std::string check_sequence(const HfConfig& c, int64_t T) {
  if (T <= c.max_position_embeddings) return "";
  if (!c.rotary) {
    throw usage_error("a sequence of {} is longer than the {} positions that the model has learned",
                      T, c.max_position_embeddings)
        .hint(fmt::format("use --seq {} or less", c.max_position_embeddings));
  }
  return fmt::format("a sequence of {} is longer than the {} positions the model was made for", T,
                     c.max_position_embeddings);
}

std::string to_json(const HfConfig& c, Dtype weights) {
  const Family& family = *find_family(c.model_type);
  OrderedJson json = parse_json_object(c.original.empty() ? "{}" : c.original, "config.json");
  json["architectures"] = OrderedJson::array({family.architecture});
  json["model_type"] = c.model_type;
  json["dtype"] = json["torch_dtype"] = torch_name(weights);
  family.write(c, json);
  return json.dump(2) + "\n";
}

}  // namespace snug

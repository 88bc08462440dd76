#include "formats/peft_config.h"

#include <array>
#include <cmath>

#include "formats/json_fields.h"

namespace snug {
namespace {

constexpr int64_t kMostRank = 4096;

// What would make other numbers than plain LoRA does, and goes unnoticed where it is passed over.
void refuse_other_kinds(const JsonFields& f) {
  if (const std::string type = f.text("peft_type", "LORA"); type != "LORA")
    throw f.refusal("peft_type", "is '{}': only LORA adapters are understood", type);
  if (const std::string bias = f.text("bias", "none"); bias != "none")
    throw f.refusal("bias", "is '{}': biases are frozen here, only 'none' is understood", bias);
  for (const char* key : {"use_rslora", "use_dora", "lora_bias"}) {
    if (f.flag(key, false)) throw f.refusal(key, "is true, which is not understood");
  }
  for (const char* key :
       {"modules_to_save", "layers_to_transform", "layers_pattern", "rank_pattern", "alpha_pattern",
        "target_parameters", "trainable_token_indices", "exclude_modules", "layer_replication"}) {
    const OrderedJson* found = f.find(key);
    if (found != nullptr && !found->empty())
      throw f.refusal(key, "is {}, which is not understood", found->dump());
  }
}

std::vector<std::string> targets_in(const JsonFields& f) {
  const OrderedJson* found = f.find("target_modules");
  if (found == nullptr)
    throw f.refusal("target_modules", "is missing: it says which layers have adapters");
  if (found->is_string()) {
    const auto text = found->get<std::string>();
    if (text == "all-linear") return {"all"};
    throw f.refusal("target_modules", "is the pattern '{}': only a list of names is understood",
                    text);
  }
  std::vector<std::string> targets;
  if (!found->is_array() || found->empty()) throw f.wrong_type("target_modules", "a list of names");
  for (const OrderedJson& name : *found) {
    if (!name.is_string() || name.get_ref<const std::string&>().empty() ||
        name.get_ref<const std::string&>().find_first_of("+,=") != std::string::npos)
      throw f.wrong_type("target_modules", "a list of names");
    targets.push_back(name.get<std::string>());
  }
  return targets;
}

OrderedJson whole_or_real(double number) {
  if (number == std::floor(number)) return static_cast<int64_t>(number);
  return number;
}

}  // namespace

PeftConfig PeftConfig::parse(std::string_view text, std::string_view where) {
  const OrderedJson json = parse_json_object(text, where);
  const JsonFields f(json, where);
  refuse_other_kinds(f);
  PeftConfig c;
  if (!f.has("r")) throw f.refusal("r", "is missing: it is the rank of the adapters");
  c.rank = f.size("r", 0, kMostRank);
  c.alpha = f.positive("lora_alpha", 8);
  c.dropout = f.rate("lora_dropout", 0);
  c.targets = targets_in(f);
  c.base = f.text("base_model_name_or_path", "");
  c.in_out = f.flag("fan_in_fan_out", false);
  return c;
}

std::string PeftConfig::json() const {
  const OrderedJson json{{"base_model_name_or_path", base},
                         {"bias", "none"},
                         {"fan_in_fan_out", in_out},
                         {"inference_mode", true},
                         {"init_lora_weights", true},
                         {"lora_alpha", whole_or_real(alpha)},
                         {"lora_dropout", dropout},
                         {"modules_to_save", nullptr},
                         {"peft_type", "LORA"},
                         {"r", rank},
                         {"target_modules", targets},
                         {"task_type", "CAUSAL_LM"},
                         {"use_dora", false},
                         {"use_rslora", false}};
  return json.dump(2) + "\n";
}

}  // namespace snug

// adapter_config.json of a LoRA adapter, as PEFT writes and reads it.
//
//   PeftConfig c = PeftConfig::parse(read_file(dir / kAdapterConfigFile), "dir/adapter_config.json");
//   c.rank;   c.targets;   // 16, {"q_proj", "v_proj"}
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

constexpr const char* kAdapterConfigFile = "adapter_config.json";
constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";

struct PeftConfig {
  int64_t rank = 0;
  double alpha = 0;
  double dropout = 0;
  std::vector<std::string> targets;  // names of layers, or {"all"}
  std::string base;                  // the model it was trained on: a name or a path
  bool in_out = false;               // the model stores weights [in, out]

  // Throws bad_input where it is no LoRA, or one of a kind that Snug does not do: its name is said.
  static PeftConfig parse(std::string_view text, std::string_view where);
  std::string json() const;
};

}  // namespace snug

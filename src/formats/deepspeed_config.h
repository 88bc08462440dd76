// DeepSpeed's configuration file as its own code reads it: Hjson; blocks that refuse unknown keys and
// others that pass over them; "auto", which leaves a key at its default; deprecated names.
//
//   const DeepSpeedConfig config = DeepSpeedConfig::read("ds.json");
//   config.whole("zero_optimization.stage");          // 0 where the file says nothing
//   config.has("train_micro_batch_size_per_gpu");     // given, and not "auto"
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

enum class DeepSpeedType : uint8_t {
  flag,
  whole,  // 5e8 is one
  number,
  text,
  dtype,   // fp32, fp16, bf16
  device,  // none, cpu, nvme
  betas,   // two numbers
  any,     // a block that nothing here reads
};

// A row of the table of keys.
struct DeepSpeedKey {
  std::string_view block;  // "" at the top, "zero_optimization.offload_param"
  std::string_view name;
  DeepSpeedType type;
  std::string_view otherwise;  // its default, as one would write it; empty: none
  std::string_view option;     // of Snug, that it becomes: "--zero"; empty: none
  std::string_view here;       // what it does here, or why it does nothing

  std::string path() const;
};

// Every key that DeepSpeed knows.
std::span<const DeepSpeedKey> deepspeed_keys();
const DeepSpeedKey* find_deepspeed_key(std::string_view path);
std::string_view name_of(DeepSpeedType type);

// As pydantic reads one: true, 1, "yes"; none of what is no flag.
std::optional<bool> as_flag(const nlohmann::ordered_json& value);

// One key of a file.
struct DeepSpeedEntry {
  std::string path;     // as the table has it: "zero_optimization.stage3_max_live_parameters"
  std::string written;  // as the file has it: "zero_optimization.max_live_parameters"
  const DeepSpeedKey* key = nullptr;  // null: DeepSpeed does not know it either, and passes over it
  nlohmann::ordered_json value;       // of the key's type; null: "auto", or nothing
  bool automatic = false;             // "auto"
};

class DeepSpeedConfig {
 public:
  // Throws bad_input for what DeepSpeed's own code refuses.
  static DeepSpeedConfig parse(std::string_view text, std::string where);
  static DeepSpeedConfig read(const std::filesystem::path& path);

  const std::string& where() const { return where_; }
  std::span<const DeepSpeedEntry> entries() const { return entries_; }
  const DeepSpeedEntry* find(std::string_view path) const;
  bool has(std::string_view path) const;           // with a value
  bool is_automatic(std::string_view path) const;  // "auto"
  bool has_block(std::string_view block) const;

  // What the file says, or the table's default.
  bool flag(std::string_view path) const;
  int64_t whole(std::string_view path) const;
  double number(std::string_view path) const;
  std::string text(std::string_view path) const;
  std::pair<double, double> betas(std::string_view path, std::pair<double, double> otherwise) const;

  // The file as it would be without one of its keys.
  DeepSpeedConfig without(std::string_view path) const;

 private:
  const nlohmann::ordered_json& given(std::string_view path) const;

  std::string where_;
  std::vector<DeepSpeedEntry> entries_;
  std::vector<std::string> blocks_;
};

}  // namespace snug

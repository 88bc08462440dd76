#include "formats/deepspeed_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/file_reader.h"
#include "formats/hjson.h"

namespace snug {
namespace {

using DsJson = nlohmann::ordered_json;

// What DeepSpeed does with a key of a block that it does not know.
enum class Unknown : uint8_t {
  passed_over,
  refused,   // by the block's model
  argument,  // handed to the optimizer or the schedule, which refuse it
};
struct Block {
  std::string_view path;
  Unknown unknown;
};
constexpr std::array<Block, 15> kBlocks{{
    {"", Unknown::passed_over},
    {"data_types", Unknown::passed_over},
    {"fp16", Unknown::refused},
    {"bf16", Unknown::refused},
    {"zero_optimization", Unknown::refused},
    {"zero_optimization.offload_param", Unknown::refused},
    {"zero_optimization.offload_optimizer", Unknown::refused},
    {"activation_checkpointing", Unknown::passed_over},
    {"aio", Unknown::passed_over},
    {"optimizer", Unknown::passed_over},
    {"scheduler", Unknown::passed_over},
    {"flops_profiler", Unknown::passed_over},
    {"pipeline", Unknown::passed_over},
    {"tensor_parallel", Unknown::passed_over},
    {"checkpoint", Unknown::passed_over},
}};
constexpr std::array<Block, 2> kArguments{{
    {"optimizer.params", Unknown::argument},
    {"scheduler.params", Unknown::argument},
}};

const Block* find_block(std::string_view path) {
  for (const Block& block : kBlocks)
    if (block.path == path) return &block;
  for (const Block& block : kArguments)
    if (block.path == path) return &block;
  return nullptr;
}

std::string inside(std::string_view block, std::string_view name) {
  return block.empty() ? std::string(name) : fmt::format("{}.{}", block, name);
}

// The table's name for what a file calls it: old names, and `stage3_` left out.
std::string name_in_table(std::string_view block, std::string_view name) {
  if (block.empty() && name == "bfloat16") return "bf16";
  if (block == "zero_optimization" && find_deepspeed_key(inside(block, name)) == nullptr &&
      find_deepspeed_key(fmt::format("{}.stage3_{}", block, name)) != nullptr)
    return fmt::format("stage3_{}", name);
  return std::string(name);
}

std::optional<double> as_number(const DsJson& value) {
  double number = 0;
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value.is_number()) number = value.get<double>();
  if (value.is_string() && !read_number(trim(value.get_ref<const std::string&>()), number))
    return {};
  if ((!value.is_number() && !value.is_string()) || !std::isfinite(number)) return {};
  return number;
}

// 5e8 and "5" are whole numbers; 5.5 is none.
std::optional<int64_t> as_whole(const DsJson& value) {
  if (value.is_number_integer() && !value.is_number_unsigned()) return value.get<int64_t>();
  if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX) return value.get<int64_t>();
  const std::optional<double> number = as_number(value);
  constexpr double kBeyond = 9223372036854775808.0;
  if (!number || *number != std::floor(*number) || std::abs(*number) >= kBeyond) return {};
  return static_cast<int64_t>(*number);
}

std::optional<std::string> as_dtype(const DsJson& value) {
  if (!value.is_string()) return {};
  const auto& word = value.get_ref<const std::string&>();
  if (word == "fp32" || word == "float32" || word == "torch.float32") return "fp32";
  if (word == "fp16" || word == "float16" || word == "half" || word == "torch.float16")
    return "fp16";
  if (word == "bf16" || word == "bfloat16" || word == "bfp16" || word == "torch.bfloat16")
    return "bf16";
  return {};
}

std::optional<std::string> as_device(const DsJson& value) {
  if (!value.is_string()) return {};
  const auto& word = value.get_ref<const std::string&>();
  return word == "none" || word == "cpu" || word == "nvme" ? std::optional(word) : std::nullopt;
}

std::optional<DsJson> as_betas(const DsJson& value) {
  if (!value.is_array() || value.size() != 2) return {};
  const auto first = as_number(value[0]);
  const auto second = as_number(value[1]);
  if (!first || !second) return {};
  return DsJson::array({*first, *second});
}

template <typename T>
std::optional<DsJson> in_json(const std::optional<T>& value) {
  return value ? std::optional<DsJson>(*value) : std::nullopt;
}

// Nothing: it is of another type.
std::optional<DsJson> typed(DeepSpeedType type, const DsJson& value) {
  switch (type) {
    case DeepSpeedType::flag:
      return in_json(as_flag(value));
    case DeepSpeedType::whole:
      return in_json(as_whole(value));
    case DeepSpeedType::number:
      return in_json(as_number(value));
    case DeepSpeedType::text:
      return value.is_string() ? std::optional(value) : std::nullopt;
    case DeepSpeedType::dtype:
      return in_json(as_dtype(value));
    case DeepSpeedType::device:
      return in_json(as_device(value));
    case DeepSpeedType::betas:
      return as_betas(value);
    case DeepSpeedType::any:
      return value;
  }
  throw internal_error("no such type: {}", static_cast<int>(type));
}

std::string_view wanted(DeepSpeedType type) {
  switch (type) {
    case DeepSpeedType::flag:
      return "true or false";
    case DeepSpeedType::dtype:
      return "fp32, fp16 or bf16";
    case DeepSpeedType::device:
      return "none, cpu or nvme";
    case DeepSpeedType::betas:
      return "a list of two numbers";
    case DeepSpeedType::text:
      return "a text";
    default:
      return type == DeepSpeedType::whole ? "a whole number" : "a number";
  }
}

class ConfigReader {
 public:
  ConfigReader(std::string_view where, std::vector<DeepSpeedEntry>& entries,
               std::vector<std::string>& blocks)
      : where_(where), entries_(entries), blocks_(blocks) {}

  void read_block(const Block& block, const std::string& written, const DsJson& object) {
    blocks_.emplace_back(block.path);
    for (const auto& [name, value] : object.items()) {
      const std::string path = inside(block.path, name_in_table(block.path, name));
      const std::string in_file = inside(written, name);
      if (const Block* inner = find_block(path))
        read_inner(*inner, in_file, value);
      else
        read_key(block, path, in_file, value);
    }
  }

 private:
  template <typename... Args>
  Error refusal(const std::string& written, fmt::format_string<Args...> format,
                Args&&... args) const {
    return bad_input("{}: {} {}", where_, printable(written),
                     fmt::format(format, std::forward<Args>(args)...));
  }

  // A long value is cut.
  static std::string shown(const DsJson& value) {
    std::string text = printable(value.dump(-1, ' ', false, DsJson::error_handler_t::replace));
    constexpr size_t kMost = 40;
    return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
  }

  void read_inner(const Block& block, const std::string& written, const DsJson& value) {
    if (std::ranges::find(blocks_, block.path) != blocks_.end())
      throw refusal(written, "is another name of {}, which is there too", block.path);
    if (value.is_object()) return read_block(block, written, value);
    if (value.is_null() || value == "auto") return;
    // What ZeRO was switched on by once.
    if (block.path == "zero_optimization" && value.is_boolean()) {
      blocks_.emplace_back(block.path);
      add("zero_optimization.stage", written, value.get<bool>() ? 1 : 0);
      return;
    }
    throw refusal(written, "is {}, where DeepSpeed has a block {{ ... }}", shown(value));
  }

  void read_key(const Block& block, const std::string& path, const std::string& written,
                const DsJson& value) {
    const DeepSpeedKey* key = find_deepspeed_key(path);
    if (key == nullptr) return read_unknown(block, written, value);
    if (std::ranges::find(entries_, path, &DeepSpeedEntry::path) != entries_.end())
      throw refusal(written, "is another name of {}, which is there too", path);
    if (value == "auto" && key->type != DeepSpeedType::any) {
      entries_.push_back({path, written, key, nullptr, true});
      return;
    }
    const bool may_be_null = block.unknown != Unknown::refused || key->otherwise.empty();
    if (value.is_null() && may_be_null) {
      entries_.push_back({path, written, key, nullptr, false});
      return;
    }
    const std::optional<DsJson> read = typed(key->type, value);
    if (!read) throw refusal(written, "is {} and must be {}", shown(value), wanted(key->type));
    require_in_range(*key, written, *read);
    add(path, written, *read);
  }

  void add(const std::string& path, const std::string& written, DsJson value) {
    entries_.push_back({path, written, find_deepspeed_key(path), std::move(value), false});
  }

  void require_in_range(const DeepSpeedKey& key, const std::string& written,
                        const DsJson& value) const {
    const bool may_be_negative = key.otherwise.starts_with("-");
    if (value.is_number() && !may_be_negative && value < 0)
      throw refusal(written, "is {} and must not be negative", shown(value));
    if (key.path() == "zero_optimization.stage" && value > 3)
      throw refusal(written, "is {}: ZeRO's stages are 0, 1, 2 and 3", shown(value));
  }

  void read_unknown(const Block& block, const std::string& written, const DsJson& value) {
    if (block.unknown == Unknown::passed_over) {
      entries_.push_back({written, written, nullptr, value, false});
      return;
    }
    const size_t dot = written.rfind('.');
    std::vector<std::string> names;
    for (const DeepSpeedKey& key : deepspeed_keys())
      if (key.block == block.path) names.emplace_back(key.name);
    throw refusal(written, "is no {} of DeepSpeed{}",
                  block.unknown == Unknown::refused ? "key" : "parameter",
                  did_you_mean(std::string_view(written).substr(dot + 1), names));
  }

  std::string_view where_;
  std::vector<DeepSpeedEntry>& entries_;
  std::vector<std::string>& blocks_;
};

}  // namespace

std::optional<bool> as_flag(const nlohmann::ordered_json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) {
    const auto number = value.get<double>();
    return number == 0 || number == 1 ? std::optional(number == 1) : std::nullopt;
  }
  if (!value.is_string()) return {};
  std::string word = value.get<std::string>();
  std::ranges::transform(word, word.begin(), [](char c) {
    return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  for (const char* yes : {"true", "t", "yes", "y", "on", "1"})
    if (word == yes) return true;
  for (const char* no : {"false", "f", "no", "n", "off", "0"})
    if (word == no) return false;
  return {};
}

DeepSpeedConfig DeepSpeedConfig::parse(std::string_view text, std::string where) {
  DeepSpeedConfig config;
  config.where_ = std::move(where);
  ConfigReader reader(config.where_, config.entries_, config.blocks_);
  reader.read_block(kBlocks[0], "", read_hjson(text, config.where_));
  // Not together, as in DeepSpeed.
  for (const auto& [old, current] :
       {std::pair{"cpu_offload", "offload_optimizer"}, {"cpu_offload_param", "offload_param"}}) {
    const std::string before = fmt::format("zero_optimization.{}", old);
    if (config.find(before) != nullptr &&
        config.has_block(fmt::format("zero_optimization.{}", current)))
      throw bad_input("{}: {} is deprecated, and {}, which replaces it, is there too",
                      config.where_, before, current);
  }
  return config;
}

DeepSpeedConfig DeepSpeedConfig::read(const std::filesystem::path& path) {
  constexpr int64_t kMaxBytes = 1 << 20;
  const FileReader file(path);
  const std::string name = printable(path.string());
  if (file.size() > kMaxBytes) {
    throw bad_input("{} has {} bytes, far too many for a DeepSpeed configuration", name,
                    format_exact(file.size()));
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return parse(text, name);
}

const DeepSpeedEntry* DeepSpeedConfig::find(std::string_view path) const {
  const auto found = std::ranges::find(entries_, path, &DeepSpeedEntry::path);
  return found == entries_.end() ? nullptr : &*found;
}

bool DeepSpeedConfig::has(std::string_view path) const { return !given(path).is_null(); }

bool DeepSpeedConfig::is_automatic(std::string_view path) const {
  const DeepSpeedEntry* entry = find(path);
  return entry != nullptr && entry->automatic;
}

bool DeepSpeedConfig::has_block(std::string_view block) const {
  return std::ranges::find(blocks_, block) != blocks_.end();
}

const nlohmann::ordered_json& DeepSpeedConfig::given(std::string_view path) const {
  static const DsJson nothing;
  const DeepSpeedEntry* entry = find(path);
  return entry == nullptr ? nothing : entry->value;
}

namespace {

// The default of a key that has one.
std::string_view otherwise_of(std::string_view path) {
  const DeepSpeedKey* key = find_deepspeed_key(path);
  if (key == nullptr) throw internal_error("'{}' is no key of DeepSpeed", path);
  return key->otherwise;
}

}  // namespace

bool DeepSpeedConfig::flag(std::string_view path) const {
  const DsJson& value = given(path);
  return value.is_null() ? otherwise_of(path) == "true" : value.get<bool>();
}

int64_t DeepSpeedConfig::whole(std::string_view path) const {
  const DsJson& value = given(path);
  return value.is_null() ? static_cast<int64_t>(number(path)) : value.get<int64_t>();
}

double DeepSpeedConfig::number(std::string_view path) const {
  const DsJson& value = given(path);
  if (!value.is_null()) return value.get<double>();
  double number = 0;
  if (!read_number(otherwise_of(path), number)) throw internal_error("{} has no default", path);
  return number;
}

std::string DeepSpeedConfig::text(std::string_view path) const {
  const DsJson& value = given(path);
  return value.is_null() ? std::string(otherwise_of(path)) : value.get<std::string>();
}

std::pair<double, double> DeepSpeedConfig::betas(std::string_view path,
                                                 std::pair<double, double> otherwise) const {
  const DsJson& value = given(path);
  if (value.is_null()) return otherwise;
  return {value[0].get<double>(), value[1].get<double>()};
}

DeepSpeedConfig DeepSpeedConfig::without(std::string_view path) const {
  DeepSpeedConfig config = *this;
  std::erase_if(config.entries_, [&](const DeepSpeedEntry& entry) { return entry.path == path; });
  return config;
}

}  // namespace snug

#include "settings/option.h"

#include <algorithm>
#include <unordered_map>

#include "settings/option_rows.h"

namespace snug {
namespace {

std::vector<Option> joined() {
  std::vector<Option> all;
  for (auto* rows :
       {&accumulate_options, &mesh_options, &zero_options, &adapter_options, &base_options,
        &precision_options, &attention_options, &loss_options, &recompute_options,
        &compress_options, &offload_options, &host_update_options, &optimizer_options, &run_options,
        &training_options, &data_options, &saving_options}) {
    std::ranges::move(rows(), std::back_inserter(all));
  }
  return all;
}

[[noreturn]] void refuse_unknown(std::string_view key) {
  std::vector<std::string> names;
  for (const Option& option : all_options()) names.emplace_back(option.key);
  throw usage_error("there is no option '{}'{}", key, did_you_mean(key, names));
}

}  // namespace

std::span<const Option> all_options() {
  static const std::vector<Option> all = joined();
  return all;
}

const Option* find_option(std::string_view key) {
  static const std::unordered_map<std::string_view, const Option*> by_key = [] {
    std::unordered_map<std::string_view, const Option*> out;
    for (const Option& option : all_options()) out.emplace(option.key, &option);
    return out;
  }();
  const auto found = by_key.find(key);
  return found == by_key.end() ? nullptr : found->second;
}

const Option& option_at(size_t offset) {
  static const std::unordered_map<size_t, const Option*> by_offset = [] {
    std::unordered_map<size_t, const Option*> out;
    for (const Option& option : all_options()) out.emplace(option.offset, &option);
    return out;
  }();
  return *by_offset.at(offset);
}

PlainValue plain_value(const Option& option, const Options& options) {
  const std::string text = option.text(options);
  switch (option.kind) {
    case ValueKind::flag:
      return text == "true";
    case ValueKind::whole:
      return parse_setting<int64_t>(text, option.key);
    case ValueKind::number:
      return parse_setting<double>(text, option.key);
    case ValueKind::text:
      break;
  }
  return text;
}

bool is_given(const Options& options, std::string_view key) {
  return std::ranges::find(options.given, key) != options.given.end();
}

void set_option(Options& options, std::string_view key, std::string_view value) {
  const Option* option = find_option(key);
  if (option == nullptr) refuse_unknown(key);
  parse_option(*option, options, value);
}

std::string option_text(const Options& options, std::string_view key) {
  const Option* option = find_option(key);
  if (option == nullptr) refuse_unknown(key);
  return option->text(options);
}

}  // namespace snug

#include "recipe/deepspeed.h"

#include <algorithm>

#include "base/text.h"
#include "base/units.h"
#include "recipe/deepspeed_mapper.h"

namespace snug {
namespace {

std::string value_text(const DeepSpeedEntry& entry) {
  if (entry.automatic) return "auto";
  if (entry.value.is_number_integer()) return format_exact(entry.value.get<int64_t>());
  if (entry.value.is_number()) return fmt::format("{:g}", entry.value.get<double>());
  if (entry.value.is_string()) return printable(entry.value.get_ref<const std::string&>());
  if (entry.value.is_object()) return "{...}";
  return printable(entry.value.dump());
}

std::string words_of(const DeepSpeedConfig& file, const DeepSpeedEntry& entry) {
  if (entry.key != nullptr) return std::string(entry.key->here);
  const size_t dot = entry.written.rfind('.');
  const std::string block = dot == std::string::npos ? "" : entry.written.substr(0, dot);
  std::vector<std::string> names;
  for (const DeepSpeedKey& key : deepspeed_keys()) {
    if (key.block == block) names.emplace_back(key.name);
    if (block.empty() && !file.has_block(key.block)) names.emplace_back(key.block);
  }
  return "no key of DeepSpeed, which passes over it" +
         did_you_mean(std::string_view(entry.written).substr(dot + 1), names);
}

// What "auto" leaves open, and nothing here has settled.
void say_what_is_left_open(DeepSpeedMapper& m) {
  for (const DeepSpeedLine& line : m.result.lines) {
    const DeepSpeedKey* key = find_deepspeed_key(line.path);
    if (key != nullptr && !key->option.empty() && line.change.empty() && m.is_open(line.path))
      m.say(line.path, fmt::format("left to {}", key->option));
  }
}

}  // namespace

DeepSpeedMapper::DeepSpeedMapper(const DeepSpeedConfig& config, const DeepSpeedPlace& at)
    : file(config), place(at) {
  for (const DeepSpeedEntry& entry : file.entries()) {
    result.lines.push_back({.path = entry.path,
                            .written = entry.written,
                            .value = value_text(entry),
                            .change = {},
                            .here = words_of(file, entry),
                            .known = entry.key != nullptr});
  }
}

DeepSpeedLine* DeepSpeedMapper::line(std::string_view path) {
  const auto found = std::ranges::find(result.lines, path, &DeepSpeedLine::path);
  return found == result.lines.end() ? nullptr : &*found;
}

void DeepSpeedMapper::set(std::string_view path, const Change& change, std::string here) {
  result.change += change;
  if (DeepSpeedLine* known = line(path)) known->change += change;
  if (!here.empty()) say(path, std::move(here));
}

void DeepSpeedMapper::say(std::string_view path, std::string here) {
  if (DeepSpeedLine* known = line(path)) known->here = std::move(here);
}

void DeepSpeedMapper::say_of_block(std::string_view block, std::string_view except,
                                   const std::string& here) {
  for (DeepSpeedLine& known : result.lines) {
    if (known.known && known.path.starts_with(block) && known.path != except) known.here = here;
  }
}

void DeepSpeedMapper::show(std::string_view path, std::string value) {
  if (DeepSpeedLine* known = line(path)) known->value = std::move(value);
}

void DeepSpeedMapper::refuse(std::string_view path, std::string here) {
  if (DeepSpeedLine* known = line(path)) {
    known->here = std::move(here);
    known->refused = true;
  }
}

DeepSpeedMapped map_deepspeed(const DeepSpeedConfig& file, const DeepSpeedPlace& place) {
  DeepSpeedMapper m(file, place);
  map_mesh(m);
  map_batches(m);
  map_precision(m);
  map_zero(m);
  map_offload(m);
  map_checkpointing(m);
  map_optimizer(m);
  map_scheduler(m);
  map_other_learning(m);
  say_what_is_left_open(m);
  return std::move(m.result);
}

}  // namespace snug

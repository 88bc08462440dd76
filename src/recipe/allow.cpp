#include "recipe/allow.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "recipe/option_checks.h"

namespace snug {
namespace {

// "--precision bf16 --master none": the options of a dimension as they are.
std::string flags_now(const DimensionRow& dimension, const Options& options) {
  std::vector<std::string> flags;
  for (const std::string_view option : dimension.options) {
    each_option(options, [&](std::string_view key, const auto& value, std::string_view, OptionUse) {
      if (key == option) flags.push_back(fmt::format("--{} {}", key, value));
    });
  }
  return join(flags, " ");
}

bool at_default(const DimensionRow& dimension, const Options& options) {
  return flags_now(dimension, options) == flags_now(dimension, Options{});
}

}  // namespace

bool allows(const Options& o, std::string_view dimension) {
  const std::vector<std::string> words = split(o.allow, ',');
  return std::ranges::any_of(words,
                             [&](const std::string& w) { return w == "all" || w == dimension; });
}

void check_allow(const Options& o, bool has_budget) {
  if (o.allow.empty()) return;
  std::vector<std::string> words;
  for (const DimensionRow& d : dimensions())
    if (d.needs_allow) words.emplace_back(d.name);
  words.emplace_back("all");
  for (const std::string& word : split(o.allow, ',')) require_word(word, "allow", words);
  if (!has_budget) {
    throw usage_error("--allow {}: there is nothing to choose it for", o.allow)
        .hint("give --budget BYTES or --gpu NAME");
  }
  for (const DimensionRow& d : dimensions()) {
    if (!d.needs_allow || o.allow == "all" || !allows(o, d.name) || at_default(d, o)) continue;
    throw usage_error("--allow {} and {}: one leaves open what the other pins", d.name,
                      flags_now(d, o))
        .hint("leave one of them out");
  }
}

bool is_open(const DimensionRow& dimension, const Options& asked) {
  return at_default(dimension, asked) && (!dimension.needs_allow || allows(asked, dimension.name));
}

}  // namespace snug

#include "recipe/open_dimensions.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace snug {
namespace {

// "--precision bf16 --master none": the options of a dimension as they are.
std::string flags_now(const DimensionRow& dimension, const Options& options) {
  std::vector<std::string> flags;
  for (const Option* option : dimension.options)
    flags.push_back(fmt::format("--{} {}", option->key, option->text(options)));
  return join(flags, " ");
}

bool at_default(const DimensionRow& dimension, const Options& options) {
  return std::ranges::all_of(dimension.options,
                             [&](const Option* o) { return is_at_default(*o, options); });
}

}  // namespace

bool is_at_default(const Option& option, const Options& asked) {
  static const Options plain;
  return option.same(asked, plain);
}

void check_allow(const Options& o, bool has_budget) {
  if (!o.allow.any()) return;
  if (!has_budget) {
    throw usage_error("--allow {}: there is nothing to choose it for", text(o.allow))
        .hint("give --budget BYTES or --gpu NAME");
  }
  for (const DimensionRow& d : dimensions()) {
    if (!d.needs_allow || o.allow.all || !o.allow.has(*d.needs_allow) || at_default(d, o)) continue;
    throw usage_error("--allow {} and {}: one leaves open what the other pins", d.name,
                      flags_now(d, o))
        .hint("leave one of them out");
  }
}

bool is_open(const DimensionRow& dimension, const Options& asked) {
  return at_default(dimension, asked) &&
         (!dimension.needs_allow || asked.allow.has(*dimension.needs_allow));
}

}  // namespace snug

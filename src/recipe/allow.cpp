#include "recipe/allow.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "recipe/option_checks.h"

namespace snug {

bool optimizer_is_default(const Options& o) {
  return o.optimizer == Options{}.optimizer && o.state_dtype == Options{}.state_dtype;
}
bool precision_is_default(const Options& o) {
  return o.precision == Options{}.precision && o.master == Options{}.master;
}
bool compress_is_default(const Options& o) { return o.compress == Options{}.compress; }

bool allows(const Options& o, std::string_view what) {
  const std::vector<std::string> words = split(o.allow, ',');
  return std::ranges::any_of(words, [&](const std::string& w) { return w == "all" || w == what; });
}

void check_allow(const Options& o, bool has_budget) {
  if (o.allow.empty()) return;
  for (const std::string& word : split(o.allow, ','))
    require_word(word, "allow", {"optimizer", "precision", "compress", "all"});
  if (!has_budget) {
    throw usage_error("--allow {}: there is nothing to choose it for", o.allow)
        .hint("give --budget BYTES or --gpu NAME");
  }
  const auto refuse = [&](std::string_view what, const std::string& pinned) {
    if (o.allow == "all" || !allows(o, what)) return;
    throw usage_error("--allow {} and {}: one leaves open what the other pins", what, pinned)
        .hint("leave one of them out");
  };
  if (!optimizer_is_default(o))
    refuse("optimizer", fmt::format("--optimizer {} --state-dtype {}", o.optimizer, o.state_dtype));
  if (!precision_is_default(o))
    refuse("precision", fmt::format("--precision {} --master {}", o.precision, o.master));
  if (!compress_is_default(o)) refuse("compress", "--compress " + o.compress);
}

}  // namespace snug

#include "settings/change.h"

#include <algorithm>

#include "base/number.h"
#include "base/text.h"

namespace snug {

const OptionValue* Change::find(const Option& option) const {
  const auto found = std::ranges::find(settings_, &option, &OptionValue::option);
  return found == settings_.end() ? nullptr : &*found;
}

Change& Change::operator+=(const Change& more) {
  for (const OptionValue& setting : more.settings_) {
    const auto known = std::ranges::find(settings_, setting.option, &OptionValue::option);
    if (known == settings_.end()) {
      settings_.push_back(setting);
    } else {
      known->value = setting.value;
    }
  }
  return *this;
}

std::string flags_of(const Change& change) {
  std::vector<std::string> flags;
  for (const OptionValue& setting : change.settings()) {
    const bool is_flag = setting.option->kind == ValueKind::flag;
    flags.push_back(is_flag ? fmt::format("--{}", setting.option->key)
                            : fmt::format("--{} {}", setting.option->key, setting.text()));
  }
  return join(flags, " ");
}

Options changed(Options options, const Change& change) {
  for (const OptionValue& setting : change.settings())
    setting.option->assign(options, setting.value);
  return options;
}

double as_shown(double value) {
  double shown = value;
  read_number(fmt::format("{:g}", value), shown);
  return shown;
}

}  // namespace snug

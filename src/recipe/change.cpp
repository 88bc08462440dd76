#include "recipe/change.h"

#include <algorithm>
#include <type_traits>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"

namespace snug {
namespace {

std::string flag_of(const OptionValue& setting) {
  if (std::holds_alternative<bool>(setting.value)) return fmt::format("--{}", setting.option);
  return std::visit(
      [&](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, double>)
          return fmt::format("--{} {:g}", setting.option, value);
        else
          return fmt::format("--{} {}", setting.option, value);
      },
      setting.value);
}

void apply(Options& options, const OptionValue& setting) {
  bool known = false;
  each_option(options, [&](std::string_view name, auto& member, std::string_view, OptionUse) {
    if (name != setting.option) return;
    const auto* value = std::get_if<std::decay_t<decltype(member)>>(&setting.value);
    if (value == nullptr) throw internal_error("'{}' is of another type", flag_of(setting));
    member = *value;
    known = true;
  });
  if (!known) throw internal_error("'{}' is not an option", flag_of(setting));
}

}  // namespace

bool Change::sets(std::string_view option) const {
  return std::ranges::any_of(settings_, [&](const OptionValue& s) { return s.option == option; });
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
  for (const OptionValue& setting : change.settings()) flags.push_back(flag_of(setting));
  return join(flags, " ");
}

Options changed(Options options, const Change& change) {
  for (const OptionValue& setting : change.settings()) apply(options, setting);
  return options;
}

double as_shown(double value) {
  double shown = value;
  read_number(fmt::format("{:g}", value), shown);
  return shown;
}

}  // namespace snug

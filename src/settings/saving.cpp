#include "settings/saving.h"

#include "base/error.h"
#include "base/number.h"
#include "base/units.h"
#include "settings/amounts.h"

namespace snug {
namespace {

constexpr std::string_view kRollback = "rollback";

}  // namespace

SaveInterval SaveInterval::parse(std::string_view text, std::string_view option) {
  if (text.empty()) return {};
  SaveInterval interval;
  if (read_number(text, interval.steps) && interval.steps > 0) return interval;
  if (const auto seconds = parse_seconds(text)) return {.seconds = *seconds};
  throw usage_error("--{} '{}' is neither a number of steps nor a time", option, text)
      .hint("for example --save-every 100, or 10min, 90s, 2h");
}

std::string text(const SaveInterval& interval) {
  if (interval.none()) return "";
  return interval.steps > 0 ? fmt::format("{}", interval.steps)
                            : exact_seconds_text(interval.seconds);
}

std::string in_words(const SaveInterval& interval) {
  return interval.steps > 0 ? counted(interval.steps, "step") : format_seconds(interval.seconds);
}

OnNan OnNan::parse(std::string_view text, std::string_view option) {
  constexpr int64_t kTimes = 3;
  if (text == "stop") return {};
  if (text == "skip") return {.action = Action::skip};
  OnNan on{.action = Action::rollback, .times = kTimes};
  if (text == kRollback) return on;
  const bool numbered = text.starts_with(kRollback) && text[kRollback.size()] == ':' &&
                        read_number(text.substr(kRollback.size() + 1), on.times) && on.times > 0;
  if (numbered) return on;
  throw usage_error("--{} '{}' is not stop, skip, rollback or rollback:N", option, text);
}

std::string text(const OnNan& on_nan) {
  if (on_nan.action == OnNan::Action::rollback)
    return fmt::format("{}:{}", kRollback, on_nan.times);
  return on_nan.action == OnNan::Action::skip ? "skip" : "stop";
}

}  // namespace snug

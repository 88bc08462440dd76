// --save-every and --on-nan.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

// After so many steps, or so much time; neither: at the end only.
struct SaveInterval {
  int64_t steps = 0;
  double seconds = 0;

  bool none() const { return steps == 0 && seconds == 0; }
  friend bool operator==(const SaveInterval&, const SaveInterval&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // "100", "90s", "10min", "2h"; "" is none.
  static SaveInterval parse(std::string_view text, std::string_view option);
};
std::string text(const SaveInterval& interval);
// For people: "20 steps", "10 m 00 s".
std::string in_words(const SaveInterval& interval);

// What becomes of a run whose loss is not finite.
struct OnNan {
  enum class Action : uint8_t { stop, skip, rollback } action = Action::stop;
  int64_t times = 0;  // that it goes back at most

  friend bool operator==(const OnNan&, const OnNan&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // stop | skip | rollback[:N]
  static OnNan parse(std::string_view text, std::string_view option);
};
std::string text(const OnNan& on_nan);

}  // namespace snug

// Amounts of memory and time, as options have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

// --budget and the like: "24GiB", or "" where there is none.
struct ByteLimit {
  std::optional<int64_t> bytes = {};

  bool given() const { return bytes.has_value(); }
  friend bool operator==(const ByteLimit&, const ByteLimit&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static ByteLimit parse(std::string_view text, std::string_view option);
};
std::string text(const ByteLimit& limit);

// --grace: "30s", "10min", "2h", or "" where there is none.
struct TimeSpan {
  std::optional<double> seconds = {};

  bool given() const { return seconds.has_value(); }
  friend bool operator==(const TimeSpan&, const TimeSpan&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  static TimeSpan parse(std::string_view text, std::string_view option);
};
std::string text(const TimeSpan& time);

// The shortest texts that parse_bytes and parse_seconds read back exactly.
std::string exact_bytes_text(int64_t bytes);
std::string exact_seconds_text(double seconds);
// parse_bytes, with the option in front of what is wrong.
int64_t parse_bytes_of(std::string_view text, std::string_view option);

}  // namespace snug

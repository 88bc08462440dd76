#include "settings/amounts.h"

#include <span>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"

namespace snug {
namespace {

struct Unit {
  std::string_view name;
  double size;
};
// In a tie the earlier one wins.
constexpr Unit kByteUnits[] = {{"TiB", 0x1p40}, {"GiB", 0x1p30}, {"MiB", 0x1p20},
                               {"KiB", 0x1p10}, {"TB", 1e12},    {"GB", 1e9},
                               {"MB", 1e6},     {"KB", 1e3},     {"", 1}};
constexpr Unit kTimeUnits[] = {{"h", 3600}, {"min", 60}, {"s", 1}};

// "0.000001", not "1e-06".
std::string without_exponent(double number) {
  std::string text = fmt::format("{}", number);
  if (text.find('e') == std::string::npos) return text;
  text = fmt::format("{:.12f}", number);
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

template <typename Reads>
std::string shortest(double amount, std::span<const Unit> units, const Reads& reads_back) {
  std::string best;
  for (const Unit& unit : units) {
    const std::string text = without_exponent(amount / unit.size) + std::string(unit.name);
    if ((best.empty() || text.size() < best.size()) && reads_back(text)) best = text;
  }
  return best;
}

}  // namespace

std::string exact_bytes_text(int64_t bytes) {
  const std::string text = shortest(static_cast<double>(bytes), kByteUnits,
                                    [&](const std::string& t) { return parse_bytes(t) == bytes; });
  return text.empty() ? fmt::format("{}", bytes) : text;
}

std::string exact_seconds_text(double seconds) {
  const std::string text = shortest(seconds, kTimeUnits, [&](const std::string& t) {
    return parse_seconds(t) == std::optional(seconds);
  });
  return text.empty() ? fmt::format("{}s", seconds) : text;
}

int64_t parse_bytes_of(std::string_view text, std::string_view option) {
  try {
    return parse_bytes(text);
  } catch (const Error& error) {
    throw usage_error("--{} {}", option, error.what()).hint(error.hint());
  }
}

ByteLimit ByteLimit::parse(std::string_view text, std::string_view option) {
  if (text.empty()) return {};
  return {.bytes = parse_bytes_of(text, option)};
}

std::string text(const ByteLimit& limit) {
  return limit.given() ? exact_bytes_text(*limit.bytes) : "";
}

TimeSpan TimeSpan::parse(std::string_view text, std::string_view option) {
  if (text.empty()) return {};
  const std::optional<double> seconds = parse_seconds(text);
  if (!seconds)
    throw usage_error("--{} '{}' is not a time", option, text)
        .hint(fmt::format("for example --{} 30s", option));
  return {.seconds = seconds};
}

std::string text(const TimeSpan& time) {
  return time.given() ? exact_seconds_text(*time.seconds) : "";
}

}  // namespace snug

#include "base/units.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/number.h"

namespace snug {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 14> kUnits{{
    {"", 1},
    {"b", 1},
    {"kb", 1e3},
    {"mb", 1e6},
    {"gb", 1e9},
    {"tb", 1e12},
    {"kib", 1024.0},
    {"mib", 1048576.0},
    {"gib", 1073741824.0},
    {"tib", 1099511627776.0},
    {"k", 1024.0},
    {"m", 1048576.0},
    {"g", 1073741824.0},
    {"t", 1099511627776.0},
}};

}  // namespace

int64_t parse_bytes(std::string_view text) {
  auto wrong = [&] {
    return usage_error("'{}' is not an amount of memory", text)
        .hint("write it like 24GiB, 80GB or 512MiB");
  };
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{} || !std::isfinite(number) || number < 0) throw wrong();
  std::string unit;
  for (; rest != end; ++rest) {
    if (*rest != ' ') unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*rest)));
  }
  for (const auto& [name, factor] : kUnits) {
    if (name != unit) continue;
    if (number * factor > 9.0e18) throw wrong();
    return std::llround(number * factor);
  }
  throw wrong();
}

std::optional<double> parse_seconds(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kTimes{
      {{"min", 60}, {"s", 1}, {"h", 3600}, {"m", 60}}};
  for (const auto& [unit, seconds] : kTimes) {
    double number = 0;
    if (text.ends_with(unit) && read_number(text.substr(0, text.size() - unit.size()), number) &&
        number > 0 && number * seconds < 1e9)
      return number * seconds;
  }
  return std::nullopt;
}

std::string format_bytes(int64_t bytes) {
  constexpr std::array names{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", value, names[unit]);
}

std::string format_exact(int64_t number) {
  std::string digits = fmt::format("{}", number < 0 ? -number : number);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return number < 0 ? "-" + digits : digits;
}

std::string format_count(double number) {
  constexpr std::array names{"", " k", " M", " B", " T"};
  size_t unit = 0;
  while (std::abs(number) >= 1000 && unit + 1 < names.size()) {
    number /= 1000;
    ++unit;
  }
  if (unit == 0) return fmt::format("{:.4g}", number);
  return fmt::format("{:.2f}{}", number, names[unit]);
}

std::string format_seconds(double seconds) {
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(seconds);
  if (whole < 3600) return fmt::format("{} m {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} m", whole / 3600, whole % 3600 / 60);
}

std::string format_rate(double per_second) {
  return per_second >= 99.5 ? format_exact(std::llround(per_second))
                            : fmt::format("{:.2g}", per_second);
}

std::string counted(int64_t number, std::string_view noun) {
  const bool hisses = noun.ends_with("ch") || noun.ends_with("s") || noun.ends_with("x");
  return fmt::format("{} {}{}", format_exact(number), noun,
                     number == 1 ? "" : (hisses ? "es" : "s"));
}

int64_t checked_mul(int64_t a, int64_t b, std::string_view what) {
  int64_t out = 0;
  if (__builtin_mul_overflow(a, b, &out)) {
    throw usage_error("{} is absurdly large: {} x {} does not fit in 63 bits", what, a, b);
  }
  return out;
}

int64_t checked_add(int64_t a, int64_t b, std::string_view what) {
  int64_t out = 0;
  if (__builtin_add_overflow(a, b, &out)) {
    throw usage_error("{} is absurdly large: {} + {} does not fit in 63 bits", what, a, b);
  }
  return out;
}

}  // namespace snug

// Bytes, counts and durations as people write them. GB is 10^9 and GiB is 2^30, never confused.
//
//   parse_bytes("24GiB") == 25'769'803'776      format_bytes(1'536) == "1.50 KiB"
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

// Accepts a number with B, KB, MB, GB, TB, KiB, MiB, GiB, TiB (or no unit: bytes). Throws a usage
// error otherwise.
int64_t parse_bytes(std::string_view text);

// "90s", "10min", "2h": seconds; none of anything else.
std::optional<double> parse_seconds(std::string_view text);

std::string format_bytes(int64_t bytes);     // "1.50 KiB", "24.00 GiB"
std::string format_exact(int64_t number);    // "25,769,803,776"
std::string format_count(double number);     // "494.03 M", "7.24 B"
std::string format_seconds(double seconds);  // "850 ms", "1 m 02 s", "3 h 05 m"
std::string format_rate(double per_second);  // "13,804", "9.4", "0.042": never 0 for what moves

// "1 window", "1,024 windows", "2 micro-batches"
std::string counted(int64_t number, std::string_view noun);

// a*b and a+b that throw a usage error naming `what` instead of wrapping.
int64_t checked_mul(int64_t a, int64_t b, std::string_view what);
int64_t checked_add(int64_t a, int64_t b, std::string_view what);

constexpr int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
constexpr int64_t ceil_div(int64_t n, int64_t by) { return (n + by - 1) / by; }

}  // namespace snug

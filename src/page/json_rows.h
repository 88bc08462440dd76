// The rows of a run's JSONL file. Whatever is in the file, memory and time stay small: a row has a longest length, and what
// is longer is not parsed.
//
//   const int64_t unreadable = read_rows(file, [&](const nlohmann::json& row) { return add(number_in(row, "loss")); });
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace snug {

inline constexpr size_t kLongestRow = size_t{1} << 16;

// Visits every object; the visitor returns false where it is none of its kind. Returns how many lines were none: neither
// blank ones nor an end without a newline, which a run that is going on has yet to complete.
int64_t read_rows(const std::filesystem::path& file,
                  const std::function<bool(const nlohmann::json&)>& visit);

// Empty where it has none; the beginning of one that is longer than a page shows.
std::string short_text_in(const nlohmann::json& row, const char* key);
// Not a number where it has none.
double number_in(const nlohmann::json& row, const char* key);

}  // namespace snug

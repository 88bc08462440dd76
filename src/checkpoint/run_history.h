// A run's history in its --out directory: history.jsonl, a line for each step and each evaluation,
// there as soon as the step is.
//
//   RunHistory history("runs/a/history.jsonl");
//   history.go_on_from(old, 120);             // a run that is resumed has its first 120 steps
//   history.add(121, line);
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace snug {

constexpr const char* kHistoryFile = "history.jsonl";

// The lines of a history up to that step; what is no such line is left out, half a line at the end
// too.
std::string history_until(std::string_view text, int64_t step);

class RunHistory {
 public:
  explicit RunHistory(std::filesystem::path path) : path_(std::move(path)) {}

  // Appends after these steps of another history, or of its own. Nothing is written yet.
  void go_on_from(const std::filesystem::path& history, int64_t step);
  // Flushed when this returns. False where it could not be written.
  bool add(std::string_view line);

 private:
  bool open();

  std::filesystem::path path_;
  std::string before_;  // what stays, until the file is open
  std::ofstream file_;
};

}  // namespace snug

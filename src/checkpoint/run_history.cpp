#include "checkpoint/run_history.h"

#include <nlohmann/json.hpp>

#include "base/current_error.h"
#include "base/text.h"

namespace snug {

std::string history_until(std::string_view text, int64_t step) {
  std::string kept;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    if (end == std::string_view::npos) break;  // a process that was killed while it wrote
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) continue;
    if (json["step"].get<int64_t>() <= step) kept.append(line) += '\n';
  }
  return kept;
}

void RunHistory::go_on_from(const std::filesystem::path& history, int64_t step) {
  std::error_code ignored;
  file_.close();
  before_.clear();
  if (step > 0 && std::filesystem::is_regular_file(history, ignored))
    before_ = history_until(read_file(history), step);
}

bool RunHistory::open() {
  try {
    write_file_atomically(path_, before_);
  } catch (...) {
    return false;
  }
  before_.clear();
  file_.clear();
  file_.open(path_, std::ios::app);
  return static_cast<bool>(file_);
}

bool RunHistory::add(std::string_view line) {
  if (!file_.is_open() && !open()) return false;
  file_ << line << '\n' << std::flush;
  return static_cast<bool>(file_);
}

}  // namespace snug

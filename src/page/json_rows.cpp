#include "page/json_rows.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "formats/file_reader.h"
#include "formats/json_depth.h"
#include "report/layout.h"

namespace snug {

int64_t read_rows(const std::filesystem::path& file,
                  const std::function<bool(const nlohmann::json&)>& visit) {
  const auto is_row = [&](const std::string& line) {
    if (line.size() > kLongestRow) return false;
    require_shallow_json(line, file.string());
    const nlohmann::json row = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    return row.is_object() && visit(row);
  };
  int64_t unreadable = 0;
  std::string line;  // its first kLongestRow + 1 bytes
  FileReader(file).each_block(0, [&](int64_t, std::span<const std::byte> block) {
    std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
    while (!text.empty()) {
      const size_t end = text.find('\n');
      line += text.substr(0, std::min(end, kLongestRow + 1 - line.size()));
      if (end == text.npos) break;
      text.remove_prefix(end + 1);
      if (!trim(line).empty() && !is_row(line)) ++unreadable;
      line.clear();
    }
    return true;
  });
  if (!trim(line).empty()) static_cast<void>(is_row(line));
  return unreadable;
}

std::string short_text_in(const nlohmann::json& row, const char* key) {
  constexpr size_t kLongest = 300;
  const auto found = row.find(key);
  return found != row.end() && found->is_string() ? without_end(found->get<std::string>(), kLongest)
                                                  : "";
}

double number_in(const nlohmann::json& row, const char* key) {
  const auto found = row.find(key);
  return found == row.end() || !found->is_number() ? std::numeric_limits<double>::quiet_NaN()
                                                   : found->get<double>();
}

}  // namespace snug

#include "report/deepspeed_report.h"

#include <cmath>

#include "base/text.h"
#include "base/units.h"
#include "report/layout.h"
#include "report/plan_report_parts.h"

namespace snug {
namespace {

constexpr size_t kKeyColumns = 40;
constexpr size_t kValueColumns = 17;
constexpr size_t kHereColumns = 39;

std::string more_or_less(double amount, const std::string& text) {
  return (amount < 0 ? "-" : "+") + text;
}

// "-12.55 GiB,", "host +25.10 GiB,", "+410.2 ms a step": none where nothing shows.
std::vector<std::string> effect_parts(const KeyEffect& effect) {
  std::vector<std::string> parts;
  const auto add = [&](const char* where, int64_t bytes) {
    if (bytes != 0)
      parts.push_back(where +
                      more_or_less(static_cast<double>(bytes), format_bytes(std::abs(bytes))));
  };
  add("", effect.device_bytes);
  add("host ", effect.host_bytes);
  add("disk ", effect.disk_bytes);
  constexpr double kShows = 0.05;
  if (std::abs(effect.step_ms) >= kShows)
    parts.push_back(more_or_less(effect.step_ms, step_text(std::abs(effect.step_ms))) + " a step");
  for (size_t i = 0; i + 1 < parts.size(); ++i) parts[i] += ",";
  return parts;
}

// In lines of the last column; a word that is longer is cut, after a comma where it has one.
std::vector<std::string> here_lines(const std::string& text) {
  std::vector<std::string> words;
  for (std::string& word : split(text, ' ')) {
    while (word.size() > kHereColumns) {
      const size_t comma = word.rfind(',', kHereColumns - 1);
      const size_t cut = comma == word.npos ? kHereColumns : comma + 1;
      words.push_back(word.substr(0, cut));
      word.erase(0, cut);
    }
    words.push_back(std::move(word));
  }
  return lines_of(words, kHereColumns);
}

struct NameInBlock {
  std::string block, name;
};
NameInBlock name_in_block(const std::string& key) {
  const size_t dot = key.rfind('.');
  if (dot == key.npos) return {"", key};
  return {key.substr(0, dot), key.substr(dot + 1)};
}

std::string here_text(const DeepSpeedRow& row) {
  if (row.refused) return "refused: " + row.here;
  if (!row.instead.empty()) return row.instead + " of the command line wins";
  return row.flags.empty() ? row.here : fmt::format("{}: {}", row.flags, row.here);
}

std::string key_lines(const DeepSpeedRow& row, const Paint& paint) {
  const auto [block, name] = name_in_block(row.key);
  const std::string indent = block.empty() ? "" : "  ";
  std::vector<std::string> lines = here_lines(here_text(row));
  const size_t words = lines.size();
  if (row.effect) {
    if (const std::vector<std::string> parts = effect_parts(*row.effect); !parts.empty())
      for (std::string& line : lines_of(parts, kHereColumns)) lines.push_back(std::move(line));
  }
  std::string out = fmt::format("{:<{}} {:>{}}", indent + without_end(name, kKeyColumns - 2),
                                kKeyColumns, without_end(row.value, kValueColumns), kValueColumns);
  const bool does_nothing = row.flags.empty() && !row.refused;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += fmt::format("{:<{}}", "", kKeyColumns + 1 + kValueColumns);
    const bool quiet = does_nothing || (i < words && !row.instead.empty());
    out += "  " + (row.refused ? paint.bad(lines[i]) : quiet ? paint.quiet(lines[i]) : lines[i]);
    out += "\n";
  }
  return out;
}

Json effect_json(const std::optional<KeyEffect>& effect) {
  if (!effect) return nullptr;
  return {{"device_bytes", effect->device_bytes},
          {"host_bytes", effect->host_bytes},
          {"disk_bytes", effect->disk_bytes},
          {"step_ms", effect->step_ms}};
}

}  // namespace

std::string deepspeed_table(const DeepSpeedFacts& file, const MemoryBreakdown& memory,
                            const PlanFacts& facts, const Paint& paint) {
  std::string out =
      paint.title(fmt::format("{:<{}} {:>{}}  here\n", without_beginning(file.file, kKeyColumns),
                              kKeyColumns, "value", kValueColumns));
  std::string block;
  for (const DeepSpeedRow& row : file.rows) {
    const std::string own = name_in_block(row.key).block;
    if (own != block && !own.empty()) out += paint.title(own) + "\n";
    block = own;
    out += key_lines(row, paint);
  }
  out += "\n" + paint.title("as options") + "\n";
  for (const std::string& line : flag_lines(file.flags, kTableColumns - 2))
    out += "  " + line + "\n";
  return out + "\n" + summary_text(memory, facts, paint);
}

std::string deepspeed_json(const DeepSpeedFacts& file, const MemoryBreakdown& memory,
                           const PlanFacts& facts) {
  Json keys = Json::array();
  for (const DeepSpeedRow& row : file.rows) {
    keys.push_back({{"key", row.key},
                    {"value", row.value},
                    {"flags", or_null(row.flags)},
                    {"instead", or_null(row.instead)},
                    {"here", row.here},
                    {"known", row.known},
                    {"refused", row.refused},
                    {"effect", effect_json(row.effect)}});
  }
  const Json out{{"file", file.file},
                 {"keys", keys},
                 {"flags", file.flags},
                 {"plan", plan_json(memory, facts)}};
  return out.dump(2);
}

}  // namespace snug

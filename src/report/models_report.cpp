#include "report/models_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace snug {

std::string models_table(std::span<const ModelLine> models) {
  std::string out = fmt::format("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}\n", "name", "params",
                                "layers", "width", "heads", "vocab", "family");
  for (const ModelLine& m : models) {
    const std::string heads = m.heads == m.kv_heads
                                  ? fmt::format("{}", m.heads)
                                  : fmt::format("{} ({} kv)", m.heads, m.kv_heads);
    out += fmt::format("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}{}\n", m.name,
                       format_count(static_cast<double>(m.parameters)), m.layers, m.width, heads,
                       m.vocabulary, m.family, m.note.empty() ? "" : " - " + m.note);
  }
  return out + fmt::format("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}\n", "mlp:WxL", "", "L", "W", "",
                           "", "mlp - e.g. mlp:4096x48");
}

std::string models_json(std::span<const ModelLine> models) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ModelLine& m : models) {
    out.push_back({{"name", m.name},
                   {"family", m.family},
                   {"params", m.parameters},
                   {"layers", m.layers},
                   {"width", m.width},
                   {"heads", m.heads},
                   {"kv_heads", m.kv_heads},
                   {"vocab", m.vocabulary},
                   {"note", m.note}});
  }
  return out.dump(2);
}

}  // namespace snug

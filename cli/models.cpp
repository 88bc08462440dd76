// snug models: the built-in models.
#include <fmt/format.h>

#include "arguments.h"
#include "base/units.h"
#include "snug/snug.h"
#include "verbs.h"

namespace snug::cli {

int models_verb(const std::vector<std::string>& arguments) {
  CLI::App app("the built-in models", "snug models");
  if (!parse(app, arguments)) return 0;
  fmt::print("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}\n", "name", "params", "layers", "width",
             "heads", "vocab", "family");
  for (const ModelLine& m : models()) {
    const std::string heads = m.heads == m.kv_heads
                                  ? fmt::format("{}", m.heads)
                                  : fmt::format("{} ({} kv)", m.heads, m.kv_heads);
    fmt::print("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}{}\n", m.name,
               format_count(static_cast<double>(m.parameters)), m.layers, m.width, heads,
               m.vocabulary, m.family, m.note.empty() ? "" : " - " + m.note);
  }
  fmt::print("{:<16}{:>10}{:>8}{:>8}{:>11}{:>9}  {}\n", "mlp:WxL", "", "L", "W", "", "",
             "mlp - e.g. mlp:4096x48");
  return 0;
}

}  // namespace snug::cli

#include "report/tokenize_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/units.h"

namespace snug {

std::string tokenize_line(const TokenizeReport& r) {
  const double per_token = static_cast<double>(r.bytes) / static_cast<double>(r.tokens);
  std::string line =
      fmt::format("{} tokens below {} from {} ({} bytes, {:.2f} a token) are in {}",
                  format_exact(r.tokens), format_exact(r.vocabulary),
                  counted(r.documents, "document"), format_exact(r.bytes), per_token, r.out);
  if (r.empty > 0) line += fmt::format("; {} skipped", counted(r.empty, "empty sample"));
  if (r.bad > 0) line += fmt::format("; {} skipped", counted(r.bad, "bad line"));
  return line;
}

std::string tokenize_json(const TokenizeReport& r) {
  return nlohmann::ordered_json{{"tokens", r.tokens},   {"documents", r.documents},
                                {"bytes", r.bytes},     {"vocabulary", r.vocabulary},
                                {"empty", r.empty},     {"bad", r.bad},
                                {"seconds", r.seconds}, {"out", r.out}}
      .dump();
}

}  // namespace snug

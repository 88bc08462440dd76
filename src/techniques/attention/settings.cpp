#include "techniques/attention/settings.h"

#include "settings/chunk_text.h"
#include "settings/setting_text.h"

#include "settings/option_rows.h"

namespace snug {

using ops::AttentionKind;

AttentionChoice AttentionChoice::parse(std::string_view text, std::string_view option) {
  if (const auto chunk = parse_chunked(text, option, "queries"))
    return {.kind = AttentionKind::chunked, .chunk = *chunk};
  require_word(text, option, {"auto", "standard", "chunked", "chunked:QUERIES", "flash"});
  return {.kind = text == "flash" ? AttentionKind::flash : AttentionKind::standard};
}

std::string text(const AttentionChoice& attention) {
  switch (attention.kind) {
    case AttentionKind::standard:
      return "standard";
    case AttentionKind::flash:
      return "flash";
    case AttentionKind::chunked:
      break;
  }
  return chunked_text(attention.chunk);
}

std::vector<Option> attention_options() {
  return {option_row(
      "attention", &Options::attention,
      "auto | standard | chunked[:QUERIES] | flash (auto is flash, or what --budget chooses)",
      {.verbs = Verbs::runs | Verbs::eval | Verbs::doctor, .settled = true})};
}

}  // namespace snug

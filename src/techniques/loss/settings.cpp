#include "techniques/loss/settings.h"

#include "settings/chunk_text.h"
#include "settings/setting_text.h"

#include "settings/option_rows.h"

namespace snug {

LossChoice LossChoice::parse(std::string_view text, std::string_view option) {
  if (const auto chunk = parse_chunked(text, option, "tokens")) return {.chunk = *chunk};
  require_word(text, option, {"auto", "whole", "chunked", "chunked:TOKENS"});
  return {.chunked = false};
}

std::string text(const LossChoice& loss) {
  return loss.chunked ? chunked_text(loss.chunk) : "whole";
}

std::vector<Option> loss_options() {
  return {option_row(
      "loss", &Options::loss,
      "auto | whole | chunked[:TOKENS]: the logits of all tokens at once, or of a chunk at a "
      "time (auto is chunked)",
      {.verbs = Verbs::runs | Verbs::eval | Verbs::doctor, .settled = true})};
}

}  // namespace snug

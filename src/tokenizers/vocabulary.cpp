#include "tokenizers/vocabulary.h"

#include "base/error.h"
#include "base/text.h"

namespace snug {

int32_t token_id(const nlohmann::json& value, std::string_view text, std::string_view where) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMostTokens) {
    throw bad_input("{}: token '{}' has id {}; ids are whole numbers below {}", where,
                    printable(text), value.dump(), kMostTokens);
  }
  return value.get<int32_t>();
}

void require_short(std::string_view token, const JsonPart& model) {
  constexpr size_t kMostBytes = 1024;
  if (token.size() <= kMostBytes) return;
  throw bad_input("{}: a token of {} bytes; {} are understood", model.where(), token.size(),
                  kMostBytes);
}

Vocabulary Vocabulary::read(const JsonPart& model) {
  Vocabulary out;
  const JsonPart part = model.part("vocab");
  const nlohmann::json& vocab = part.json();
  out.ids_.reserve(vocab.size());
  for (const auto& [text, id] : vocab.items())
    out.ids_.insert_or_assign(text, token_id(id, text, model.where()));
  if (out.ids_.empty()) model.refuse("its vocabulary is empty");
  return out;
}

int32_t Vocabulary::require(std::string_view text, const JsonPart& model,
                            std::string_view what) const {
  const int32_t id = find(text);
  if (id == kNoToken)
    throw bad_input("{}: {} '{}' is not in its vocabulary", model.where(), what, printable(text));
  return id;
}

}  // namespace snug

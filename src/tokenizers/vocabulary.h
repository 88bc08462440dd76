// The tokens of a model by their text.
//
//   const Vocabulary vocabulary = Vocabulary::read(part);   // part has {"vocab": {"a": 0, ...}}
//   vocabulary.find("a");   // 0, or -1
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "tokenizers/json_part.h"

namespace snug {

constexpr int32_t kNoToken = -1;
// Ids beyond it are not a vocabulary but damage: tables of so many would be made.
constexpr int64_t kMostTokens = int64_t{1} << 24;

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using TokenIds = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  // Of "vocab", an object of ids. Throws bad_input for ids that are no ids.
  static Vocabulary read(const JsonPart& model);

  int32_t find(std::string_view text) const {
    const auto found = ids_.find(text);
    return found == ids_.end() ? kNoToken : found->second;
  }
  // find(), and bad_input where it is missing: `what` says whose it is.
  int32_t require(std::string_view text, const JsonPart& model, std::string_view what) const;
  void add(std::string text, int32_t id) { ids_.insert_or_assign(std::move(text), id); }
  const TokenIds& ids() const { return ids_; }

 private:
  TokenIds ids_;
};

// Models that try every length of a word look at as many bytes as the longest token has. Throws
// bad_input for one that no vocabulary of text holds.
void require_short(std::string_view token, const JsonPart& model);

// An id as a token of a vocabulary may have it; throws bad_input for any other value.
int32_t token_id(const nlohmann::json& value, std::string_view text, std::string_view where);

}  // namespace snug

// Tokens that are found in the text itself before anything else: "<|endoftext|>", "[MASK]".
//
//   AddedTokens tokens;
//   tokens.add({.content = "<s>", .id = 1, .special = true});
//   tokens.each("a<s>", [](Range range, int32_t id) { ... });   // {0, 1} kNoToken, {1, 4} 1
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/json_part.h"
#include "tokenizers/regex.h"
#include "tokenizers/utf8.h"
#include "tokenizers/vocabulary.h"

namespace snug {

struct AddedToken {
  std::string content;
  int32_t id = kNoToken;
  bool special = false;                 // left out where text is made of tokens
  bool single_word = false;             // not inside a word
  bool lstrip = false, rstrip = false;  // takes the spaces next to it
  bool normalized = false;              // looked for in normalized text
};

// Of "added_tokens", where there are any. Throws bad_input.
std::vector<AddedToken> read_added_tokens(const JsonPart& root);

// Tokens by their bytes: the longest of those that begin leftmost is found.
class AddedTokens {
 public:
  // `as_found`: how the text spells it.
  void add(const AddedToken& token, std::string_view as_found);
  bool empty() const { return tokens_.empty(); }

  // Calls visit(range, id) for tokens, and with kNoToken for the text between them, in order.
  template <typename Visit>
  void each(std::string_view text, const Visit& visit) const {
    size_t done = 0;
    for (size_t from = 0; from < text.size();) {
      const Found found = find(text, from);
      if (found.token == nullptr) break;
      from = found.range.end;
      const Range range = with_spaces(text, found, done);
      if (is_refused(text, found)) continue;
      if (range.begin > done) visit(Range{done, range.begin}, kNoToken);
      visit(range, found.token->id);
      done = range.end;
      from = std::max(from, done);
    }
    if (done < text.size()) visit(Range{done, text.size()}, kNoToken);
  }

 private:
  struct Found {
    const AddedToken* token = nullptr;
    Range range;
  };
  struct Node {
    std::vector<std::pair<unsigned char, uint32_t>> next;
    int32_t token = -1;  // that ends here
  };
  Found find(std::string_view text, size_t from) const;
  Found longest_at(std::string_view text, size_t at) const;
  const Node* step(const Node& node, char c) const;
  static Range with_spaces(std::string_view text, const Found& found, size_t done);
  static bool is_refused(std::string_view text, const Found& found);

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_{1};
  std::array<bool, 256> begins_{};  // some token begins with that byte
};

}  // namespace snug

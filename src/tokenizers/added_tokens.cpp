#include "tokenizers/added_tokens.h"

#include <algorithm>

#include "base/error.h"

namespace snug {
namespace {

const Regex& word_letter() {
  static const Regex regex(R"(\w)", "an added token with single_word");
  return regex;
}

bool begins_with_word_letter(std::string_view text) {
  const std::string_view first = text.substr(0, code_point_at(text, 0).bytes);
  return word_letter().find(first, 0).has_value();
}

bool ends_with_word_letter(std::string_view text) {
  const size_t bytes = code_point_before(text, text.size()).bytes;
  return begins_with_word_letter(text.substr(text.size() - bytes));
}

}  // namespace

std::vector<AddedToken> read_added_tokens(const JsonPart& root) {
  std::vector<AddedToken> out;
  if (!root.has("added_tokens")) return out;
  for (const JsonPart& part : root.parts("added_tokens")) {
    AddedToken token{.content = part.text("content"),
                     .special = part.flag("special", false),
                     .single_word = part.flag("single_word", false),
                     .lstrip = part.flag("lstrip", false),
                     .rstrip = part.flag("rstrip", false)};
    part.number("id");
    token.id = token_id(part.json().at("id"), token.content, part.where());
    token.normalized = part.flag("normalized", !token.special);
    if (token.single_word) word_letter();  // refused now where no pattern can be
    out.push_back(std::move(token));
  }
  return out;
}

void AddedTokens::add(const AddedToken& token, std::string_view as_found) {
  if (as_found.empty()) return;
  uint32_t at = 0;
  for (const char c : as_found) {
    const auto byte = static_cast<unsigned char>(c);
    const Node* known = step(nodes_[at], c);
    if (known == nullptr) {
      nodes_[at].next.emplace_back(byte, static_cast<uint32_t>(nodes_.size()));
      std::ranges::sort(nodes_[at].next);
      at = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      at = static_cast<uint32_t>(known - nodes_.data());
    }
  }
  begins_[static_cast<unsigned char>(as_found[0])] = true;
  nodes_[at].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(token);
}

const AddedTokens::Node* AddedTokens::step(const Node& node, char c) const {
  const auto byte = static_cast<unsigned char>(c);
  const auto found =
      std::ranges::lower_bound(node.next, byte, {}, &std::pair<unsigned char, uint32_t>::first);
  return found == node.next.end() || found->first != byte ? nullptr : &nodes_[found->second];
}

AddedTokens::Found AddedTokens::longest_at(std::string_view text, size_t at) const {
  Found found;
  const Node* node = nodes_.data();
  for (size_t i = at; i < text.size(); ++i) {
    node = step(*node, text[i]);
    if (node == nullptr) break;
    if (node->token >= 0) found = {&tokens_[static_cast<size_t>(node->token)], {at, i + 1}};
  }
  return found;
}

AddedTokens::Found AddedTokens::find(std::string_view text, size_t from) const {
  if (tokens_.empty()) return {};
  for (size_t at = from; at < text.size(); ++at) {
    if (!begins_[static_cast<unsigned char>(text[at])]) continue;
    const Found found = longest_at(text, at);
    if (found.token != nullptr) return found;
  }
  return {};
}

bool AddedTokens::is_refused(std::string_view text, const Found& found) {
  if (!found.token->single_word) return false;
  const auto [begin, end] = found.range;
  return (begin > 0 && ends_with_word_letter(text.substr(0, begin))) ||
         (end < text.size() && begins_with_word_letter(text.substr(end)));
}

Range AddedTokens::with_spaces(std::string_view text, const Found& found, size_t done) {
  Range range = found.range;
  while (found.token->lstrip && range.begin > done) {
    const CodePoint c = code_point_before(text, range.begin);
    if (!is_white_space(c.value)) break;
    range.begin -= c.bytes;
  }
  while (found.token->rstrip && range.end < text.size()) {
    const CodePoint c = code_point_at(text, range.end);
    if (!is_white_space(c.value)) break;
    range.end += c.bytes;
  }
  return range;
}

}  // namespace snug

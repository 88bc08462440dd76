#include "tokenizers/tokenizer.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"

namespace snug {
namespace {

nlohmann::json parse_json(std::string_view text, std::string_view where) {
  require_shallow_json(text, where);
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    throw bad_input("{} is not JSON: {}", where, plain_words(error));
  }
}

// Every id up to the largest has a place in a table: a few words that name huge ids would fill the
// memory.
void require_few_gaps(int32_t largest, size_t tokens, std::string_view where) {
  constexpr size_t kGaps = 1'000'000;
  if (static_cast<size_t>(largest) <= 4 * tokens + kGaps) return;
  throw bad_input("{}: a token has id {}, and there are only {} tokens", where, largest, tokens);
}

bool is_letter(char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }

// Whether a token might reach over a space between letters.
bool may_reach_over_a_space(const AddedToken& token) {
  const std::string& text = token.content;
  if (text.empty()) return false;
  return text.find(' ') != text.npos || (token.rstrip && is_letter(text.back())) ||
         (token.lstrip && is_letter(text.front()));
}

}  // namespace

Tokenizer Tokenizer::open(const std::filesystem::path& path) {
  return parse(read_file(path), path.string());
}

Tokenizer Tokenizer::parse(std::string_view text, std::string_view where) {
  const nlohmann::json json = parse_json(text, where);
  const JsonPart root(json, fmt::format("{}:", where));
  Tokenizer out;
  if (root.has("normalizer")) out.normalizer_ = Normalizer::read(root.part("normalizer"));
  if (root.has("pre_tokenizer")) out.words_ = PreTokenizer::read(root.part("pre_tokenizer"));
  out.model_ = read_model(root.part("model"), out.words_.spells_bytes());
  const std::vector<AddedToken> added = read_added_tokens(root);
  out.add_tokens(added, where);
  out.name_ids(added, where);
  if (root.has("post_processor"))
    out.surroundings_ = read_post_processor(root.part("post_processor"));
  if (root.has("decoder")) out.decoder_ = Decoder::read(root.part("decoder"));
  for (const auto* ids : {&out.surroundings_.before, &out.surroundings_.after}) {
    for (const int32_t id : *ids) {
      if (id >= out.vocabulary())
        throw bad_input("{}: post_processor adds token {}, and the vocabulary has {}", where, id,
                        out.vocabulary());
    }
  }
  out.cut_at_space_letters_ = out.words_.empty() && out.model_->words_begin_with_space();
  out.cuts_ = out.cuts_of(added);
  return out;
}

void Tokenizer::add_tokens(const std::vector<AddedToken>& added, std::string_view where) {
  for (const AddedToken& token : added) {
    const int32_t known = model_->vocabulary().find(token.content);
    if (known != kNoToken && known != token.id) {
      throw bad_input("{}: the added token '{}' has id {}, and the vocabulary says {}", where,
                      printable(token.content), token.id, known);
    }
    Normalizer::Buffers buffers;
    if (token.normalized)
      in_normalized_.add(token, normalizer_.apply(token.content, true, buffers));
    else
      in_text_.add(token, token.content);
    if (token.special) special_.push_back(token.id);
  }
  std::ranges::sort(special_);
}

void Tokenizer::name_ids(const std::vector<AddedToken>& added, std::string_view where) {
  int32_t largest = 0;
  for (const auto& [text, id] : model_->vocabulary().ids()) largest = std::max(largest, id);
  for (const AddedToken& token : added) largest = std::max(largest, token.id);
  require_few_gaps(largest, model_->vocabulary().ids().size() + added.size(), where);
  texts_.resize(static_cast<size_t>(largest) + 1);
  std::vector<bool> named(texts_.size());
  const auto name = [&](const std::string& text, int32_t id) {
    texts_[static_cast<size_t>(id)] = text;
    named[static_cast<size_t>(id)] = true;
  };
  for (const auto& [text, id] : model_->vocabulary().ids()) name(text, id);
  for (const AddedToken& token : added) name(token.content, token.id);
  tokens_ = std::ranges::count(named, true);
}

// A text without pre-tokenizer is one word; where spaces begin all tokens that have one, it is
// encoded word by word.
Cuts Tokenizer::cuts_of(const std::vector<AddedToken>& added) const {
  Cuts cuts = words_.cuts();
  if (words_.empty()) {
    Normalizer::Buffers buffers;
    const bool marks_spaces =
        normalizer_.apply("a b", false, buffers) == fmt::format("a{}b", kSpaceLetter);
    cuts = model_->words_begin_with_space() && marks_spaces ? Cuts::at_spaces : Cuts::none;
  }
  if (!normalizer_.may_be_cut()) return Cuts::none;
  if (cuts == Cuts::at_spaces && std::ranges::any_of(added, may_reach_over_a_space))
    return Cuts::none;
  return cuts;
}

int32_t Tokenizer::find(std::string_view text) const {
  const int32_t id = model_->vocabulary().find(text);
  if (id != kNoToken) return id;
  const auto found = std::ranges::find(texts_, text);
  return found == texts_.end() || text.empty() ? kNoToken
                                               : static_cast<int32_t>(found - texts_.begin());
}

bool Tokenizer::is_special(int32_t id) const { return std::ranges::binary_search(special_, id); }

std::string Tokenizer::decode(std::span<const int32_t> ids, bool with_special) const {
  std::vector<std::string> texts;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary()) throw internal_error("token {} of {}", id, vocabulary());
    if (with_special || !is_special(id)) texts.push_back(text_of(id));
  }
  return decoder_.text(std::move(texts));
}

}  // namespace snug

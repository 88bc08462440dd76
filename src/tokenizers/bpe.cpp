// BPE as tokenizer.json has it: of bytes (GPT-2, Llama 3, Qwen, DeepSeek), or of characters with
// bytes for what the vocabulary lacks (Llama 2, Mistral, Gemma).
#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "tokenizers/byte_letters.h"
#include "tokenizers/merges.h"
#include "tokenizers/utf8.h"
#include "tokenizers/word_model.h"

namespace snug {
namespace {

struct BpeOptions {
  bool bytes = false;
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  int32_t unknown = kNoToken;
  std::string prefix;  // of what continues a word
  std::string suffix;  // of what ends one
};

// The token of a letter, by whether it is the first and the last of a word.
struct LetterIds {
  std::array<std::array<int32_t, 2>, 2> at{};  // [is first][is last]
};

class Bpe : public TokenModel {
 public:
  Bpe(Vocabulary vocabulary, Merges merges, BpeOptions options, bool words_begin_with_space)
      : vocabulary_(std::move(vocabulary)),
        merges_(std::move(merges)),
        options_(std::move(options)),
        words_begin_with_space_(words_begin_with_space) {
    if (options_.bytes) read_bytes();
    for (size_t byte = 0; byte < fallback_.size(); ++byte)
      fallback_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }
  bool words_begin_with_space() const override { return words_begin_with_space_; }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    if (options_.ignore_merges) {
      const int32_t whole = find_word(word);
      if (whole != kNoToken) return ids.push_back(whole);
    }
    const size_t first = ids.size();
    options_.bytes ? begin_bytes(word, ids) : begin_letters(word, ids);
    merges_.apply(ids, first);
  }

 private:
  // What is not known yet of the unknown letters before: they may be one token.
  class Unknown {
   public:
    Unknown(const BpeOptions& options, std::vector<int32_t>& ids) : options_(options), ids_(ids) {}
    void add() {
      if (options_.unknown == kNoToken) return;
      if (waiting_ && !options_.fuse_unknown) ids_.push_back(options_.unknown);
      waiting_ = true;
    }
    void flush() {
      if (waiting_) ids_.push_back(options_.unknown);
      waiting_ = false;
    }

   private:
    const BpeOptions& options_;
    std::vector<int32_t>& ids_;
    bool waiting_ = false;
  };

  std::string spelled(std::string_view letter, bool is_first, bool is_last) const {
    return fmt::format("{}{}{}", is_first ? "" : options_.prefix, letter,
                       is_last ? options_.suffix : "");
  }

  // The letters of all bytes, and the tokens by the bytes that they spell.
  void read_bytes() {
    for (size_t byte = 0; byte < bytes_.size(); ++byte) {
      const std::string letter = letters_of(std::string(1, static_cast<char>(byte)));
      for (const size_t is_first : {0, 1}) {
        for (const size_t is_last : {0, 1})
          bytes_[byte].at[is_first][is_last] =
              vocabulary_.find(spelled(letter, is_first != 0, is_last != 0));
      }
    }
    if (!options_.ignore_merges) return;
    for (const auto& [text, id] : vocabulary_.ids())
      if (auto bytes = bytes_of_letters(text)) words_.insert_or_assign(*std::move(bytes), id);
  }
  int32_t find_word(std::string_view word) const {
    if (!options_.bytes) return vocabulary_.find(word);
    const auto found = words_.find(word);
    return found == words_.end() ? kNoToken : found->second;
  }

  void begin_bytes(std::string_view word, std::vector<int32_t>& ids) const {
    Unknown unknown(options_, ids);
    for (size_t i = 0; i < word.size(); ++i) {
      const LetterIds& letter = bytes_[static_cast<unsigned char>(word[i])];
      const int32_t id = letter.at[i == 0 ? 1 : 0][i + 1 == word.size() ? 1 : 0];
      if (id == kNoToken) {
        unknown.add();
        continue;
      }
      unknown.flush();
      ids.push_back(id);
    }
    unknown.flush();
  }

  void begin_letters(std::string_view word, std::vector<int32_t>& ids) const {
    Unknown unknown(options_, ids);
    const bool plain = options_.prefix.empty() && options_.suffix.empty();
    for (size_t at = 0; at < word.size();) {
      const std::string_view letter = word.substr(at, code_point_at(word, at).bytes);
      const bool is_first = at == 0;
      at += letter.size();
      const int32_t id = plain ? vocabulary_.find(letter)
                               : vocabulary_.find(spelled(letter, is_first, at == word.size()));
      if (id != kNoToken) {
        unknown.flush();
        ids.push_back(id);
      } else if (!options_.byte_fallback || !add_bytes(letter, ids)) {
        unknown.add();
      }
    }
    unknown.flush();
  }
  bool add_bytes(std::string_view letter, std::vector<int32_t>& ids) const {
    const auto of_byte = [&](char c) { return fallback_[static_cast<unsigned char>(c)]; };
    if (std::ranges::any_of(letter, [&](char c) { return of_byte(c) == kNoToken; })) return false;
    for (const char c : letter) ids.push_back(of_byte(c));
    return true;
  }

  Vocabulary vocabulary_;
  Merges merges_;
  BpeOptions options_;
  bool words_begin_with_space_ = false;
  std::array<LetterIds, 256> bytes_{};
  std::array<int32_t, 256> fallback_{};
  TokenIds words_;  // by their bytes, where a whole word may be one
};

struct MergePair {
  std::string_view left, right;
};

// "a b", or ["a", "b"].
MergePair pair_of(const nlohmann::json& merge, const JsonPart& part, size_t index) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0].get_ref<const std::string&>(), merge[1].get_ref<const std::string&>()};
  if (merge.is_string()) {
    const std::string_view text = merge.get_ref<const std::string&>();
    const size_t space = text.find(' ');
    if (space != text.npos && text.find(' ', space + 1) == text.npos)
      return {text.substr(0, space), text.substr(space + 1)};
  }
  throw bad_input("{}: merge {} is not a pair of tokens", part.where(), index);
}

// A space letter after something else: what a word that begins with one cannot hold.
bool reaches_over_a_space(std::string_view token) {
  for (size_t at = token.find(kSpaceLetter); at != token.npos;
       at = token.find(kSpaceLetter, at + kSpaceLetter.size())) {
    if (at > 0 && !token.substr(0, at).ends_with(kSpaceLetter)) return true;
  }
  return false;
}

}  // namespace

std::unique_ptr<TokenModel> read_bpe(const JsonPart& part, bool bytes) {
  Vocabulary vocabulary = Vocabulary::read(part);
  BpeOptions options{.bytes = bytes,
                     .ignore_merges = part.flag("ignore_merges", false),
                     .byte_fallback = part.flag("byte_fallback", false),
                     .fuse_unknown = part.flag("fuse_unk", false),
                     .prefix = part.text("continuing_subword_prefix", ""),
                     .suffix = part.text("end_of_word_suffix", "")};
  if (part.has("dropout") && part.json().at("dropout") != 0)
    part.refuse("'dropout' draws merges at random, which is not understood");
  if (bytes && options.byte_fallback)
    part.refuse("'byte_fallback' after a ByteLevel pre-tokenizer is not understood");
  if (part.has("unk_token"))
    options.unknown = vocabulary.require(part.text("unk_token"), part, "unk_token");
  const nlohmann::json& list = part.list("merges");
  Merges merges(list.size());
  bool by_words = !bytes && !options.ignore_merges && options.prefix.empty() &&
                  options.suffix.empty() && vocabulary.find(kSpaceLetter) != kNoToken;
  std::string joined;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [left, right] = pair_of(list[i], part, i);
    const int32_t left_id = vocabulary.require(left, part, "a part of a merge,");
    const int32_t right_id = vocabulary.require(right, part, "a part of a merge,");
    if (!right.starts_with(options.prefix))
      part.refuse(fmt::format("merge {} continues a word without its prefix", i));
    joined.assign(left).append(right.substr(options.prefix.size()));
    merges.add(left_id, right_id, vocabulary.require(joined, part, "the result of a merge,"));
    by_words = by_words && !reaches_over_a_space(joined);
  }
  return std::make_unique<Bpe>(std::move(vocabulary), std::move(merges), std::move(options),
                               by_words);
}

}  // namespace snug

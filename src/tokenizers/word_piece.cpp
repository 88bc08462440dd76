// WordPiece (BERT): a word is the longest token that begins it, then the longest that continues.
#include "base/error.h"
#include "tokenizers/utf8.h"
#include "tokenizers/word_model.h"

namespace snug {
namespace {

class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const JsonPart& part)
      : vocabulary_(Vocabulary::read(part)),
        prefix_(part.text("continuing_subword_prefix", "##")),
        most_letters_(part.number("max_input_chars_per_word", 100)),
        unknown_(vocabulary_.require(part.text("unk_token", "[UNK]"), part, "unk_token")) {
    for (const auto& [text, id] : vocabulary_.ids()) {
      require_short(text, part);
      longest_ = std::max(longest_, text.size());
    }
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    const size_t first = ids.size();
    if (letters_in(word) <= most_letters_ && add_pieces(word, ids)) return;
    ids.resize(first);
    ids.push_back(unknown_);
  }

 private:
  static int64_t letters_in(std::string_view word) {
    int64_t letters = 0;
    for (const char c : word) letters += (static_cast<unsigned char>(c) & 0xc0U) != 0x80;
    return letters;
  }
  // False where no token fits.
  bool add_pieces(std::string_view word, std::vector<int32_t>& ids) const {
    std::string piece;
    for (size_t at = 0; at < word.size();) {
      piece.assign(at == 0 ? "" : prefix_);
      const size_t before = piece.size();
      piece += word.substr(at, longest_);
      while (piece.size() > before) {
        const int32_t id = vocabulary_.find(piece);
        if (id != kNoToken) {
          ids.push_back(id);
          break;
        }
        piece.pop_back();  // half a character is in no vocabulary
      }
      if (piece.size() == before) return false;
      at += piece.size() - before;
    }
    return true;
  }

  Vocabulary vocabulary_;
  std::string prefix_;
  int64_t most_letters_;
  int32_t unknown_;
  size_t longest_ = 0;  // token, in bytes
};

}  // namespace

std::unique_ptr<TokenModel> read_word_piece(const JsonPart& part) {
  return std::make_unique<WordPiece>(part);
}

}  // namespace snug

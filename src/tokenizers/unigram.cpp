// Unigram (T5, XLM-R, ALBERT): of all ways to spell a word in tokens, the one whose scores add up to
// most, found by Viterbi.
#include <algorithm>
#include <array>
#include <limits>

#include "base/error.h"
#include "tokenizers/utf8.h"
#include "tokenizers/word_model.h"

namespace snug {
namespace {

// What an unknown character costs more than the rarest token.
constexpr double kUnknownPenalty = 10;

class Unigram : public TokenModel {
 public:
  explicit Unigram(const JsonPart& part) : byte_fallback_(part.flag("byte_fallback", false)) {
    const nlohmann::json& vocab = part.list("vocab");
    if (vocab.empty()) part.refuse("its vocabulary is empty");
    if (static_cast<int64_t>(vocab.size()) > kMostTokens)
      part.refuse("its vocabulary is too large");
    for (const nlohmann::json& piece : vocab) add(piece, part);
    if (part.has("unk_id")) read_unknown(part);
    for (size_t byte = 0; byte < bytes_.size(); ++byte)
      bytes_[byte] = vocabulary_.find(fmt::format("<0x{:02X}>", byte));
  }

  const Vocabulary& vocabulary() const override { return vocabulary_; }

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    std::vector<Step> best(word.size() + 1);
    best[0].score = 0;
    for (size_t at = 0; at < word.size(); at += code_point_at(word, at).bytes) look(word, at, best);
    std::vector<Step> path;
    for (size_t at = word.size(); at > 0; at = best[at].from) path.push_back(best[at]);
    std::ranges::reverse(path);
    bool unknown = false;  // neighbours that are unknown are one
    size_t begin = 0;
    const auto flush = [&](size_t end) {
      if (unknown) add_unknown(word.substr(begin, end - begin), ids);
      unknown = false;
    };
    for (const Step& step : path) {
      if (step.id == kNoToken) {
        if (!unknown) begin = step.from;
        unknown = true;
        continue;
      }
      flush(step.from);
      ids.push_back(step.id);
    }
    flush(word.size());
  }

 private:
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    size_t from = 0;  // where the last token begins
    int32_t id = kNoToken;
  };

  void add(const nlohmann::json& piece, const JsonPart& part) {
    if (!piece.is_array() || piece.size() != 2 || !piece[0].is_string() || !piece[1].is_number())
      part.refuse(fmt::format("token {} is not [text, score]", scores_.size()));
    const std::string& text = piece[0].get_ref<const std::string&>();
    vocabulary_.add(text, static_cast<int32_t>(scores_.size()));
    scores_.push_back(piece[1].get<double>());
    least_ = std::min(least_, scores_.back());
    require_short(text, part);
    longest_ = std::max(longest_, text.size());
  }
  void read_unknown(const JsonPart& part) {
    const int64_t id = part.number("unk_id");
    if (id < 0 || id >= static_cast<int64_t>(scores_.size()))
      throw bad_input("{}: unk_id {} is not below its {} tokens", part.where(), id, scores_.size());
    unknown_ = static_cast<int32_t>(id);
  }

  // Tokens that begin at `at`; the character alone where it is none.
  void look(std::string_view word, size_t at, std::vector<Step>& best) const {
    const double before = best[at].score;
    const size_t one = code_point_at(word, at).bytes;
    bool single = false;
    for (size_t n = one; n <= longest_ && at + n <= word.size();) {
      const int32_t id = vocabulary_.find(word.substr(at, n));
      if (id != kNoToken) {
        single |= n == one;
        improve(best[at + n], {before + scores_[static_cast<size_t>(id)], at, id});
      }
      if (at + n >= word.size()) break;
      n += code_point_at(word, at + n).bytes;
    }
    // Added up in this order: spellings that are equally likely differ by their rounding.
    if (!single) improve(best[at + one], {before + (least_ - kUnknownPenalty), at, kNoToken});
  }
  static void improve(Step& known, const Step& step) {
    if (step.score > known.score) known = step;
  }
  void add_unknown(std::string_view text, std::vector<int32_t>& ids) const {
    const auto of_byte = [&](char c) { return bytes_[static_cast<unsigned char>(c)]; };
    if (byte_fallback_ &&
        std::ranges::none_of(text, [&](char c) { return of_byte(c) == kNoToken; })) {
      for (const char c : text) ids.push_back(of_byte(c));
      return;
    }
    if (unknown_ == kNoToken)
      throw bad_input("the tokenizer has no token for '{}' and none for what is unknown", text);
    ids.push_back(unknown_);
  }

  Vocabulary vocabulary_;
  std::vector<double> scores_;
  std::array<int32_t, 256> bytes_{};
  bool byte_fallback_;
  int32_t unknown_ = kNoToken;
  double least_ = std::numeric_limits<double>::infinity();
  size_t longest_ = 0;  // token, in bytes
};

}  // namespace

std::unique_ptr<TokenModel> read_unigram(const JsonPart& part) {
  return std::make_unique<Unigram>(part);
}

}  // namespace snug

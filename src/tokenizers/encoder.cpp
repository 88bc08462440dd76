// How a text becomes ids: added tokens, normal form, words, and the model for each word.
#include "tokenizers/tokenizer.h"
#include "tokenizers/utf8.h"

namespace snug {
void Encoder::encode(std::string_view text, std::vector<int32_t>& ids, bool surrounded) {
  ids_ = &ids;
  const AroundText& around = tokenizer_->surroundings_;
  if (surrounded) ids.insert(ids.end(), around.before.begin(), around.before.end());
  add_text(valid_utf8(text, valid_), true);
  if (surrounded) ids.insert(ids.end(), around.after.begin(), around.after.end());
}

bool Encoder::encode_part(const Part& part, std::vector<int32_t>& ids) {
  const size_t before = ids.size();
  ids_ = &ids;
  marking_ = part.next > 0;
  marks_.clear();
  add_text(part.text, part.begins);
  const bool cut = !marking_ || drop_next(part.text.substr(part.text.size() - part.next));
  marking_ = false;
  if (!cut) ids.resize(before);
  return cut;
}

// Takes back the words of what follows a part. They are the last whose bytes are as many.
bool Encoder::drop_next(std::string_view next) {
  size_t bytes = tokenizer_->normalizer_.apply(next, false, buffers_).size();
  while (bytes > 0 && !marks_.empty() && marks_.back().bytes <= bytes) {
    bytes -= marks_.back().bytes;
    marks_.pop_back();
  }
  if (bytes > 0 || marks_.empty()) return false;
  ids_->resize(marks_.back().ids);
  return true;
}

void Encoder::add_text(std::string_view text, bool begins) {
  const auto add = [&](Range range, int32_t id) {
    if (id != kNoToken) {
      ids_->push_back(id);
      if (marking_) marks_.push_back({range.end - range.begin, ids_->size()});
      return;
    }
    const SplitContext context{.begins = begins || range.begin > 0,
                               .begins_input = begins && range.begin == 0};
    add_normalized(tokenizer_->normalizer_.apply(text.substr(range.begin, range.end - range.begin),
                                                 context.begins, buffers_),
                   context);
  };
  if (tokenizer_->in_text_.empty()) {
    if (!text.empty()) add({0, text.size()}, kNoToken);
    return;
  }
  tokenizer_->in_text_.each(text, add);
}

void Encoder::add_normalized(std::string_view text, const SplitContext& context) {
  if (tokenizer_->in_normalized_.empty()) return add_words(text, context);
  tokenizer_->in_normalized_.each(text, [&](Range range, int32_t id) {
    if (id == kNoToken) {
      return add_words(text.substr(range.begin, range.end - range.begin),
                       {.begins = context.begins || range.begin > 0,
                        .begins_input = context.begins_input && range.begin == 0});
    }
    ids_->push_back(id);
    if (marking_) marks_.push_back({range.end - range.begin, ids_->size()});
  });
}

void Encoder::add_words(std::string_view text, const SplitContext& context) {
  if (!tokenizer_->words_.empty()) {
    tokenizer_->words_.split(text, context, pieces_);
    for (const std::string_view word : pieces_.words) add_word(word);
    return;
  }
  if (!tokenizer_->cut_at_space_letters_) return add_word(text);
  while (!text.empty()) {
    size_t end = 0;
    while (text.substr(end).starts_with(kSpaceLetter)) end += kSpaceLetter.size();
    end = std::min(text.find(kSpaceLetter, end), text.size());
    add_word(text.substr(0, end));
    text.remove_prefix(end);
  }
}

void Encoder::add_word(std::string_view word) {
  if (word.empty()) return;
  if (!cache_.get(word, *ids_)) {
    const size_t before = ids_->size();
    tokenizer_->model_->encode(word, *ids_);
    cache_.put(word, std::span(*ids_).subspan(before));
  }
  if (marking_) marks_.push_back({word.size(), ids_->size()});
}

}  // namespace snug

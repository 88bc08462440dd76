#include "tokenizers/normalizer.h"

#include <optional>

#include "base/error.h"
#include "tokenizers/pattern.h"
#include "tokenizers/unicode.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

template <typename Visit>
void each_code_point(std::string_view text, const Visit& visit) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    at += c.bytes;
    visit(c.value);
  }
}

class ToForm : public NormalStep {
 public:
  explicit ToForm(NormalForm form) : form_(form) {}
  void apply(std::string_view text, bool, std::string& out) const override {
    normalize(form_, text, out);
  }
  bool skips_ascii() const override { return true; }

 private:
  NormalForm form_;
};

class Lowercase : public NormalStep {
 public:
  void apply(std::string_view text, bool, std::string& out) const override {
    each_code_point(text, [&](char32_t c) { append_lower(out, c); });
  }
};

class StripAccents : public NormalStep {
 public:
  void apply(std::string_view text, bool, std::string& out) const override {
    each_code_point(text, [&](char32_t c) {
      if (!is_mark(c)) append_utf8(out, c);
    });
  }
  bool skips_ascii() const override { return true; }
};

class Strip : public NormalStep {
 public:
  explicit Strip(const JsonPart& part)
      : left_(part.flag("strip_left", true)), right_(part.flag("strip_right", true)) {}
  void apply(std::string_view text, bool, std::string& out) const override {
    while (left_ && !text.empty() && is_white_space(code_point_at(text, 0).value))
      text.remove_prefix(code_point_at(text, 0).bytes);
    while (right_ && !text.empty() && is_white_space(code_point_before(text, text.size()).value))
      text.remove_suffix(code_point_before(text, text.size()).bytes);
    out += text;
  }
  bool may_be_cut() const override { return false; }

 private:
  bool left_, right_;
};

class Prepend : public NormalStep {
 public:
  explicit Prepend(const JsonPart& part) : text_(part.text("prepend")) {}
  void apply(std::string_view text, bool begins, std::string& out) const override {
    if (begins && !text.empty()) out += text_;
    out += text;
  }

 private:
  std::string text_;
};

class Replace : public NormalStep {
 public:
  explicit Replace(const JsonPart& part) : pattern_(part), content_(part.text("content")) {}
  void apply(std::string_view text, bool, std::string& out) const override {
    pattern_.each(text, [&](Range range, bool is_match) {
      out +=
          is_match ? std::string_view(content_) : text.substr(range.begin, range.end - range.begin);
    });
  }
  bool may_be_cut() const override { return pattern_.is_one_letter(); }

 private:
  Pattern pattern_;
  std::string content_;
};

// BERT's: controls go, spaces are one kind, Chinese characters are words, accents and capitals go.
class BertText : public NormalStep {
 public:
  explicit BertText(const JsonPart& part)
      : clean_(part.flag("clean_text", true)),
        chinese_(part.flag("handle_chinese_chars", true)),
        lowercase_(part.flag("lowercase", true)),
        strip_accents_(part.flag("strip_accents", lowercase_)) {}

  void apply(std::string_view text, bool, std::string& out) const override {
    if (!strip_accents_) return finish(text, out);
    std::string cleaned, decomposed;
    clean(text, cleaned);
    normalize(NormalForm::nfd, cleaned, decomposed);
    each_code_point(decomposed, [&](char32_t c) {
      if (c >= 0x80 && is_nonspacing_mark(c)) return;
      lowercase_ ? append_lower(out, c) : append_utf8(out, c);
    });
  }

 private:
  void finish(std::string_view text, std::string& out) const {
    if (!lowercase_) return clean(text, out);
    std::string cleaned;
    clean(text, cleaned);
    each_code_point(cleaned, [&](char32_t c) { append_lower(out, c); });
  }
  void clean(std::string_view text, std::string& out) const {
    each_code_point(text, [&](char32_t c) {
      if (clean_ && is_dropped(c)) return;
      if (clean_ && is_white_space(c)) c = ' ';
      const bool apart = chinese_ && is_chinese(c);
      if (apart) out += ' ';
      append_utf8(out, c);
      if (apart) out += ' ';
    });
  }
  static bool is_dropped(char32_t c) {
    if (c == '\t' || c == '\n' || c == '\r') return false;
    return c == 0 || c == 0xfffd || (c < 0x80 ? c < ' ' || c == 0x7f : is_other(c));
  }
  static bool is_chinese(char32_t c) {
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
  }

  bool clean_, chinese_, lowercase_, strip_accents_;
};

std::optional<NormalForm> form_of(std::string_view type) {
  if (type == "NFC") return NormalForm::nfc;
  if (type == "NFD") return NormalForm::nfd;
  if (type == "NFKC") return NormalForm::nfkc;
  if (type == "NFKD") return NormalForm::nfkd;
  return std::nullopt;
}

std::unique_ptr<const NormalStep> read_step(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Prepend") return std::make_unique<Prepend>(part);
  if (type == "Replace") return std::make_unique<Replace>(part);
  if (type == "Strip") return std::make_unique<Strip>(part);
  const auto form = form_of(type);
  if (!form && type != "Lowercase" && type != "StripAccents" && type != "BertNormalizer")
    part.refuse_type();
  require_unicode(part.titled());
  if (form) return std::make_unique<ToForm>(*form);
  if (type == "Lowercase") return std::make_unique<Lowercase>();
  if (type == "StripAccents") return std::make_unique<StripAccents>();
  return std::make_unique<BertText>(part);
}

}  // namespace

Normalizer Normalizer::read(const JsonPart& part) {
  Normalizer out;
  out.add(part);
  return out;
}

void Normalizer::add(const JsonPart& part) {
  if (part.type() != "Sequence") {
    steps_.push_back(read_step(part));
    return;
  }
  for (const JsonPart& step : part.parts("normalizers")) add(step);
}

std::string_view Normalizer::apply(std::string_view text, bool begins, Buffers& buffers) const {
  for (const auto& step : steps_) {
    if (step->skips_ascii() && is_ascii(text)) continue;
    std::string& out = text.data() == buffers.one.data() ? buffers.other : buffers.one;
    out.clear();
    step->apply(text, begins, out);
    text = out;
  }
  return text;
}

bool Normalizer::may_be_cut() const {
  for (const auto& step : steps_)
    if (!step->may_be_cut()) return false;
  return true;
}

}  // namespace snug

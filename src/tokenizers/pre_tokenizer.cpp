#include "tokenizers/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.h"
#include "tokenizers/pattern.h"
#include "tokenizers/split_behavior.h"
#include "tokenizers/unicode.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

// GPT-2's words.
constexpr const char* kByteLevelPattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

class ByPattern : public Splitter {
 public:
  explicit ByPattern(const JsonPart& part)
      : pattern_(part),
        behavior_(read_behavior(part, SplitBehavior::removed)),
        invert_(part.flag("invert", false)) {}
  void split(std::string_view text, const SplitContext&, Pieces& out) const override {
    SplitCollector collector(behavior_, text, out.words);
    pattern_.each(text,
                  [&](Range range, bool is_match) { collector.add(range, is_match != invert_); });
  }
  bool looks_behind() const { return pattern_.looks_behind(); }
  bool keeps_all() const { return behavior_ == SplitBehavior::isolated; }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel : public Splitter {
 public:
  explicit ByteLevel(const JsonPart& part) : prefix_(part.flag("add_prefix_space", true)) {
    if (part.flag("use_regex", true)) regex_.emplace(kByteLevelPattern, part.titled());
  }
  void split(std::string_view text, const SplitContext& context, Pieces& out) const override {
    if (prefix_ && context.begins && !text.starts_with(' '))
      text = out.made.emplace_back(fmt::format(" {}", text));
    if (!regex_) return out.words.push_back(text);
    each_match(*regex_, text, [&](Range range, bool) {
      out.words.push_back(text.substr(range.begin, range.end - range.begin));
    });
  }
  bool adds_space() const { return prefix_; }

 private:
  bool prefix_;
  std::optional<Regex> regex_;
};

enum class PrependScheme : uint8_t { always, first, never };

class Metaspace : public Splitter {
 public:
  explicit Metaspace(const JsonPart& part)
      : letter_(part.text("replacement", "\xe2\x96\x81")),
        prepend_(read_prepend(part)),
        split_(part.flag("split", true)) {
    if (letter_.empty() || code_point_at(letter_, 0).bytes != letter_.size())
      part.refuse("'replacement' is not one character");
  }
  void split(std::string_view text, const SplitContext& context, Pieces& out) const override {
    std::string& made = out.made.emplace_back();
    const bool begins =
        prepend_ == PrependScheme::always
            ? context.begins
            : prepend_ == PrependScheme::first && context.begins && context.begins_input;
    if (begins && !text.starts_with(' ') && !text.starts_with(letter_)) made += letter_;
    for (const char c : text) c == ' ' ? made += letter_ : made += c;
    const std::string_view all = made;
    if (!split_) return out.words.push_back(all);
    for (size_t at = 0; at < all.size();) {
      const size_t next = std::min(all.find(letter_, at + 1), all.size());
      out.words.push_back(all.substr(at, next - at));
      at = next;
    }
  }
  bool splits() const { return split_; }

 private:
  static PrependScheme read_prepend(const JsonPart& part) {
    const std::string scheme =
        part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never");
    if (scheme == "always") return PrependScheme::always;
    if (scheme == "first") return PrependScheme::first;
    if (scheme == "never") return PrependScheme::never;
    part.refuse(fmt::format("prepend_scheme '{}' is not understood", scheme));
  }

  std::string letter_;
  PrependScheme prepend_;
  bool split_;
};

// By a property of characters.
class ByKind : public Splitter {
 public:
  using Kind = bool (*)(char32_t);
  ByKind(Kind kind, SplitBehavior behavior) : kind_(kind), behavior_(behavior) {}
  void split(std::string_view text, const SplitContext&, Pieces& out) const override {
    SplitCollector collector(behavior_, text, out.words);
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const CodePoint c = code_point_at(text, at);
      if (kind_(c.value)) {
        if (at > done) collector.add({done, at}, false);
        done = at + c.bytes;
        collector.add({at, done}, true);
      }
      at += c.bytes;
    }
    if (done < text.size()) collector.add({done, text.size()}, false);
  }

 private:
  Kind kind_;
  SplitBehavior behavior_;
};

bool is_space(char32_t c) { return is_white_space(c); }

std::unique_ptr<const Splitter> by_kind(const JsonPart& part, ByKind::Kind kind,
                                        SplitBehavior behavior) {
  if (kind != is_space) require_unicode(part.titled());
  return std::make_unique<ByKind>(kind, behavior);
}

// `\w+|[^\w\s]+` of Rust's regular expressions, whose \w has the joiners too.
class WordsAndRest : public Splitter {
 public:
  explicit WordsAndRest(const JsonPart& part)
      : regex_(R"([\w\x{200c}\x{200d}]+|[^\w\s\x{200c}\x{200d}]+)", part.titled()) {}
  void split(std::string_view text, const SplitContext&, Pieces& out) const override {
    each_match(regex_, text, [&](Range range, bool is_match) {
      if (is_match) out.words.push_back(text.substr(range.begin, range.end - range.begin));
    });
  }

 private:
  Regex regex_;
};

}  // namespace

PreTokenizer PreTokenizer::read(const JsonPart& part) {
  PreTokenizer out;
  out.add(part);
  return out;
}

void PreTokenizer::limit(Cuts cuts) {
  // What is safe at spaces alone and what is safe where words end have no place in common.
  cuts_ = splitters_.empty() || cuts == cuts_ ? cuts : Cuts::none;
}

void PreTokenizer::add(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "Sequence") {
    for (const JsonPart& step : part.parts("pretokenizers")) add(step);
    return;
  }
  if (spells_bytes_) part.refuse("nothing is understood after a ByteLevel pre-tokenizer");
  const auto push = [&](auto splitter, Cuts cuts) {
    limit(cuts);
    splitters_.push_back(std::move(splitter));
  };
  if (type == "ByteLevel") {
    auto bytes = std::make_unique<ByteLevel>(part);
    spells_bytes_ = true;
    const bool inside = bytes->adds_space() && !splitters_.empty();
    push(std::move(bytes), inside ? Cuts::none : Cuts::if_words_end);
  } else if (type == "Split") {
    auto split = std::make_unique<ByPattern>(part);
    const bool cuttable = split->keeps_all() && !split->looks_behind();
    push(std::move(split), cuttable ? Cuts::if_words_end : Cuts::none);
  } else if (type == "Metaspace") {
    auto metaspace = std::make_unique<Metaspace>(part);
    const bool splits = metaspace->splits();
    push(std::move(metaspace), splits ? Cuts::at_spaces : Cuts::none);
  } else if (type == "BertPreTokenizer") {
    push(by_kind(part, is_space, SplitBehavior::removed), Cuts::at_spaces);
    push(by_kind(part, is_punctuation, SplitBehavior::isolated), Cuts::at_spaces);
  } else if (type == "Whitespace") {
    push(std::make_unique<WordsAndRest>(part), Cuts::at_spaces);
  } else if (type == "WhitespaceSplit") {
    push(by_kind(part, is_space, SplitBehavior::removed), Cuts::at_spaces);
  } else if (type == "Digits") {
    const bool apart = part.flag("individual_digits", false);
    push(by_kind(part, is_numeric, apart ? SplitBehavior::isolated : SplitBehavior::contiguous),
         Cuts::none);
  } else if (type == "Punctuation") {
    push(by_kind(part, is_punctuation, read_behavior(part, SplitBehavior::isolated)), Cuts::none);
  } else {
    part.refuse_type();
  }
}

void PreTokenizer::split(std::string_view text, const SplitContext& context, Pieces& out) const {
  out.words.clear();
  out.made.clear();
  if (text.empty()) return;
  if (splitters_.empty()) return out.words.push_back(text);
  splitters_[0]->split(text, context, out);
  std::vector<std::string_view> before;
  for (size_t i = 1; i < splitters_.size(); ++i) {
    before.swap(out.words);
    out.words.clear();
    for (size_t w = 0; w < before.size(); ++w) {
      splitters_[i]->split(
          before[w],
          {.begins = w > 0 || context.begins, .begins_input = w == 0 && context.begins_input}, out);
    }
  }
}

}  // namespace snug

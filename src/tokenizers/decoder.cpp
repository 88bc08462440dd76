#include "tokenizers/decoder.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/text.h"
#include "tokenizers/byte_letters.h"
#include "tokenizers/pattern.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

std::string as_valid(const std::string& bytes) {
  std::string buffer;
  return std::string(valid_utf8(bytes, buffer));
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + with.size()))
    text.replace(at, what.size(), with);
}

class BytesFromLetters : public DecodeStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::string all;
    for (const std::string& token : tokens) all += bytes_of_letters(token).value_or(token);
    tokens = {as_valid(all)};
  }
};

// <0xE2> <0x96> <0x81> is one character; bytes that are none are U+FFFD each.
class BytesFromNames : public DecodeStep {
 public:
  void apply(std::vector<std::string>& tokens) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      std::string ignored;
      const bool valid = valid_utf8(bytes, ignored).data() == bytes.data();
      if (valid) out.push_back(bytes);
      for (size_t i = 0; !valid && i < bytes.size(); ++i) out.emplace_back("\xef\xbf\xbd");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = byte_named(token)) {
        bytes += *byte;
        continue;
      }
      flush();
      out.push_back(std::move(token));
    }
    flush();
    tokens = std::move(out);
  }

 private:
  static std::optional<char> byte_named(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>'))
      return std::nullopt;
    unsigned value = 0;
    const char* end = token.data() + 5;
    if (std::from_chars(token.data() + 3, end, value, 16).ptr != end) return std::nullopt;
    return static_cast<char>(value);
  }
};

class SpacesFromLetters : public DecodeStep {
 public:
  explicit SpacesFromLetters(const JsonPart& part)
      : letter_(part.text("replacement", "\xe2\x96\x81")),
        drops_first_(
            part.text("prepend_scheme", part.flag("add_prefix_space", true) ? "always" : "never") !=
            "never") {
    if (letter_.empty()) part.refuse("'replacement' is empty");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i == 0 && drops_first_ && tokens[i].starts_with(letter_))
        tokens[i].erase(0, letter_.size());
      replace_all(tokens[i], letter_, " ");
    }
  }

 private:
  std::string letter_;
  bool drops_first_;
};

class JoinWordPieces : public DecodeStep {
 public:
  explicit JoinWordPieces(const JsonPart& part)
      : prefix_(part.text("prefix", "##")), cleanup_(part.flag("cleanup", true)) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) {
        if (tokens[i].starts_with(prefix_))
          tokens[i].erase(0, prefix_.size());
        else
          tokens[i].insert(0, " ");
      }
      if (cleanup_) clean(tokens[i]);
    }
  }

 private:
  static void clean(std::string& token) {
    constexpr std::array<std::array<std::string_view, 2>, 11> kPairs{{{" .", "."},
                                                                      {" ?", "?"},
                                                                      {" !", "!"},
                                                                      {" ,", ","},
                                                                      {" ' ", "'"},
                                                                      {" n't", "n't"},
                                                                      {" 'm", "'m"},
                                                                      {" do not", " don't"},
                                                                      {" 's", "'s"},
                                                                      {" 've", "'ve"},
                                                                      {" 're", "'re"}}};
    for (const auto& [what, with] : kPairs) replace_all(token, what, with);
  }

  std::string prefix_;
  bool cleanup_;
};

class JoinBySuffix : public DecodeStep {
 public:
  explicit JoinBySuffix(const JsonPart& part) : suffix_(part.text("suffix", "</w>")) {}
  void apply(std::vector<std::string>& tokens) const override {
    if (suffix_.empty()) return;
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
  }

 private:
  std::string suffix_;
};

class Fuse : public DecodeStep {
 public:
  void apply(std::vector<std::string>& tokens) const override { tokens = {join(tokens, "")}; }
};

class ReplaceInTokens : public DecodeStep {
 public:
  explicit ReplaceInTokens(const JsonPart& part) : pattern_(part), content_(part.text("content")) {}
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      std::string out;
      pattern_.each(token, [&](Range range, bool is_match) {
        out += is_match ? content_ : token.substr(range.begin, range.end - range.begin);
      });
      token = std::move(out);
    }
  }

 private:
  Pattern pattern_;
  std::string content_;
};

// Takes up to `start` and `stop` of a character off the ends of each token.
class StripTokens : public DecodeStep {
 public:
  explicit StripTokens(const JsonPart& part)
      : content_(part.text("content")), start_(part.number("start")), stop_(part.number("stop")) {
    if (content_.empty()) part.refuse("'content' is empty");
  }
  void apply(std::vector<std::string>& tokens) const override {
    for (std::string& token : tokens) {
      for (int64_t i = 0; i < start_ && token.starts_with(content_); ++i)
        token.erase(0, content_.size());
      for (int64_t i = 0; i < stop_ && token.ends_with(content_); ++i)
        token.resize(token.size() - content_.size());
    }
  }

 private:
  std::string content_;
  int64_t start_, stop_;
};

std::unique_ptr<const DecodeStep> read_decode_step(const JsonPart& part) {
  const std::string type = part.type();
  if (type == "ByteLevel") return std::make_unique<BytesFromLetters>();
  if (type == "ByteFallback") return std::make_unique<BytesFromNames>();
  if (type == "Metaspace") return std::make_unique<SpacesFromLetters>(part);
  if (type == "WordPiece") return std::make_unique<JoinWordPieces>(part);
  if (type == "BPEDecoder") return std::make_unique<JoinBySuffix>(part);
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Replace") return std::make_unique<ReplaceInTokens>(part);
  if (type == "Strip") return std::make_unique<StripTokens>(part);
  part.refuse_type();
}

}  // namespace

Decoder Decoder::read(const JsonPart& part) {
  Decoder out;
  out.read_ = true;
  out.add(part);
  return out;
}

void Decoder::add(const JsonPart& part) {
  if (part.type() != "Sequence") {
    steps_.push_back(read_decode_step(part));
    return;
  }
  for (const JsonPart& step : part.parts("decoders")) add(step);
}

std::string Decoder::text(std::vector<std::string> tokens) const {
  for (const auto& step : steps_) step->apply(tokens);
  return join(tokens, read_ ? "" : " ");
}

}  // namespace snug

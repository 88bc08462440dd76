#include "formats/hjson.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/text.h"

namespace snug {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kDeepest = 64;
constexpr int kMostValues = 4096;  // their objects are searched key by key
constexpr size_t kLongestNumber = 64;
constexpr std::string_view kPunctuation = "{}[],:";

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool ends_line(char c) { return c == '\n' || c == '\r'; }

class HjsonReader {
 public:
  HjsonReader(std::string_view text, std::string_view where) : text_(text), where_(where) {
    constexpr std::string_view kMark = "\xEF\xBB\xBF";
    if (text.starts_with(kMark)) at_ = kMark.size();
  }

  // The outermost braces may be left out.
  Json document() {
    skip();
    const bool braces = !ended() && next() == '{';
    if (!ended() && next() == '[') throw refusal("a configuration is an object, not a list");
    if (braces) ++at_;
    Json object = members(braces, 1);
    skip();
    if (!ended()) throw refusal("something follows the end of the object");
    return object;
  }

 private:
  bool ended() const { return at_ >= text_.size(); }
  char next() const { return text_[at_]; }
  bool at(std::string_view word) const { return text_.substr(at_).starts_with(word); }
  bool at_comment() const { return at("#") || at("//") || at("/*"); }

  template <typename... Args>
  Error refusal(fmt::format_string<Args...> format, Args&&... args) const {
    const auto line = 1 + std::ranges::count(text_.substr(0, at_), '\n');
    return bad_input("{}: line {}: {}", where_, line,
                     fmt::format(format, std::forward<Args>(args)...));
  }

  // Spaces and comments.
  void skip() {
    while (!ended()) {
      if (is_space(next())) {
        ++at_;
      } else if (at("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == text_.npos) throw refusal("a comment begins with /* and does not end");
        at_ = end + 2;
      } else if (at_comment()) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return;
      }
    }
  }

  // After a member of an object or a list: one comma, or none.
  void skip_comma() {
    skip();
    if (!ended() && next() == ',') ++at_;
    skip();
  }

  Json members(bool braces, int depth) {
    Json object = Json::object();
    for (skip();; skip_comma()) {
      if (ended() && braces) throw refusal("an object begins with {{ and does not end");
      if (ended()) return object;
      if (braces && next() == '}') {
        ++at_;
        return object;
      }
      std::string name = key();
      if (object.contains(name)) throw refusal("{} is there twice", printable(name));
      skip();
      if (ended() || next() != ':') throw refusal("a : is missing after {}", printable(name));
      ++at_;
      object[name] = value(depth);
    }
  }

  Json list(int depth) {
    Json items = Json::array();
    for (skip();; skip_comma()) {
      if (ended()) throw refusal("a list begins with [ and does not end");
      if (next() == ']') {
        ++at_;
        return items;
      }
      items.push_back(value(depth));
    }
  }

  std::string key() {
    if (next() == '"' || next() == '\'') return quoted();
    const size_t begin = at_;
    while (!ended() && !is_space(next()) && kPunctuation.find(next()) == kPunctuation.npos) ++at_;
    if (at_ == begin)
      throw refusal("'{}' where a key is expected", printable(text_.substr(at_, 1)));
    return checked(std::string(text_.substr(begin, at_ - begin)));
  }

  Json value(int depth) {
    skip();
    if (ended()) throw refusal("the text ends where a value is expected");
    if (++values_ > kMostValues) throw refusal("more than {} values", kMostValues);
    const char c = next();
    if (c == '{' || c == '[') {
      if (depth >= kDeepest) throw refusal("nests deeper than {} levels", kDeepest);
      ++at_;
      return c == '{' ? members(true, depth + 1) : list(depth + 1);
    }
    if (at("'''")) throw refusal("texts of several lines (''') are not read");
    if (c == '"' || c == '\'') return quoted();
    return bare();
  }

  // With JSON's escapes, in either kind of quotes.
  std::string quoted() {
    const char quote = next();
    const size_t begin = at_++;
    std::string literal = "\"";
    for (;; ++at_) {
      if (ended() || ends_line(next())) {
        at_ = begin;
        throw refusal("a text begins with {} and does not end", quote);
      }
      if (next() == quote) break;
      if (next() == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] != '\'') literal += '\\';
        ++at_;
      } else if (next() == '"') {
        literal += '\\';
      }
      literal += next();
    }
    ++at_;
    literal += '"';
    const Json parsed = Json::parse(literal, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_string()) throw refusal("{} is not a text", printable(literal));
    return parsed.get<std::string>();
  }

  // A number, true, false or null; what is none of them is a text to the end of the line.
  Json bare() {
    const size_t begin = at_;
    if (kPunctuation.find(next()) != kPunctuation.npos)
      throw refusal("'{}' where a value is expected", next());
    for (;; ++at_) {
      const bool line_ends = ended() || ends_line(next());
      if (!line_ends && next() != ',' && next() != '}' && next() != ']' && !at_comment()) continue;
      const std::string_view word = trim(text_.substr(begin, at_ - begin));
      if (word.size() <= kLongestNumber) {
        Json parsed = Json::parse(word, nullptr, /*allow_exceptions=*/false);
        if (parsed.is_number() || parsed.is_boolean() || parsed.is_null()) return parsed;
      }
      if (line_ends) return checked(std::string(word));
    }
  }

  // What is not UTF-8 cannot be written as JSON again.
  std::string checked(std::string word) const {
    try {
      static_cast<void>(Json(word).dump());
    } catch (const Json::exception&) {
      throw refusal("'{}' is not UTF-8", printable(word));
    }
    return word;
  }

  std::string_view text_, where_;
  size_t at_ = 0;
  int values_ = 0;
};

}  // namespace

nlohmann::ordered_json read_hjson(std::string_view text, std::string_view where) {
  return HjsonReader(text, where).document();
}

}  // namespace snug

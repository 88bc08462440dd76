#include "page/page.h"

#include "base/error.h"
#include "page/assets.h"

namespace snug {
namespace {

void fill(std::string& html, std::string_view place, std::string_view content) {
  const size_t at = html.find(place);
  if (at == html.npos) throw internal_error("the page has no place for {}", place);
  html.replace(at, place.size(), content);
}

}  // namespace

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string embeddable(const Json& document) {
  const std::string text = document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (c == '<') {
      out += "\\u003c";  // in JSON it is only ever inside a text
    } else {
      out += c;
    }
  }
  return out;
}

std::string page_html(std::string_view title, std::vector<Json> subjects) {
  std::string html(kPageHtml);
  fill(html, "{{style}}", kPageStyle);
  fill(html, "{{script}}", kPageScript);
  fill(html, "{{data}}", embeddable({{"title", title}, {"subjects", std::move(subjects)}}));
  fill(html, "{{title}}", escape_html(title));  // its place is before all texts that are not ours
  return html;
}

}  // namespace snug

// The files of assets/, put into the program while it is built (cmake/embed_assets.cmake).
#pragma once

#include <string_view>

namespace snug {

extern const std::string_view kPageHtml;    // page.html, with {{places}} to fill
extern const std::string_view kPageStyle;   // page.css
extern const std::string_view kPageScript;  // *.js, one after another

}  // namespace snug

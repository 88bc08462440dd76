// `snug report`: one self-contained page of HTML. Its document is JSON, made of one or
// two subjects: a plan, a run, a snapshot of PyTorch's memory. assets/ draws it.
//
//   const std::string html = page_html("gpt2", {plan_subject(...)});
//
// Every text of the document reaches the page as text, whatever characters it has.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/layout.h"

namespace snug {

std::string page_html(std::string_view title, std::vector<Json> subjects);

// Text between tags: & < > and quotes as entities.
std::string escape_html(std::string_view text);
// JSON inside a script element: nothing in it can end the element.
std::string embeddable(const Json& document);

}  // namespace snug

// The value of an option in JSON: true, 8, 0.5 or "24GiB".
#pragma once

#include "report/layout.h"
#include "settings/option.h"

namespace snug {

inline Json option_json(const Option& option, const Options& options) {
  return std::visit([](const auto& value) { return Json(value); }, plain_value(option, options));
}

}  // namespace snug

// Bars of a chart in the terminal.
#pragma once

#include <string>

namespace snug {

// `share` of `columns`, in eighths of a column, padded with spaces to `columns`. The least share
// above zero shows as one eighth.
std::string bar_text(double share, int columns);

}  // namespace snug

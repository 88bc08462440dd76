// How the answers of `snug fit` are written.
#pragma once

#include <string>

#include "snug/fit.h"

namespace snug {

// At most 100 columns. `options` as they were asked.
std::string fit_table(const FitReport& report, const Options& options);
std::string fit_json(const FitReport& report, const Options& options);

}  // namespace snug

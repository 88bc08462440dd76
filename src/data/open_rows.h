// Opens --data and --eval-data: windows of a stream of tokens, or rows of samples.
//
//   const std::shared_ptr<const Rows> rows = open_rows(run.options.data, run);
#pragma once

#include <memory>
#include <string>

#include "data/rows.h"
#include "recipe/resolve.h"

namespace snug {

// Throws as open_tokens, cached_tokens, cached_samples, Windows and SampleRows do; a usage error
// for options that need samples where there are none, and for samples that a model cannot take.
std::shared_ptr<const Rows> open_rows(const std::string& source, const Resolved& run);

}  // namespace snug

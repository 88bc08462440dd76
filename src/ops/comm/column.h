// A column of what ranks have gathered: of every rank's row the same part, one after another.
//
//   ValueId rows = all_gather(b, "sums.gather", row, {.axis = "dp", .ranks = 4});
//   ValueId sums = column(b, "w.sums", rows, {.ranks = 4, .first = 12, .each = 3, .elements = 10});
//   // elements 12 to 14 of rank 0, then of rank 1, ..., of which the last two are left out
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef column_def;  // (rows [ranks * n]) -> column [elements]

struct Column {
  int64_t ranks = 1;
  int64_t first = 0, each = 0;  // of a row
  int64_t elements = 0;         // of the column; what follows them is padding
};
ValueId column(Builder& b, std::string_view name, ValueId rows, const Column& c);

void column_cuda(const KernelArgs& args);

}  // namespace snug::ops

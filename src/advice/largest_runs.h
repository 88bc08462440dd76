// The largest batch, sequence or model: plans for one size after another, each a real placement.
//
//   for (const FoundLevel& level : largest_runs(asked, resolve(asked), "batch", trying)) ...
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "recipe/resolve.h"
#include "report/fit_report.h"

namespace snug {

// A level of the report, and the change to what was asked that gives it.
struct FoundLevel {
  FitLevel report;
  Change change;
};

using Trying = std::function<void(const std::string&)>;

// `of`: batch, seq or model. Throws does_not_fit where not even the smallest fits.
std::vector<FoundLevel> largest_runs(const Options& asked, const Resolved& run,
                                     const std::string& of, const Trying& trying);

// Micro-batches are then multiples of the stages.
bool is_interleaved(const Options& o);

}  // namespace snug

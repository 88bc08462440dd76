// The cost of a remedy of PyTorch's memory: the same change to Snug's plan of the same model.
#pragma once

#include "report/inspect_report.h"
#include "snug/options.h"

namespace snug {

// The plan that is nearest to a plain PyTorch training: everything kept, the loss whole, AdamW, and
// what the options say. Changes that the options refuse, or that save nothing, are left out.
PricedPlan priced_plan(const Options& asked);

}  // namespace snug

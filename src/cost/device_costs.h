// Which figures a plan's times rest on: measured on the device it is for, or those of the
// catalogue.
#pragma once

#include <string>

#include "cost/cost_model.h"
#include "settings/rank_here.h"
#include "snug/options.h"

namespace snug {

// --gpu NAME: that one. --device cuda: the GPU that is here, or a data-centre GPU where there is
// none. Otherwise this processor with the run's threads, or nominal figures where it was not
// measured. A calibration that is damaged, or older than the GPU's driver and libraries, is ignored
// with a word.
CostModel cost_model_for(const Options& options, const Math& math, const RankHere& here);

// The name of the first GPU; empty: there is none to use.
const std::string& gpu_here();
// Is it one that this binary runs on? What --device auto asks.
bool gpu_answers();
// Of its driver and libraries: "driver 580.159.04, cuBLASLt 13.1.0, cuDNN 9.19.0".
std::string gpu_versions();
// What --threads means: 0 is all.
int64_t threads_of(int64_t asked);

}  // namespace snug

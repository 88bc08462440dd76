// The ops of a step, timed one by one, with their predicted times.
#pragma once

#include <vector>

#include "cost/cost_model.h"
#include "report/prediction.h"
#include "runtime/executor.h"

namespace snug {

// Times every op of a step in its place. Values are good for nothing afterwards.
std::vector<KindPrediction> kinds_of_step(Executor& executor, const CostModel& cost_model);

}  // namespace snug

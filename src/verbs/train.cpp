// `snug train`: a run, step by step to its end.
#include "snug/run.h"

namespace snug {

TrainReport train(const Options& options, const TrainObserver& observer) {
  Run run = Run::open(options, observer);
  while (!run.done()) run.step();
  return run.finish();
}

}  // namespace snug

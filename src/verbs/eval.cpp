// `snug eval`: the loss of a model over all of some data.
#include "snug/run.h"

namespace snug {

EvalReport evaluate(const Options& options, const EvalObserver& observer) {
  return Run::open_evaluation(options, observer).evaluate();
}

}  // namespace snug

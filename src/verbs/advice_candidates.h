// What could be changed in a run: flags that are not there yet and that it would not refuse.
#pragma once

#include <string>
#include <vector>

#include "recipe/resolve.h"
#include "search/search.h"

namespace snug {

struct Candidate {
  std::string flags;
  Effect effect = Effect::exact;
  bool another_method = false;  // learning by other rules, not the same ones in fewer bits
};

// Changes to what forward leaves for backward: they cannot help where the state alone is too large.
std::vector<Candidate> activation_changes(const Resolved& run);
// Changes to parameters, gradients and the optimizer's state; and those that are other optimizers.
std::vector<Candidate> state_changes(const Resolved& run);
std::vector<Candidate> other_optimizers(const Resolved& run);
// Changes that take bytes to save time.
std::vector<Candidate> speed_changes(const Resolved& run);

// Several at once, for a run that no single change brings into its budget: the mildest first.
std::vector<Candidate> combinations(const Resolved& run);

// The divisors of a step's sequences below the micro-batch, ascending.
std::vector<int64_t> smaller_micro_batches(const Resolved& run);
// As many sequences a step as before, `batch` at a time.
std::string micro_batch_flags(const Resolved& run, int64_t batch);

}  // namespace snug

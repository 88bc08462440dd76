// Candidate changes of a run: those that are not there yet and that it would not refuse.
#pragma once

#include <vector>

#include "recipe/resolve.h"
#include "techniques/techniques.h"

namespace snug {

struct Candidate {
  Change change;
  Effect effect = Effect::exact;
  bool other_method = false;  // learning by other rules, not the same ones in fewer bits
};

// The rows of the technique table that touch this and would help. Activations cannot help where the
// state alone is too large.
std::vector<Candidate> helpful_changes(const Resolved& run, Touches touches);
// Those for runs that no milder change makes fit their budget.
std::vector<Candidate> last_resorts(const Resolved& run);

// Several at once, for a run that no single change makes fit its budget: the mildest first.
std::vector<Candidate> combinations(const Resolved& run);

// The divisors of a step's sequences below the micro-batch, ascending.
std::vector<int64_t> smaller_micro_batches(const Resolved& run);
// As many sequences a step as before, `batch` at a time.
Change micro_batch_change(const Resolved& run, int64_t batch);

}  // namespace snug

// A run as this machine would do it: what options leave to the machine is what it has.
//
//   const PlannedRun planned = plan_run(resolve_here(options));
#pragma once

#include "recipe/resolve.h"
#include "search/plan_run.h"

namespace snug {

// As `resolve`. On the GPU that is here, without --budget or --gpu, the budget is what is free in
// its memory; and without --host-budget that of the host is what the host has available.
Resolved resolve_here(const Options& options);

// Limits the host's memory of a run that goes ahead here, on a CPU too. --host-budget wins, and so
// does --device null, which takes no memory.
void limit_host(Resolved& run);
// A CPU's arena is in the host's memory: limits the host to the rest.
void leave_arena_to_cpu(PlannedRun& planned);

// The bytes of a budget that has what is free on a GPU: rounded down, so that the few that come and
// go from one second to the next change no plan, and with some left for them.
int64_t budget_of_free(int64_t free_bytes);
// The same for the GPU that these options run on (of several, that one); nothing where they run on
// none, or give a budget.
std::optional<int64_t> free_budget(const Options& options, int gpu = 0);

}  // namespace snug

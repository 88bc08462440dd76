// Several processes that train one model: what this one is among them.
#pragma once

#include <string>
#include <vector>

#include "snug/options.h"

namespace snug {

struct RankRole {
  bool launches = false;  // it starts the ranks of --ranks and trains nothing itself
  bool prints = true;     // rank 0, one that is alone, and every one with --log-ranks
};
// From the options and the variables that the launcher set in the environment. Throws a usage error
// where the two differ.
RankRole rank_role(const Options& options);

// Starts --ranks processes of this program with this verb and these arguments, waits for all of
// them, and returns the exit code of the first that failed.
int launch_ranks(const Options& options, const std::string& verb,
                 const std::vector<std::string>& arguments);

}  // namespace snug

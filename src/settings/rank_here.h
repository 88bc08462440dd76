// What a process of a job knows of itself, and no option says.
#pragma once

#include <cstdint>

namespace snug {

struct RankHere {
  int64_t rank = 0;
  double cores = 0;  // that it has; 0: its part of the machine's
};

}  // namespace snug

// Which variants a search has to look at, by estimates alone: left out is what another one is no worse
// than in anything.
#pragma once

#include <vector>

#include "search/candidates.h"

namespace snug {

struct Screened {
  std::vector<size_t> contenders;
  // By variant, of those that move values: it needs at least this, known without an estimate.
  std::vector<SpaceBytes> least;
};

// Estimates those that move nothing, as far as they are needed to compare.
Screened screen(Candidates& all, Estimates& estimates);

}  // namespace snug

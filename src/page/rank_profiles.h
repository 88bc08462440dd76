// What several ranks measured, on a page: a row for each, the waits between them, and lanes and memory of each that is drawn.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "page/columns.h"

namespace snug {

// Of so many ranks the page has rows; of the first, and those that others waited for longest, drawings.
inline constexpr int64_t kMostRanks = 256, kMostRanksDrawn = 16;

struct RanksOnPage {
  Json json;  // null: fewer than two ranks have a profile there
  std::vector<std::string> notes;
};

// `profile`: its folders are rank-0, rank-1, ... `layers`: prefixes of names. `ranks`: of the run, so that
// what an earlier one left is passed over; 0: not known.
RanksOnPage read_ranks(const std::filesystem::path& profile, Texts& texts,
                       const std::vector<std::string>& layers, int64_t ranks);

}  // namespace snug

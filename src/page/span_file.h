// A profile's spans.jsonl for a page: the first step that was measured, what was predicted, and calls of other ranks.
#pragma once

#include <filesystem>
#include <vector>

#include "page/lane_spans.h"

namespace snug {

// An exchange with other ranks: their number, and their distance on the axis.
struct RankCall {
  std::string lane;
  int64_t ranks = 0, stride = 1;
  int64_t peer = -1;  // of a message: the other's place on the axis
  double seconds = 0;
};

struct SpansOnPage {
  std::vector<ShownSpan> measured, predicted;
  std::vector<RankCall> calls;  // of the measured step
  int64_t left_out = 0;         // measured spans: more than are kept in memory
  int64_t calls_left_out = 0;
  int64_t unreadable = 0;  // lines
};

SpansOnPage read_spans(const std::filesystem::path& file);

}  // namespace snug

// A profile's spans.jsonl for a page: the first step that was measured.
#pragma once

#include <filesystem>
#include <vector>

#include "page/lanes.h"

namespace snug {

struct SpansOnPage {
  std::vector<ShownSpan> measured;
  int64_t left_out = 0;    // of this step: more than is kept in memory
  int64_t unreadable = 0;  // lines
};

SpansOnPage read_spans(const std::filesystem::path& file);

}  // namespace snug

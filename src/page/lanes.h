// Spans on a page: what each lane runs, and when. Of more spans than a page shows, neighbours on a lane
// become one.
#pragma once

#include <string>
#include <vector>

#include "page/columns.h"

namespace snug {

struct ShownSpan {
  std::string lane;
  double begin = 0, end = 0;   // seconds
  int64_t name = 0, kind = 0;  // texts
  int32_t layer = kNoLayer;
  int64_t ops = 1;
};

// `origin`: "predicted", "measured". A lane's spans come in the order in which they began.
Json lanes_json(std::string_view origin, std::vector<ShownSpan> spans, int64_t most = kMostSpans);

}  // namespace snug

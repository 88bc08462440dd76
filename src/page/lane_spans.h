// Spans on a page: what each lane runs, and when. Of more spans than a page shows, neighbours on a lane
// become one.
#pragma once

#include <string>
#include <vector>

#include "ir/value.h"
#include "page/columns.h"

namespace snug {

struct ShownSpan {
  std::string lane;
  double begin = 0, end = 0;  // seconds
  std::string name, kind;
  int32_t layer = kNoLayer;
  int64_t ops = 1;
};

// `layers`: prefixes of names, which all layers then share. `origin`: "predicted", "measured". A lane's spans come in the order in which they began.
Json lanes_json(std::string_view origin, std::vector<ShownSpan> spans, Texts& texts,
                const std::vector<std::string>& layers, int64_t most = kMostSpans);

}  // namespace snug

#include "passes/segments.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace snug {

std::vector<size_t> first_of_segments(const std::vector<SegmentOp>& ops) {
  const auto updates = [](const SegmentOp& op) { return op.updates && !op.beside; };
  int64_t most = 0;  // bytes that one update moves: small ones go together up to that
  for (const SegmentOp& op : ops) {
    if (updates(op)) most = std::max(most, op.moved);
  }
  using Place = std::pair<int32_t, int32_t>;
  std::vector<size_t> first;
  std::optional<Place> last;  // of the last op that is no update: an update goes with those
  int64_t moved = 0;          // by the updates of this segment, which are of one layer
  std::optional<int32_t> updated;
  for (size_t at = 0; at < ops.size(); ++at) {
    const SegmentOp& op = ops[at];
    const Place place{op.layer, op.micro_batch};
    const bool another = updates(op) ? moved + op.moved > most || updated != op.layer
                                     : !op.beside && last && place != *last;
    if (at == 0 || another) {
      first.push_back(at);
      moved = 0;
    }
    if (updates(op)) {
      moved += op.moved;
      updated = op.layer;
    } else if (!op.beside) {
      last = place;
    }
  }
  return first;
}

}  // namespace snug

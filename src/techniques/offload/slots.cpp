#include "techniques/offload/slots.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace snug {

std::vector<size_t> first_of_slots(const std::vector<SlotOp>& ops) {
  const auto updates = [](const SlotOp& op) { return op.updates && !op.overlaps; };
  int64_t most = 0;  // bytes that one update moves: small ones go together up to that
  for (const SlotOp& op : ops) {
    if (updates(op)) most = std::max(most, op.moved);
  }
  using Place = std::pair<int32_t, int32_t>;
  std::vector<size_t> first;
  std::optional<Place> last;  // of the last op that is no update: an update goes with those
  int64_t moved = 0;          // by the updates of this slot, which are of one layer
  std::optional<int32_t> updated;
  for (size_t at = 0; at < ops.size(); ++at) {
    const SlotOp& op = ops[at];
    const Place place{op.layer, op.micro_batch};
    const bool another = updates(op) ? moved + op.moved > most || updated != op.layer
                                     : !op.overlaps && last && place != *last;
    if (at == 0 || another) {
      first.push_back(at);
      moved = 0;
    }
    if (updates(op)) {
      moved += op.moved;
      updated = op.layer;
    } else if (!op.overlaps) {
      last = place;
    }
  }
  return first;
}

}  // namespace snug

#include "runtime/stream_stamps.h"

#include <algorithm>

namespace snug {

// An op begins when the one before it on its lane has ended, but where it waits for another lane.
StreamStamps::StreamStamps(Device& device, const BoundProgram& program)
    : program_(program),
      start_(device.make_stamp()),
      begins_(program.ops.size()),
      ends_(program.ops.size()) {
  std::vector<int32_t> begun;  // lanes
  for (size_t at = 0; at < program.ops.size(); at += program.batches[at]) {
    const int32_t lane = program.lanes[at];
    const bool first = std::ranges::find(begun, lane) == begun.end();
    if (first) begun.push_back(lane);
    const bool waits =
        !program.side_lanes.empty() && !program.order->waits(static_cast<int32_t>(at)).empty();
    if (first || waits) begins_[at] = device.make_stamp();
    ends_[at] = device.make_stamp();
  }
}

void StreamStamps::read(const Stamp& zero, size_t lanes, SpanRecorder& spans) const {
  const double start = start_->seconds_since(zero);
  std::vector<double> last(lanes, start);  // by lane
  for (size_t at = 0; at < program_.ops.size(); at += program_.batches[at]) {
    double& end = last[static_cast<size_t>(program_.lanes[at])];
    const Stamp* begin = begins_[at].get();
    spans.begin(at) = begin ? start + begin->seconds_since(*start_) : end;
    end = spans.end(at) = start + ends_[at]->seconds_since(*start_);
  }
}

}  // namespace snug

#include "pytorch/replay.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/units.h"

namespace snug::pytorch {
namespace {

constexpr int64_t kRounding = 512;  // the allocator's least block

// PyTorch's blocks are multiples of that. Others' need not be: the arena that `--profile` exports.
bool rounds_sizes(const DeviceSnapshot& device) {
  const auto is_whole = [](const Block& block) { return block.bytes % kRounding == 0; };
  return std::ranges::all_of(device.segments, [&](const Segment& segment) {
    return std::ranges::all_of(segment.blocks, is_whole);
  });
}

// What an event adds to the bytes that the allocator holds.
int64_t reserved_by(const Event& event) {
  switch (event.action) {
    case Action::segment_alloc:
    case Action::segment_map:
      return event.bytes;
    case Action::segment_free:
    case Action::segment_unmap:
      return -event.bytes;
    default:
      return 0;
  }
}

class Player {
 public:
  explicit Player(const DeviceSnapshot& device) : device_(device), rounds_(rounds_sizes(device)) {
    replay_.moments = std::ssize(device.trace) + 1;
    asks_to_free_ = std::ranges::any_of(
        device.trace, [](const Event& e) { return e.action == Action::free_requested; });
  }

  Replay play() && {
    for (size_t i = 0; i < device_.trace.size(); ++i)
      step(device_.trace[i], static_cast<int64_t>(i) + 1);
    match_blocks();
    std::ranges::stable_sort(replay_.allocations, {}, &Allocation::from);
    count_reserved();
    find_peak();
    return std::move(replay_);
  }

 private:
  int64_t rounded(int64_t bytes) const {
    return rounds_ ? std::max(kRounding, round_up(bytes, kRounding)) : bytes;
  }
  void step(const Event& event, int64_t moment) {
    if (event.action == Action::alloc) {
      const auto open = open_.find(event.address);
      if (open != open_.end()) at(open->second).to = moment;  // the trace lost its end
      open_[event.address] = replay_.allocations.size();
      replay_.allocations.push_back({.address = event.address,
                                     .bytes = rounded(event.bytes),
                                     .requested = event.bytes,
                                     .from = moment,
                                     .to = replay_.moments,
                                     .stack = event.stack});
    } else if (event.action == Action::free_requested ||
               (event.action == Action::free_completed && !asks_to_free_)) {
      release(event, moment);
    }
  }
  void release(const Event& event, int64_t moment) {
    const auto open = open_.find(event.address);
    if (open == open_.end()) {  // from before the trace
      ++replay_.lost;
      replay_.allocations.push_back({.address = event.address,
                                     .bytes = rounded(event.bytes),
                                     .requested = event.bytes,
                                     .to = moment,
                                     .freed_by = event.stack});
      return;
    }
    at(open->second).to = moment;
    at(open->second).freed_by = event.stack;
    open_.erase(open);
  }
  Allocation& at(size_t i) { return replay_.allocations[i]; }

  // What is allocated at the end: those of the trace get the block's own size, others were there
  // before it.
  void match_blocks() {
    for (const Segment& segment : device_.segments) {
      for (const Block& block : segment.blocks) {
        if (block.state != BlockState::allocated) continue;
        const auto open = open_.find(block.address);
        if (open != open_.end()) {
          at(open->second).bytes = block.bytes;
          if (at(open->second).stack == 0) at(open->second).stack = block.stack;
        } else {
          replay_.allocations.push_back({.address = block.address,
                                         .bytes = block.bytes,
                                         .requested = block.requested,
                                         .to = replay_.moments,
                                         .stack = block.stack});
        }
      }
    }
  }

  // From what is held at the end, backwards.
  void count_reserved() {
    std::vector<int64_t>& reserved = replay_.reserved;
    reserved.resize(static_cast<size_t>(replay_.moments));
    int64_t bytes = 0;
    for (const Segment& segment : device_.segments) bytes += segment.bytes;
    for (size_t i = reserved.size(); i-- > 0;) {
      reserved[i] = std::max<int64_t>(0, bytes);
      if (i > 0) bytes -= reserved_by(device_.trace[i - 1]);
    }
    replay_.peak_reserved = std::ranges::max(reserved);
  }

  void find_peak() {
    const std::vector<int64_t> bytes =
        allocated_by_moment(replay_, [](const Allocation& a) { return a.bytes; });
    const auto most = std::ranges::max_element(bytes);
    replay_.peak = most - bytes.begin();
    replay_.peak_allocated = *most;
  }

  const DeviceSnapshot& device_;
  const bool rounds_;
  Replay replay_;
  bool asks_to_free_ = false;
  std::unordered_map<int64_t, size_t> open_;
};

// Ranges by their beginning; neighbours stay apart, as they are apart for the driver.
class Ranges {
 public:
  void add(int64_t begin, int64_t bytes) {
    if (bytes > 0) ranges_[begin] = std::max(ranges_[begin], begin + bytes);
  }
  void remove(int64_t begin, int64_t bytes) {
    const int64_t end = begin + bytes;
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin()) --at;
    while (at != ranges_.end() && at->first < end) {
      const auto [from, to] = *at;
      if (to <= begin) {
        ++at;
        continue;
      }
      at = ranges_.erase(at);
      if (from < begin) ranges_[from] = begin;
      if (to > end) ranges_[end] = to;
    }
  }
  const std::map<int64_t, int64_t>& all() const { return ranges_; }

 private:
  std::map<int64_t, int64_t> ranges_;  // begin to end
};

// The segments as they were at that moment: those of the end, with every later event undone.
Ranges segments_at(const DeviceSnapshot& device, int64_t moment) {
  Ranges ranges;
  for (const Segment& segment : device.segments) ranges.add(segment.address, segment.bytes);
  for (size_t i = device.trace.size(); i > static_cast<size_t>(moment); --i) {
    const Event& event = device.trace[i - 1];
    const int64_t change = reserved_by(event);
    if (change > 0) ranges.remove(event.address, event.bytes);
    if (change < 0) ranges.add(event.address, event.bytes);
  }
  return ranges;
}

}  // namespace

Replay play(const DeviceSnapshot& device) { return Player(device).play(); }

std::vector<FreeRange> free_ranges(const DeviceSnapshot& device, const Replay& replay,
                                   int64_t moment) {
  const Ranges ranges = segments_at(device, moment);
  std::vector<const Allocation*> live;
  for (const Allocation& a : replay.allocations)
    if (a.lives_at(moment)) live.push_back(&a);
  std::ranges::sort(live, {}, &Allocation::address);
  std::vector<FreeRange> free;
  size_t next = 0;
  for (const auto& [begin, end] : ranges.all()) {
    int64_t at = begin;
    const int64_t segment = end - begin;
    const auto gap_up_to = [&](int64_t to) {
      if (to > at) free.push_back({to - at, segment});
    };
    while (next < live.size() && live[next]->address < begin) ++next;
    for (; next < live.size() && live[next]->address < end; ++next) {
      gap_up_to(live[next]->address);
      at = std::max(at, live[next]->address + live[next]->bytes);
    }
    gap_up_to(end);
  }
  return free;
}

}  // namespace snug::pytorch

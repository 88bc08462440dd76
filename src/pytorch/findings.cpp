#include "pytorch/findings.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/units.h"
#include "pytorch/remedies.h"

namespace snug::pytorch {
namespace {

constexpr int64_t kPage = int64_t{2} << 20;  // of an expandable segment

Fragmentation fragmentation_at(const DeviceSnapshot& device, const Replay& replay, int64_t moment) {
  Fragmentation f{.reserved = replay.reserved[static_cast<size_t>(moment)]};
  for (const Allocation& a : replay.allocations)
    if (a.lives_at(moment)) f.allocated += a.bytes;
  for (const FreeRange& range : free_ranges(device, replay, moment)) {
    (range.bytes == range.segment_bytes ? f.whole : f.split) += range.bytes;
    f.largest = std::max(f.largest, range.bytes);
    ++f.ranges;
  }
  return f;
}

class Examiner {
 public:
  Examiner(const Snapshot& snapshot, const DeviceSnapshot& device,
           const std::vector<StackFacts>& stacks)
      : snapshot_(snapshot),
        device_(device),
        stacks_(stacks),
        replay_(play(device)),
        steps_(find_steps(device, stacks)),
        owners_(owners_of(device, replay_, steps_, stacks)) {}

  DeviceFindings findings() && {
    found_.device = device_.device;
    found_.events = std::ssize(device_.trace);
    found_.has_frames = steps_.has_frames;
    found_.lost = replay_.lost;
    found_.steps_from = steps_.from;
    found_.peak_reserved = replay_.peak_reserved;
    found_.at_peak = fragmentation_at(device_, replay_, replay_.peak);
    found_.at_end = fragmentation_at(device_, replay_, replay_.last());
    look_at_peak();
    look_at_growth();
    look_at_oom();
    list_blocks();
    found_.remedies = remedies_of(snapshot_, replay_, steps_, stacks_, owners_);
    return std::move(found_);
  }

 private:
  void look_at_peak() {
    PeakFindings& peak = found_.peak;
    peak.moment = replay_.peak;
    peak.allocated = replay_.peak_allocated;
    peak.reserved = found_.at_peak.reserved;
    peak.step = steps_.at(replay_.peak);
    if (replay_.peak > 0)
      peak.phase = stacks_[device_.trace[static_cast<size_t>(replay_.peak) - 1].stack].phase;
    if (peak.phase == Phase::bare && steps_.has_frames && replay_.peak > 0)
      peak.phase = Phase::backward;
    std::map<std::pair<Owner, std::string>, Share> shares;
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      if (!a.lives_at(replay_.peak)) continue;
      peak.bytes[static_cast<size_t>(owners_[i])] += a.bytes;
      const std::string& label = stacks_[a.stack].label;
      Share& share = shares[{owners_[i], label}];
      share.owner = owners_[i];
      share.label = label;
      share.bytes += a.bytes;
      ++share.count;
    }
    for (auto& [key, share] : shares) peak.shares.push_back(std::move(share));
    std::ranges::stable_sort(peak.shares, std::greater(), &Share::bytes);
  }

  // What a step made and neither it nor the next has freed, in at least half of the steps between
  // the first and the last.
  void look_at_growth() {
    const std::vector<int64_t> bytes =
        allocated_by_moment(replay_, [](const Allocation& a) { return a.bytes; });
    for (const Step& step : steps_.all)
      found_.least_in_step.push_back(
          *std::min_element(bytes.begin() + step.begin, bytes.begin() + step.end + 1));
    const auto steps = std::ssize(steps_.all);
    if (steps < 3) return;
    std::map<std::string, Leak> leaks;
    std::map<std::string, std::set<size_t>> made_in;
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      const size_t step = steps_.at(a.from);
      if (step < 1 || static_cast<int64_t>(step) + 1 >= steps || !replay_.is_alive_at_end(a))
        continue;
      const StackFacts& facts = stacks_[a.stack];
      Leak& leak = leaks[facts.label];
      leak.label = facts.label;
      leak.bytes += a.bytes;
      ++leak.count;
      if (leak.frames.empty()) leak.frames = frames_of(a.stack);
      made_in[facts.label].insert(step);
    }
    for (auto& [label, leak] : leaks) {
      leak.steps = std::ssize(made_in[label]);
      if (2 * leak.steps >= steps - 2) found_.leaks.push_back(std::move(leak));
    }
    std::ranges::stable_sort(found_.leaks, std::greater(), &Leak::bytes);
  }
  // Of Python, without PyTorch's own where others are.
  std::vector<std::string> frames_of(StackId stack) const {
    constexpr size_t kMost = 4;
    std::vector<std::string> texts;
    for (const uint32_t i : snapshot_.stacks[stack]) {
      const Frame& frame = snapshot_.frames[i];
      const bool own = frame.file.ends_with(".py") && frame.file.find("/torch/") == frame.file.npos;
      if (own && texts.size() < kMost) texts.push_back(frame_text(frame));
    }
    return texts;
  }

  void look_at_oom() {
    int64_t times = 0;
    size_t last = 0;
    for (size_t i = 0; i < device_.trace.size(); ++i) {
      if (device_.trace[i].action != Action::oom) continue;
      ++times;
      last = i;
    }
    if (times == 0) return;
    const Event& event = device_.trace[last];
    const auto moment = static_cast<int64_t>(last) + 1;
    const StackFacts& facts = stacks_[event.stack];
    OutOfMemory oom{.asked = event.bytes,
                    .device_free = event.address,
                    .held = fragmentation_at(device_, replay_, moment),
                    .times = times,
                    .label = facts.label,
                    .phase = facts.phase};
    if (oom.phase == Phase::bare && steps_.has_frames) oom.phase = Phase::backward;
    oom.allocated = oom.held.allocated;
    oom.limited = oom.device_free >= oom.asked;
    int64_t pages = oom.limited ? 0 : oom.device_free / kPage * kPage;
    for (const FreeRange& range : free_ranges(device_, replay_, moment))
      pages += range.bytes / kPage * kPage;
    oom.expandable_would_do = !snapshot_.expandable_segments && pages >= round_up(oom.asked, kPage);
    found_.oom = oom;
  }

  void list_blocks() {
    for (size_t i = 0; i < owners_.size(); ++i) {
      const Allocation& a = replay_.allocations[i];
      const bool at_peak = a.lives_at(replay_.peak);
      const bool at_end = replay_.is_alive_at_end(a);
      if (at_peak || at_end)
        found_.blocks.push_back({a.address, a.bytes, owners_[i], at_peak, at_end});
    }
  }

  const Snapshot& snapshot_;
  const DeviceSnapshot& device_;
  const std::vector<StackFacts>& stacks_;
  const Replay replay_;
  const Steps steps_;
  const std::vector<Owner> owners_;
  DeviceFindings found_;
};

}  // namespace

double PeakFindings::known() const {
  if (allocated == 0) return 1;
  return 1 - static_cast<double>(bytes[static_cast<size_t>(Owner::unknown)]) /
                 static_cast<double>(allocated);
}

std::vector<DeviceFindings> examine(const Snapshot& snapshot) {
  const std::vector<StackFacts> stacks = facts_of_stacks(snapshot);
  std::vector<DeviceFindings> all;
  for (const DeviceSnapshot& device : snapshot.devices)
    all.push_back(Examiner(snapshot, device, stacks).findings());
  return all;
}

double growth_per_step(const DeviceFindings& findings) {
  const std::vector<int64_t>& bytes = findings.least_in_step;
  if (bytes.size() < 3) return 0;
  return static_cast<double>(bytes.back() - bytes[1]) / static_cast<double>(bytes.size() - 2);
}

}  // namespace snug::pytorch

#include <algorithm>
#include <map>

#include "base/units.h"
#include "ir/value.h"
#include "page/snapshot_subject.h"
#include "pytorch/replay.h"
#include "pytorch/steps.h"

namespace snug {
namespace {

using pytorch::Action;
using pytorch::Allocation;
using pytorch::Owner;

constexpr size_t kLongestLabel = 300;
constexpr size_t kMostMarks = 20, kMostSections = 200;
constexpr int64_t kLongestTrace = 1'000'000'000'000'000;  // microseconds

// Addresses that something had, pushed together: where one is on the map.
class AddressMap {
 public:
  void add(int64_t address, int64_t bytes) {
    if (bytes > 0) ranges_.push_back({address, address + bytes, 0});
  }
  void settle() {
    std::ranges::sort(ranges_, {}, &Range::begin);
    std::vector<Range> joined;
    for (const Range& range : ranges_) {
      if (!joined.empty() && range.begin <= joined.back().end)
        joined.back().end = std::max(joined.back().end, range.end);
      else
        joined.push_back(range);
    }
    for (Range& range : joined) {
      range.offset = bytes_;
      bytes_ += range.end - range.begin;
    }
    ranges_ = std::move(joined);
  }
  int64_t offset(int64_t address) const {
    const auto after = std::ranges::upper_bound(ranges_, address, {}, &Range::begin);
    return after == ranges_.begin() ? 0 : after[-1].offset + address - after[-1].begin;
  }
  int64_t bytes() const { return bytes_; }

 private:
  struct Range {
    int64_t begin = 0, end = 0, offset = 0;
  };
  std::vector<Range> ranges_;
  int64_t bytes_ = 0;
};

std::string_view words_of(Action action) {
  switch (action) {
    case Action::alloc:
      return "allocates";
    case Action::free_requested:
    case Action::free_completed:
      return "frees";
    case Action::segment_alloc:
    case Action::segment_map:
      return "takes a segment";
    case Action::segment_free:
    case Action::segment_unmap:
      return "returns a segment";
    case Action::oom:
      return "runs out of memory";
    default:
      return "other";
  }
}

class DevicePage {
 public:
  DevicePage(const pytorch::Snapshot& snapshot, const pytorch::DeviceSnapshot& device,
             const pytorch::DeviceFindings& findings, Texts& texts, int64_t most_instants)
      : device_(device),
        findings_(findings),
        texts_(texts),
        stacks_(pytorch::facts_of_stacks(snapshot)),
        replay_(pytorch::play(device)),
        steps_(pytorch::find_steps(device, stacks_)),
        owners_(pytorch::owners_of(device, replay_, steps_, stacks_)),
        stride_(std::max<int64_t>(1, ceil_div(replay_.moments, most_instants))),
        size_(ceil_div(replay_.moments, stride_)) {
    const std::vector<int64_t> all =
        pytorch::allocated_by_moment(replay_, [](const Allocation& a) { return a.bytes; });
    for (int64_t first = 0; first < replay_.moments; first += stride_) {
      const auto end = all.begin() + std::min(first + stride_, replay_.moments);
      fullest_.push_back(std::max_element(all.begin() + first, end) - all.begin());
    }
  }

  Json axis() const {
    Json name = Json::array(), layer = name, phase = name;
    for (const int64_t moment : fullest_) {
      name.push_back(texts_.index(event_text(moment)));
      layer.push_back(kNoLayer);
      phase.push_back(texts_.index(moment == 0 ? "" : phase_words(phase_of(moment))));
    }
    return {{"unit", "event"}, {"size", size_},  {"stride", stride_}, {"sections", sections()},
            {"name", name},    {"layer", layer}, {"phase", phase},    {"begin_us", begins()}};
  }

  Json space(size_t axis, int64_t most_values) const {
    const AddressMap addresses = address_map();
    const int64_t idle = std::max<int64_t>(0, findings_.peak.reserved - findings_.peak.allocated);
    return {{"name", fmt::format("device {}", findings_.device)},
            {"axis", axis},
            {"arena", findings_.peak.allocated + idle},
            {"arena_words", "reserved"},
            {"map_bytes", addresses.bytes()},
            {"max_live", findings_.peak.allocated},
            {"limit", nullptr},
            {"peak", instant(replay_.peak)},
            {"at_peak", findings_.peak.bytes},
            {"gaps", idle},
            {"live", courses()},
            {"reserved", changes_of(reserved())},
            {"line_words", "reserved by the allocator"},
            {"marks", marks()},
            {"values", values(addresses, most_values)}};
  }

 private:
  const pytorch::Event& event(int64_t moment) const {
    return device_.trace[static_cast<size_t>(moment) - 1];
  }
  int64_t instant(int64_t moment) const { return moment / stride_; }
  // Where frames are recorded, code without any is autograd's.
  pytorch::Phase phase_of(int64_t moment) const {
    const pytorch::Phase phase = stacks_[event(moment).stack].phase;
    return phase == pytorch::Phase::bare && steps_.has_frames ? pytorch::Phase::backward : phase;
  }
  std::string label_of(pytorch::StackId stack) const {
    return without_end(stacks_[stack].label, kLongestLabel);
  }
  std::string event_text(int64_t moment) const {
    if (moment == 0) return "before the trace";
    const std::string label = label_of(event(moment).stack);
    const std::string_view action = words_of(event(moment).action);
    return label.empty() ? std::string(action) : fmt::format("{} {}", label, action);
  }

  Json sections() const {
    Json out = Json::array();
    if (steps_.all.empty() || steps_.all[0].begin > 0)
      out.push_back(
          {{"name", steps_.all.empty() ? "the trace" : "before"}, {"first", 0}, {"runs", 1}});
    const size_t every = 1 + steps_.all.size() / kMostSections;
    for (size_t i = 0; i < steps_.all.size(); i += every)
      out.push_back({{"name", fmt::format("step {}", i + 1)},
                     {"first", instant(steps_.all[i].begin)},
                     {"runs", 1}});
    return out;
  }

  Json begins() const {
    std::vector<int64_t> out;
    int64_t zero = 0, last = 0;
    const auto go_to = [&](const pytorch::Event& e) {  // a clock may say anything
      if (e.time_us > zero) last = std::max(last, std::min(e.time_us - zero, kLongestTrace));
    };
    for (const pytorch::Event& e : device_.trace)
      if (e.time_us > 0 && (zero == 0 || e.time_us < zero)) zero = e.time_us;
    for (int64_t i = 0; i < size_; ++i) {
      const int64_t moment = i * stride_;
      if (moment > 0) go_to(event(moment));
      out.push_back(last);
    }
    if (!device_.trace.empty()) go_to(device_.trace.back());
    out.push_back(last);
    return out;
  }

  Json courses() const {
    Json out = Json::array();
    for (size_t owner = 0; owner < pytorch::kOwners; ++owner) {
      const Allocation* first = replay_.allocations.data();
      const std::vector<int64_t> all =
          pytorch::allocated_by_moment(replay_, [&](const Allocation& a) {
            return owners_[static_cast<size_t>(&a - first)] == static_cast<Owner>(owner) ? a.bytes
                                                                                         : 0;
          });
      out.push_back(changes_of(at_fullest(all)));
    }
    return out;
  }
  std::vector<int64_t> reserved() const { return at_fullest(replay_.reserved); }
  std::vector<int64_t> at_fullest(const std::vector<int64_t>& by_moment) const {
    std::vector<int64_t> out;
    for (const int64_t moment : fullest_) out.push_back(by_moment[static_cast<size_t>(moment)]);
    return out;
  }

  Json marks() const {
    Json out = Json::array();
    for (int64_t moment = replay_.last(); moment > 0 && out.size() < kMostMarks; --moment)
      if (event(moment).action == Action::oom)
        out.push_back({instant(moment), "no room for " + format_bytes(event(moment).bytes)});
    return out;
  }

  AddressMap address_map() const {
    AddressMap out;
    for (const pytorch::Segment& segment : device_.segments)
      out.add(segment.address, segment.bytes);
    for (const pytorch::Event& e : device_.trace)
      if (e.action == Action::segment_alloc || e.action == Action::segment_map)
        out.add(e.address, e.bytes);
    for (const Allocation& a : replay_.allocations) out.add(a.address, a.bytes);
    out.settle();
    return out;
  }

  int64_t end_of(const Allocation& a) const {  // its last moment
    return std::max(a.from, std::min(a.to - 1, replay_.last()));
  }

  Json values(const AddressMap& addresses, int64_t most) const {
    std::vector<size_t> order(replay_.allocations.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto area = [&](size_t i) {
      const Allocation& a = replay_.allocations[i];
      return static_cast<double>(a.bytes) * static_cast<double>(end_of(a) - a.from + 1);
    };
    std::ranges::stable_sort(order, std::greater(), area);
    int64_t left_out = 0;
    for (size_t i = static_cast<size_t>(most); i < order.size(); ++i)
      left_out += replay_.allocations[order[i]].bytes;
    const size_t all = order.size();
    if (std::ssize(order) > most) order.resize(static_cast<size_t>(most));
    Json name = Json::array(), type = name, layer = name, category = name, offset = name;
    Json bytes = name, first = name, last = name, made = name;
    for (const size_t i : order) {
      const Allocation& a = replay_.allocations[i];
      const std::string label = label_of(a.stack);
      name.push_back(texts_.index(label.empty() ? "an allocation without frames" : label));
      type.push_back(texts_.index(made_in(a)));
      layer.push_back(kNoLayer);
      category.push_back(static_cast<int>(owners_[i]));
      offset.push_back(addresses.offset(a.address));
      bytes.push_back(a.bytes);
      first.push_back(instant(a.from));
      last.push_back(instant(end_of(a)));
      made.push_back(-1);
    }
    return {{"all", all},       {"left_out_bytes", left_out},
            {"name", name},     {"type", type},
            {"layer", layer},   {"category", category},
            {"offset", offset}, {"bytes", bytes},
            {"first", first},   {"last", last},
            {"made", made}};
  }
  // "in forward of step 2"
  std::string made_in(const Allocation& a) const {
    if (a.from == 0) return "from before the trace";
    if (phase_of(a.from) == pytorch::Phase::setup) return "made with the model";
    const std::string_view phase = phase_words(phase_of(a.from));
    const size_t step = steps_.at(a.from);
    const std::string of = step < steps_.all.size() ? fmt::format("step {}", step + 1) : "";
    if (phase.empty()) return of.empty() ? "" : "made in " + of;
    return fmt::format("made in {}{}", phase, of.empty() ? "" : " of " + of);
  }

  const pytorch::DeviceSnapshot& device_;
  const pytorch::DeviceFindings& findings_;
  Texts& texts_;
  const std::vector<pytorch::StackFacts> stacks_;
  const pytorch::Replay replay_;
  const pytorch::Steps steps_;
  const std::vector<Owner> owners_;
  const int64_t stride_, size_;
  std::vector<int64_t> fullest_;  // by instant: its moment with most bytes
};

}  // namespace

DeviceOnPage device_on_page(const pytorch::Snapshot& snapshot,
                            const pytorch::DeviceSnapshot& device,
                            const pytorch::DeviceFindings& findings, size_t axis, Texts& texts,
                            int64_t most_instants, int64_t most_values) {
  const DevicePage page(snapshot, device, findings, texts, most_instants);
  return {.space = page.space(axis, most_values), .axis = page.axis()};
}

}  // namespace snug

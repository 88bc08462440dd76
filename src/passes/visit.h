// Values whose home is elsewhere, and their stays on the device (passes/homes.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/order.h"

namespace snug {

// From the first use of a value in some segments to the last: for so long it has bytes on the
// device.
struct Visit {
  Extent bytes;  // of the value: all, or the slice that an update works on
  int32_t first_segment = 0;
  int32_t first_op = 0, last_op = 0;  // that use it
  int32_t last_write = -1;
  bool brought = true;                    // else its first op makes all of it
  bool given_up = false;                  // what its ops write does not go home
  int32_t after = -1;                     // the last op before it whose writes are at home
  ValueId whole = {};                     // on the device: all of these bytes, as they were first
  ValueId latest = {};                    // their last version
  std::map<ValueId, ValueId> parts = {};  // parts of what they were before -> the same of `whole`

  bool holds(const Extent& part) const {
    return bytes.root == part.root && bytes.begin <= part.begin && part.end <= bytes.end;
  }
};

// A value with a home elsewhere, in one program.
struct Homed {
  Space home = Space::host;
  ValueId shard = {};   // that it is gathered from; none: it is copied
  bool shared = false;  // else a value that forward keeps for backward
  std::vector<Visit> visits = {};
  std::map<int64_t, std::pair<Extent, ValueId>> puts = {};  // by first byte: the last version there
  int32_t last_at_home = -1, last_write_at_home = -1;       // the last op that used it there so far

  // The op after which the visit's bytes go home, or -1.
  int32_t put_after(size_t v) const {
    if (shared) return visits[v].last_write;
    return v == 0 ? visits[v].last_op : -1;
  }
};

// Hop h goes between kWay[h] and kWay[h + 1].
inline constexpr std::array kWay{Space::device, Space::host, Space::disk};
inline constexpr size_t kHops = kWay.size() - 1;

// From a home to the device, or back.
constexpr size_t hops_of(Space home) {
  return home == Space::device ? 0 : home == Space::disk ? 2 : 1;
}

// What leaves the device over one hop, by segment: kept values, and shared ones.
class LastPuts {
 public:
  // The copy `op`, at that place of the program.
  void note(bool shared, int32_t segment, size_t at, std::string op) {
    puts_[shared ? 1 : 0][segment] = {at, std::move(op)};
  }
  // The last of those before a segment of shared values and one of kept ones; "" where there is none.
  std::string before(int32_t shared, int32_t kept) const {
    const Put* last = nullptr;
    for (const auto& [segment, puts] : {std::pair(kept, &puts_[0]), std::pair(shared, &puts_[1])}) {
      const auto after = puts->lower_bound(segment);
      if (after == puts->begin()) continue;
      const Put& put = std::prev(after)->second;
      if (last == nullptr || put.at > last->at) last = &put;
    }
    return last == nullptr ? "" : last->op;
  }

 private:
  struct Put {
    size_t at;
    std::string op;
  };
  std::map<int32_t, Put> puts_[2];
};

// Those of the two that there are.
inline std::vector<std::string> not_before(const std::string& op, const std::string& put) {
  std::vector<std::string> names;
  for (const std::string& name : {op, put}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

// The shard of a parameter that is gathered; none of all others.
inline ValueId gathered_from(const Value& value) {
  return value.category == Category::params ? value.parameter : ValueId{};
}

}  // namespace snug

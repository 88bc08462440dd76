// Offloaded values, and when they are on the device (offload.cpp).
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

// From the first use of a value in some slots to the last: for so long it has bytes on the device.
struct Residency {
  Extent bytes;  // of the value: all, or the slice that an update works on
  int32_t first_slot = 0;
  int32_t first_op = 0, last_op = 0;  // that use it
  int32_t last_write = -1;
  bool prefetched = true;                 // else its first op makes all of it
  bool given_up = false;                  // what its ops write is not evicted
  int32_t after = -1;                     // the last op before it whose writes are in its space
  ValueId whole = {};                     // on the device: all of these bytes, as they were first
  ValueId latest = {};                    // their last version
  std::map<ValueId, ValueId> parts = {};  // parts of what they were before -> the same of `whole`

  bool holds(const Extent& part) const {
    return bytes.root == part.root && bytes.begin <= part.begin && part.end <= bytes.end;
  }
};

// An offloaded value, in one program.
struct Offloaded {
  Space space = Space::host;
  ValueId shard = {};   // that it is gathered from; none: it is copied
  bool shared = false;  // else a value that forward keeps for backward
  std::vector<Residency> residencies = {};
  std::map<int64_t, std::pair<Extent, ValueId>> evictions =
      {};                                                // by first byte: the last version there
  int32_t last_in_space = -1, last_write_in_space = -1;  // the last op that used it there so far

  // The op after which the residency's bytes are evicted, or -1.
  int32_t evict_after(size_t v) const {
    if (shared) return residencies[v].last_write;
    return v == 0 ? residencies[v].last_op : -1;
  }
};

// Hop h goes between kWay[h] and kWay[h + 1].
inline constexpr std::array kWay{Space::device, Space::host, Space::disk};
inline constexpr size_t kHops = kWay.size() - 1;

// From a space to the device, or back.
constexpr size_t hops_of(Space space) {
  return space == Space::device ? 0 : space == Space::disk ? 2 : 1;
}

// What leaves the device over one hop, by slot: kept values, and shared ones.
class LastEvictions {
 public:
  // The copy `op`, at that place of the program.
  void note(bool shared, int32_t slot, size_t at, std::string op) {
    evictions_[shared ? 1 : 0][slot] = {at, std::move(op)};
  }
  // The last of those before a slot of shared values and one of kept ones; "" where there is none.
  std::string before(int32_t shared, int32_t kept) const {
    const Eviction* last = nullptr;
    for (const auto& [slot, evictions] :
         {std::pair(kept, &evictions_[0]), std::pair(shared, &evictions_[1])}) {
      const auto after = evictions->lower_bound(slot);
      if (after == evictions->begin()) continue;
      const Eviction& eviction = std::prev(after)->second;
      if (last == nullptr || eviction.at > last->at) last = &eviction;
    }
    return last == nullptr ? "" : last->op;
  }

 private:
  struct Eviction {
    size_t at;
    std::string op;
  };
  std::map<int32_t, Eviction> evictions_[2];
};

// Those of the two that there are.
inline std::vector<std::string> not_before(const std::string& op, const std::string& put) {
  std::vector<std::string> names;
  for (const std::string& name : {op, put}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

}  // namespace snug

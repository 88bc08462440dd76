#include "placement/packing.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/units.h"
#include "placement/interval_index.h"

namespace snug {
namespace {

// A block as the orders see it. Time is compressed to the instants at which some block begins: two
// blocks meet if and only if they meet at the later one's beginning, so nothing is lost.
struct Item {
  int64_t bytes;  // rounded up to the alignment
  int32_t first, last;
  int64_t contention;  // the most bytes live at an instant of its life
  int64_t span() const { return last - first + 1; }
};

std::vector<Item> compress(std::span<const Block> blocks, int64_t alignment) {
  std::vector<int32_t> begins;
  for (const Block& b : blocks) begins.push_back(b.first);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  auto index = [&](int32_t instant) {  // of the last beginning at or before it
    const auto after = std::upper_bound(begins.begin(), begins.end(), instant);
    return static_cast<int32_t>(after - begins.begin()) - 1;
  };
  std::vector<Item> items;
  items.reserve(blocks.size());
  for (const Block& b : blocks) {
    items.push_back({round_up(b.bytes, alignment), index(b.first), index(b.last), 0});
  }
  return items;
}

// Range maximum by doubling: level k holds the maximum of 2^k instants from each on.
class RangeMax {
 public:
  explicit RangeMax(std::vector<int64_t> values) : levels_{std::move(values)} {
    for (size_t width = 1; 2 * width <= levels_[0].size(); width *= 2) {
      const auto& half = levels_.back();
      std::vector<int64_t> level(half.size() - width);
      for (size_t i = 0; i < level.size(); ++i) level[i] = std::max(half[i], half[i + width]);
      levels_.push_back(std::move(level));
    }
  }
  int64_t operator()(int32_t first, int32_t last) const {
    const auto count = static_cast<size_t>(last - first + 1);
    size_t k = 0;
    while (size_t{2} << k <= count) ++k;
    const auto& level = levels_[k];
    return std::max(level[static_cast<size_t>(first)],
                    level[static_cast<size_t>(last) + 1 - (size_t{1} << k)]);
  }

 private:
  std::vector<std::vector<int64_t>> levels_;
};

template <typename T>
std::vector<int64_t> profile_of(std::span<const T> blocks) {
  int32_t end = 0;
  for (const T& b : blocks) end = std::max(end, b.last + 1);
  std::vector<int64_t> live(static_cast<size_t>(end) + 1, 0);
  for (const T& b : blocks) {
    live[static_cast<size_t>(b.first)] += b.bytes;
    live[static_cast<size_t>(b.last) + 1] -= b.bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}

int64_t peak_of(const std::vector<int64_t>& live) {
  return live.empty() ? 0 : *std::max_element(live.begin(), live.end());
}

using Order = std::vector<uint32_t>;

class Packer {
 public:
  Packer(std::span<const Block> blocks, int64_t alignment, int64_t effort)
      : blocks_(blocks), items_(compress(blocks, alignment)), effort_(effort), taken_(0) {
    const std::vector<int64_t> live = profile_of<Item>(items_);
    bound_ = peak_of(live);
    peak_ = static_cast<int32_t>(std::max_element(live.begin(), live.end()) - live.begin());
    const RangeMax most(live);
    for (Item& item : items_) item.contention = most(item.first, item.last);
    taken_ = IntervalIndex(static_cast<int32_t>(live.size()));
  }

  Packing run() {
    try_order("outward from the peak", [&](const Item& i) { return outward(i); });
    try_order("contention",
              [](const Item& i) { return std::tuple(-i.contention, -i.bytes, i.first); });
    try_order("lifetime", [](const Item& i) { return std::tuple(-i.span(), -i.bytes, i.first); });
    try_order("size", [](const Item& i) { return std::tuple(-i.bytes, -i.span(), i.first); });
    try_order("size x lifetime", [](const Item& i) {
      return std::tuple(-static_cast<double>(i.bytes) * static_cast<double>(i.span()), i.first);
    });
    try_order("time", [](const Item& i) { return std::tuple(i.first, -i.span(), -i.bytes); });
    try_order("reverse time",
              [](const Item& i) { return std::tuple(-i.last, -i.span(), -i.bytes); });
    improve();
    return finish();
  }

 private:
  struct Attempt {
    std::string_view name;
    Order order;
    std::vector<int64_t> offsets;
    int64_t height = std::numeric_limits<int64_t>::max();  // of rounded blocks
  };

  bool found() const { return !best_.name.empty(); }
  bool spent() const { return taken_.visits() > effort_; }
  bool done() const { return found() && (best_.height == bound_ || spent()); }

  // Those live at the peak first, without a gap; then away from it on both sides, which never meet.
  std::tuple<int, int64_t, int64_t> outward(const Item& i) const {
    if (i.first > peak_) return {1, i.first, -i.span()};
    if (i.last < peak_) return {2, -i.last, -i.span()};
    return {0, -i.span(), -i.bytes};
  }

  template <typename Key>
  void try_order(std::string_view name, Key key) {
    if (done()) return;
    Order order(items_.size());
    std::iota(order.begin(), order.end(), 0U);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return key(items_[a]) < key(items_[b]); });
    greedy(name, order);
  }

  // Places block after block as low as it fits. Gives up at the first that would end no lower than
  // the best height so far, and returns its position in the order; a complete packing is therefore
  // a better one, and is kept.
  size_t greedy(std::string_view name, const Order& order) {
    std::vector<int64_t> offsets(items_.size());
    int64_t height = 0;
    taken_.clear();
    for (size_t position = 0; position < order.size(); ++position) {
      const Item& item = items_[order[position]];
      const int64_t at = taken_.lowest_fit(item.first, item.last, item.bytes);
      height = std::max(height, at + item.bytes);
      if (height >= best_.height || (spent() && found())) return position;
      taken_.occupy(item.first, item.last, {at, at + item.bytes});
      offsets[order[position]] = at;
    }
    best_ = {name, order, std::move(offsets), height};
    return order.size();
  }

  // A block that sticks out was placed too late: moved up in the order, it gets its place earlier.
  // The last thousandth is not worth the search.
  void improve() {
    Order order = best_.order;
    while (!done() && best_.height - bound_ > bound_ / 1000) {
      const size_t late = greedy("moved", order);
      if (late == order.size()) continue;
      const auto at = order.begin() + static_cast<std::ptrdiff_t>(late);
      std::rotate(order.begin() + static_cast<std::ptrdiff_t>(late / 2), at, at + 1);
    }
  }

  Packing finish() {
    Packing packing{std::move(best_.offsets), 0, peak_of(live_profile(blocks_)), best_.name};
    for (size_t i = 0; i < blocks_.size(); ++i) {
      packing.height = std::max(packing.height, packing.offsets[i] + blocks_[i].bytes);
    }
    return packing;
  }

  std::span<const Block> blocks_;
  std::vector<Item> items_;
  int64_t effort_;
  int64_t bound_ = 0;  // no packing of the rounded blocks is lower
  int32_t peak_ = 0;
  IntervalIndex taken_;
  Attempt best_;
};

}  // namespace

std::vector<int64_t> live_profile(std::span<const Block> blocks) { return profile_of(blocks); }

Packing pack(std::span<const Block> blocks, int64_t alignment, int64_t effort) {
  if (blocks.empty()) return {};
  return Packer(blocks, alignment, effort).run();
}

}  // namespace snug

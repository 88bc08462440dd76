#include "runtime/batches.h"

#include <algorithm>
#include <iterator>
#include <map>

namespace snug {
namespace {

struct Bytes {
  const std::byte *begin, *end;

  Bytes(const void* data, size_t size)
      : begin(static_cast<const std::byte*>(data)), end(begin + size) {}
  explicit Bytes(const Tensor& t)
      : Bytes(t.data, t.data == nullptr ? 0 : static_cast<size_t>(t.type->bytes())) {}
};

// Pieces of memory; those that overlap become one.
class ByteSet {
 public:
  bool touches(const Bytes& b) const {
    const auto after = ends_.lower_bound(b.end);
    return b.begin < b.end && after != ends_.begin() && std::prev(after)->second > b.begin;
  }
  void add(Bytes b) {
    while (touches(b)) {
      const auto other = std::prev(ends_.lower_bound(b.end));
      b.begin = std::min(b.begin, other->first);
      b.end = std::max(b.end, other->second);
      ends_.erase(other);
    }
    if (b.begin < b.end) ends_.emplace(b.begin, b.end);
  }

 private:
  std::map<const std::byte*, const std::byte*> ends_;  // by beginning
};

template <typename Fn>
void for_read(const KernelArgs& a, const Fn& fn) {
  for (const Tensor& t : a.inputs) fn(Bytes(t));
  if (a.predicate != nullptr) fn(Bytes(a.predicate, sizeof *a.predicate));
}

template <typename Fn>
void for_written(const KernelArgs& a, const Fn& fn) {
  for (const Tensor& t : a.outputs) fn(Bytes(t));
  fn(Bytes(a.workspace.data(), a.workspace.size()));
}

// What the calls of a batch read and write.
class Touched {
 public:
  bool allows(const KernelArgs& a) const {
    bool clash = false;
    for_read(a, [&](const Bytes& b) { clash |= written_.touches(b); });
    for_written(a, [&](const Bytes& b) { clash |= written_.touches(b) || read_.touches(b); });
    return !clash;
  }
  void add(const KernelArgs& a) {
    for_read(a, [&](const Bytes& b) { read_.add(b); });
    for_written(a, [&](const Bytes& b) { written_.add(b); });
  }

 private:
  ByteSet read_, written_;
};

// May `call` start when the batch that begins with `first` does? Otherwise all of the batch would
// wait for what only this call needs.
bool starts_with(const Order& order, size_t first, size_t call) {
  const auto op = static_cast<int32_t>(call);
  return order.lane_of(op) == order.lane_of(static_cast<int32_t>(first)) && order.waits(op).empty();
}

}  // namespace

std::vector<size_t> batch_sizes(std::span<const Kernel* const> kernels,
                                std::span<const KernelArgs> calls, const Order* order) {
  std::vector<size_t> sizes(calls.size(), 1);
  for (size_t first = 0; first < calls.size(); first += sizes[first]) {
    if (kernels[first] == nullptr || kernels[first]->run_many == nullptr) continue;
    Touched touched;
    touched.add(calls[first]);
    for (size_t i = first + 1; i < calls.size(); ++i) {
      if (kernels[i] != kernels[first] || calls[i].predicate != calls[first].predicate ||
          (order != nullptr && !starts_with(*order, first, i)) || !touched.allows(calls[i]))
        break;
      touched.add(calls[i]);
      ++sizes[first];
    }
  }
  return sizes;
}

}  // namespace snug

// For tests: a snapshot as PyTorch's allocator would have recorded it, one segment for each size of
// block.
//
//   Recorder r;
//   const StackId forward = r.stack({{"/env/torch/nn/modules/linear.py", "forward", 1}});
//   const int64_t a = r.alloc(1 << 20, forward);
//   r.free(a);
//   const Snapshot s = r.snapshot();
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "base/units.h"
#include "pytorch/snapshot.h"

namespace snug::pytorch {

class Recorder {
 public:
  Recorder() { snapshot_.devices.emplace_back(); }

  StackId stack(const std::vector<Frame>& frames) {
    snapshot_.stacks.emplace_back();
    for (const Frame& frame : frames) {
      const auto [known, is_new] =
          frames_.emplace(std::tuple(frame.file, frame.name, frame.line), snapshot_.frames.size());
      snapshot_.stacks.back().push_back(static_cast<uint32_t>(known->second));
      if (is_new) snapshot_.frames.push_back(frame);
    }
    return static_cast<StackId>(snapshot_.stacks.size() - 1);
  }
  int64_t alloc(int64_t bytes, StackId stack = 0) {
    const int64_t rounded = round_up(bytes, 512);
    std::vector<int64_t>& free = free_[rounded];
    int64_t address = next_;
    if (free.empty()) {
      next_ += rounded;
      trace().push_back({Action::segment_alloc, address, rounded, ++time_, stack});
    } else {
      address = free.back();
      free.pop_back();
    }
    trace().push_back({Action::alloc, address, bytes, ++time_, stack});
    live_[address] = {address, rounded, bytes, BlockState::allocated, stack};
    return address;
  }
  void free(int64_t address, StackId stack = 0) {
    const Block block = live_.at(address);
    trace().push_back({Action::free_requested, address, block.requested, ++time_, stack});
    trace().push_back({Action::free_completed, address, block.requested, ++time_, stack});
    free_[block.bytes].push_back(address);
    live_.erase(address);
  }
  void free(std::vector<int64_t>& addresses, StackId stack = 0) {
    for (const int64_t address : addresses) free(address, stack);
    addresses.clear();
  }
  void oom(int64_t asked, int64_t device_free, StackId stack) {
    trace().push_back({Action::oom, device_free, asked, ++time_, stack});
  }

  std::vector<Event>& trace() { return snapshot_.devices[0].trace; }
  // As it is now.
  Snapshot snapshot() const {
    Snapshot out = snapshot_;
    std::map<int64_t, Block> blocks = live_;
    for (const auto& [bytes, addresses] : free_)
      for (const int64_t a : addresses) blocks[a] = {a, bytes, 0, BlockState::inactive, 0};
    for (const auto& [address, block] : blocks)
      out.devices[0].segments.push_back(
          {.address = address, .bytes = block.bytes, .blocks = {block}});
    return out;
  }

 private:
  Snapshot snapshot_;
  std::map<std::tuple<std::string, std::string, int64_t>, size_t> frames_;
  std::map<int64_t, Block> live_;
  std::map<int64_t, std::vector<int64_t>> free_;
  int64_t next_ = int64_t{1} << 40;
  int64_t time_ = 0;
};

}  // namespace snug::pytorch

// A program of many lanes, for tests.
//
//   LaneProgram f(seed);
//   Order(f.module, f.module.program("p")).lanes();   // 4
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "ops/basic/copy.h"
#include "runtime/testing/toy_programs.h"

namespace snug::testing_ops {

// A random program over two spaces and four lanes, or three and six: values are prefetched from the
// host and written back, some of them held back by `after`, computed with on both sides, and written
// to disk and read back.
class LaneProgram : public Fixture {
 public:
  explicit LaneProgram(unsigned seed, bool disk = false) : random_(seed), disk_(disk) {
    for (const char* name : {"w0", "w1", "w2"}) {
      weights.push_back(add_shared(module, name, kVector, Category::params, Scope::persistent));
      module[weights.back()].space = Space::host;
      on_host_.push_back(weights.back());
    }
    if (disk) {
      on_host_.pop_back();
      on_disk_.push_back(weights.back());
      module[weights.back()].space = Space::disk;
    }
    for (int i = 0; i < 60; ++i) add_op(fmt::format("op{}", i));
    ValueId sum = on_device_.back();
    for (size_t i = 1; i < 5 && i < on_device_.size(); ++i)
      sum = on("compute", b.emit(testing_ops::add, fmt::format("sum{}", i),
                                 {sum, on_device_[on_device_.size() - 1 - i]})[0]);
    finish(sum, 0.5);
  }

  std::vector<ValueId> weights;  // on the host, the last one maybe on disk

 private:
  ValueId on(const char* lane, ValueId made, Space space = Space::device) {
    b.last().lane = lane;
    module[made].space = space;
    return made;
  }
  ValueId recent(const std::vector<ValueId>& from) {
    return from[from.size() - 1 - random_() % std::min<size_t>(from.size(), 5)];
  }
  void add_op(const std::string& name) {
    switch (random_() % (disk_ ? 8 : 6)) {
      case 6:
        on_disk_.push_back(
            on("disk_out", ops::copy(b, name, recent(on_host_), Space::disk), Space::disk));
        return;
      case 7:
        on_host_.push_back(
            on("disk_in", ops::copy(b, name, recent(on_disk_), Space::host), Space::host));
        if (!computed_.empty() && random_() % 2 == 0) b.last().after = {computed_.back()};
        return;
      case 0:
        on_device_.push_back(on("copy_in", ops::copy(b, name, recent(on_host_))));
        if (!computed_.empty() && random_() % 2 == 0) b.last().after = {computed_.back()};
        return;
      case 1:
        if (on_device_.empty()) return;
        on_host_.push_back(
            on("copy_out", ops::copy(b, name, recent(on_device_), Space::host), Space::host));
        return;
      case 2:
        on_host_.push_back(on("host_compute", scaled(name, recent(on_host_), 1.25), Space::host));
        return;
      case 3:
        on_device_.push_back(on("compute", scaled(name, recent_or_x(), 0.75)));
        break;
      case 4:
        on_device_.push_back(on("compute", b.emit(testing_ops::reverse, name, {recent_or_x()})[0]));
        break;
      default:
        on_device_.push_back(
            on("compute", b.emit(testing_ops::add, name, {recent_or_x(), recent_or_x()})[0]));
    }
    computed_.push_back(name);
  }
  ValueId recent_or_x() { return on_device_.empty() ? x : recent(on_device_); }

  std::mt19937 random_;
  bool disk_;
  std::vector<ValueId> on_device_, on_host_, on_disk_;
  std::vector<std::string> computed_;
};

}  // namespace snug::testing_ops

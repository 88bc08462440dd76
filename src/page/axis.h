// What a page draws from left to right: instants, which are the ops of a step, each program once, in
// their order. A step of more ops than a page shows has several in an instant.
#pragma once

#include <vector>

#include "ir/span.h"
#include "page/columns.h"
#include "placement/breakdown.h"

namespace snug {

class Axis {
 public:
  // The programs of a step, and those outside it in which a space has its peak.
  Axis(const Module& module, const MemoryBreakdown& memory, int64_t most = kMostInstants);

  const std::vector<int32_t>& programs() const { return programs_; }
  bool shows(int32_t program) const { return first_[static_cast<size_t>(program)] >= 0; }
  int64_t instant(int32_t program, int64_t op) const {
    return first_[static_cast<size_t>(program)] + op / stride_;
  }
  int64_t size() const { return size_; }
  int64_t stride() const { return stride_; }  // ops in an instant

  // Sections, and by instant: name, layer and phase of its fullest op, and when it begins as predicted.
  Json json(Texts& texts, const std::vector<Span>& predicted) const;

 private:
  Json begins(const std::vector<Span>& predicted) const;
  std::vector<int64_t> fullest(int32_t program) const;

  const Module& module_;
  std::vector<int32_t> programs_;
  std::vector<int64_t> first_;  // by program; -1: it is not shown
  int64_t size_ = 0, stride_ = 1;
};

}  // namespace snug

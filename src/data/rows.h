// The source of a Dataset's samples: rows of T tokens with their targets, by number.
//
//   rows->fill(7, {.tokens = tokens, .targets = targets});   // int32[T] each
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "data/fingerprint.h"

namespace snug {

// The target of a token that does not count.
constexpr int32_t kIgnoredTarget = -1;

struct RowSpans {
  std::span<int32_t> tokens, targets;  // [T]
  // For every position, where in the row its document begins; or nothing.
  std::span<int32_t> starts = {};
};

class Rows {
 public:
  virtual ~Rows() = default;
  virtual int64_t count() const = 0;
  virtual int64_t T() const = 0;
  // Targets of a row that count: at least one.
  virtual int64_t targets(int64_t row) const = 0;
  // Allocates nothing.
  virtual void fill(int64_t row, const RowSpans& out) const = 0;
  // Their kind and number, for the person at the terminal and for errors.
  virtual std::string text() const = 0;
  virtual std::string noun() const = 0;  // "window"
  virtual DataFingerprint fingerprint() const = 0;
};

}  // namespace snug

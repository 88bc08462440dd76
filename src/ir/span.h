// When an op ran, or is predicted to run, on which lane: plain data, the same for both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

enum class SpanOrigin : uint8_t { predicted, measured };

struct Span {
  SpanOrigin origin = SpanOrigin::measured;
  int32_t step = 0;             // the how many-th of those that were looked at
  int32_t run = 0;              // the how many-th program of that step
  int32_t program = 0, op = 0;  // indices in the module
  int32_t ops = 1;              // from `op` on, that ran as one
  std::string lane;
  double begin = 0, end = 0;  // seconds since the first step that was looked at began

  double seconds() const { return end - begin; }
};

// What an executor writes to while it is measured; its caller sets `step`, and `run` to 0.
struct SpanLog {
  std::vector<Span> spans;
  int32_t step = 0;
  int32_t run = 0;
};

}  // namespace snug

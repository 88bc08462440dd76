// Runs bound programs, one at a time: on the host (host_runner.h) or on streams (stream_runner.h).
#pragma once

#include <functional>
#include <span>

#include "ir/span.h"
#include "runtime/bound_program.h"
#include "runtime/test_modes.h"

namespace snug {

// What callers have called while programs run. Set and cleared between programs.
struct RunHooks {
  // After every op, with the program's and the op's index: checks and profiles look in here. While it
  // is set, every op is waited for.
  std::function<void(size_t program, size_t op)> observe;
  // Before an op that writes one of the values that go on from step to step is given to its lane, and
  // before such a value is written from outside: a reader of them while programs run
  // (runtime/value_stream.h) has it return when that value may change. Any lane may call it.
  std::function<void(ValueId)> before_write;

  void ask_to_write(std::span<const std::vector<ValueId>> by_op) const {
    if (!before_write) return;
    for (const std::vector<ValueId>& values : by_op)
      for (const ValueId id : values) before_write(id);
  }
};

class ProgramRunner {
 public:
  virtual ~ProgramRunner() = default;
  virtual void run(size_t program) = 0;
  // From now on every run adds the spans of its ops to `log`, until this is called with nullptr.
  virtual void measure_spans(SpanLog* log) = 0;
};

}  // namespace snug

// The moments of one program's run on streams: a stamp before it, where an op does not begin with the
// end of the one before it on its lane, and after every batch.
#pragma once

#include <memory>
#include <vector>

#include "runtime/bound_program.h"
#include "runtime/span_recorder.h"

namespace snug {

class StreamStamps {
 public:
  StreamStamps(Device& device, const BoundProgram& program);

  // Enqueued with the run, between its ops.
  void start() const { start_->record(0); }
  void begin(size_t at) const {
    if (begins_[at]) begins_[at]->record(program_.lanes[at]);
  }
  void end(size_t at) const { ends_[at]->record(program_.lanes[at]); }

  // Sets the times of the last run, which the device has done, in seconds since `zero`; of so many
  // lanes.
  void read(const Stamp& zero, size_t lanes, SpanRecorder& spans) const;

 private:
  const BoundProgram& program_;
  std::unique_ptr<Stamp> start_;
  std::vector<std::unique_ptr<Stamp>> begins_, ends_;  // by op
};

}  // namespace snug

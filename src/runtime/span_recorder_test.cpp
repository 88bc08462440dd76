#include "runtime/span_recorder.h"

#include <gtest/gtest.h>

#include "runtime/stream_stamps.h"
#include "runtime/testing/bound.h"
#include "runtime/testing/lane_program.h"
#include "runtime/testing/queued_device.h"

namespace snug {
namespace {

using testing_ops::Bound;
using testing_ops::LaneProgram;
using testing_ops::QueuedDevice;

TEST(SpanRecorder, SpansOfOneLaneAreSequential) {
  LaneProgram f(1);
  f.placed();
  const auto device = cpu_device();
  const Bound b(f.module, *device);
  SpanLog log{.spans = {}, .step = 3, .run = 5};
  SpanRecorder spans(f.module, log);
  for (size_t at = 0; at < b.program.ops.size(); ++at) {
    spans.begin(at) = static_cast<double>(at) - 0.5;  // by a rounding too early
    spans.end(at) = static_cast<double>(at);
  }
  spans.begin(1) = -1;
  spans.add(0, b.program, /*batched=*/false);
  ASSERT_EQ(log.spans.size(), b.program.ops.size());
  EXPECT_EQ(log.run, 6);
  std::map<std::string, double> ended;
  for (const Span& span : log.spans) {
    EXPECT_EQ(span.step, 3);
    EXPECT_EQ(span.run, 5);
    EXPECT_EQ(span.lane, b.program.ops[static_cast<size_t>(span.op)]->lane);
    EXPECT_GE(span.begin, ended[span.lane]);
    EXPECT_GE(span.end, span.begin);
    ended[span.lane] = span.end;
  }
}

TEST(StreamStamps, GiveTheTimeOfEachOp) {
  LaneProgram f(2);
  f.placed();
  QueuedDevice device(1);
  const Bound b(f.module, device, {.one_by_one = true});
  const StreamStamps stamps(device, b.program);
  SpanLog log;
  SpanRecorder spans(f.module, log);
  const auto zero = device.make_stamp();
  zero->record(0);
  stamps.start();
  const std::function<void()> work = [] {};
  for (size_t at = 0; at < b.program.ops.size(); ++at) {
    stamps.begin(at);
    device.call(work, 0);
    stamps.end(at);
  }
  device.synchronise();
  stamps.read(*zero, b.lanes.count(), spans);
  for (size_t at = 0; at < b.program.ops.size(); ++at) {
    EXPECT_GT(spans.end(at), spans.begin(at));
    if (at > 0) {
      EXPECT_EQ(spans.begin(at), spans.end(at - 1)) << "one lane";
    }
  }
}

}  // namespace
}  // namespace snug

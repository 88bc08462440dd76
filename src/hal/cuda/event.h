// Moments on a stream, and the time between them by the device's own clock.
//
//   const std::vector<double> ms = times_ms(stream, 10, [&](size_t i) { launch(i); });
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "hal/cuda/cuda_error.h"

namespace snug::cuda {

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDefault) {
    check(cudaEventCreateWithFlags(&event_, flags), "making an event");
  }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(cudaStream_t stream) { check(cudaEventRecord(event_, stream), "recording an event"); }
  // The same, and inside a capture a node of the graph: every launch records it anew.
  void record_here(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    check(cudaStreamIsCapturing(stream, &status), "asking a stream");
    const unsigned flags =
        status == cudaStreamCaptureStatusActive ? cudaEventRecordExternal : cudaEventRecordDefault;
    check(cudaEventRecordWithFlags(event_, stream, flags), "recording an event");
  }
  // What comes next on this stream waits for what the event was recorded after.
  void wait_on(cudaStream_t stream) const {
    check(cudaStreamWaitEvent(stream, event_, 0), "having a stream wait");
  }
  void wait() const { check(cudaEventSynchronize(event_), "waiting for the device"); }
  double ms_since(const Event& earlier) const {
    float ms = 0;
    check(cudaEventElapsedTime(&ms, earlier.event_, event_), "reading a time");
    return ms;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Keeps the stream waiting for so many microseconds: the host gets ahead of the device.
void wait_on_device(double us, cudaStream_t stream);

// The milliseconds of each of `count` launches, back to back: the device begins when the host has
// enqueued a good part of them, so that none waits for its launch. Waits for them: never in a
// capture.
template <typename Launch>
std::vector<double> times_ms(cudaStream_t stream, size_t count, const Launch& launch) {
  constexpr double kLaunchUs = 8, kMostUs = 10'000;
  std::vector<Event> events(count + 1);
  wait_on_device(std::min(kLaunchUs * static_cast<double>(count), kMostUs), stream);
  events[0].record(stream);
  for (size_t i = 0; i < count; ++i) {
    launch(i);
    events[i + 1].record(stream);
  }
  events[count].wait();
  std::vector<double> ms;
  for (size_t i = 0; i < count; ++i) ms.push_back(events[i + 1].ms_since(events[i]));
  return ms;
}

}  // namespace snug::cuda

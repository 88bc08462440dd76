// The machine under a program, and nothing about ops: memory, copies to and from it, and the order
// in which work is done. A backend implements these few slots; the runtime does the rest.
//
//   auto device = cpu_device();
//   // One allocation, which throws before anything runs; copies in the order of the stream.
//   std::unique_ptr<Memory> arena = device->allocate(plan_bytes);
//   device->upload(arena->data(), bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

// One allocation. `data` may be used by kernels of the device that made it.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;

  // The highest byte ever written, plus one: measured against the pattern that the memory was
  // filled with when it was allocated. -1 where the device cannot tell. Throws when something was
  // written past the end.
  virtual int64_t high_water_mark() const = 0;
  // Forgets what was written so far: the pattern is everywhere again.
  virtual void reset() {}
};

// Work that was enqueued once and can be enqueued again for the cost of one launch: a CUDA graph.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void launch() = 0;
};

// A point in the work of one lane that other lanes wait for: a CUDA event. Inside a recording it
// becomes an edge of the graph.
class LaneEvent {
 public:
  virtual ~LaneEvent() = default;
  virtual void record(int32_t lane) = 0;  // the point is after what this lane was given so far
  virtual void wait(int32_t lane) = 0;    // this lane goes on after the point recorded last
};

// A moment in the work of one lane by the device's own clock, for measurements. Inside a
// recording every launch of it has another.
class Stamp {
 public:
  virtual ~Stamp() = default;
  virtual void record(int32_t lane) = 0;  // when this lane has done what it was given so far
  // Between the moments recorded last; the device has come by both.
  virtual double seconds_since(const Stamp& earlier) const = 0;
};

// A point in the work of one lane that threads of the host wait for, while others launch steps.
class Arrival {
 public:
  virtual ~Arrival() = default;  // the lane is past it, or will not come there
  virtual void record(int32_t lane) = 0;
  virtual void wait() = 0;
};

// Copies of device bytes that arrive while the device goes on.
class Reading {
 public:
  virtual ~Reading() = default;
  // Waits until they are there; piece i in the order in which they were asked for.
  virtual std::span<const std::byte> piece(size_t i) = 0;
  // Seconds between the moments at which the device came by the two. Waits for both.
  virtual double seconds_since(const Reading& earlier) const = 0;
};

enum class DeviceKind : uint8_t { cpu, cuda };

class Device {
 public:
  using Piece = std::span<const std::byte>;

  virtual ~Device() = default;
  virtual DeviceKind kind() const = 0;
  virtual std::string_view name() const = 0;

  // Memory that is there: every page is touched before this returns, so that nothing can fail for
  // memory later.
  virtual std::unique_ptr<Memory> allocate(int64_t bytes) = 0;
  // The same in host memory: the host addresses it, and the device copies from and to it by itself
  // (pinned). Where kernels work in host memory it is what `allocate` gives.
  virtual std::unique_ptr<Memory> allocate_host(int64_t bytes) { return allocate(bytes); }

  // In the order of the stream. `from` may be reused when this returns.
  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  // Waits for everything before it.
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
  virtual std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) = 0;
  // Sets every byte, in the order of the stream.
  virtual void fill(std::span<std::byte> bytes, uint8_t value) = 0;

  // --- devices that run asynchronously; on the others work is done when a call returns ---

  // What kernels enqueue on; nullptr where a kernel has run when it returns.
  virtual void* stream() const { return nullptr; }
  virtual void synchronise() {}  // waits for every lane
  // Records what `enqueue` enqueues, without running it. Only where there is a stream.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& enqueue);
  // What this process holds on the device in addition to its arenas: driver, libraries, recordings.
  // Measured now, against what was in use before the device was opened.
  virtual int64_t context_bytes() const { return 0; }
  // Random numbers as bf16 reads them, all of magnitude about one: what algorithms are timed on.
  virtual void fill_noise(std::span<std::byte>) {}
  // Records a number when the device gets here; last_mark() reads it after a failure.
  virtual void mark(int32_t) {}
  virtual int32_t last_mark() const { return -1; }

  // --- lanes: each does its work in order; lanes run concurrently. Lane 0 is `stream` ---
  //
  //   auto fetched = device.make_event();            // once
  //   device.copy(to, from, 1);                      // lane 1 moves bytes
  //   fetched->record(1);
  //   fetched->wait(0);                              // lane 0 continues when they are here
  //   launch(kernel, device.lane_stream(0));
  //
  // A device that does not have them does everything in the order of the calls.

  // Made when it is asked for first, and kept.
  virtual void* lane_stream(int32_t lane);
  virtual std::unique_ptr<LaneEvent> make_event();
  virtual std::unique_ptr<Arrival> make_arrival();
  virtual std::unique_ptr<Stamp> make_stamp();
  // Between memory of `allocate` and of `allocate_host`, or inside one of them.
  virtual void copy(std::span<std::byte> to, const std::byte* from, int32_t lane);
  // The lane calls `work` on the host when it gets there, and continues when that returns; inside a
  // recording in every launch of it. `work` outlives them all, calls nothing of the device, and
  // throws nothing.
  virtual void call(const std::function<void()>& work, int32_t lane);
  // For tests: the lane does nothing for so long.
  virtual void delay(int32_t lane, double microseconds);
};

// What kernels of this device write is what the host reads at the same address.
inline bool shares_host_memory(const Device& device) { return device.kind() != DeviceKind::cuda; }

}  // namespace snug

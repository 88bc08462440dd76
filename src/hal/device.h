// The machine under a program, and nothing about ops: memory and copies to and from it. A backend
// implements these few slots; the runtime does the rest.
//
//   auto device = cpu_device();
//   std::unique_ptr<Memory> arena = device->allocate(plan_bytes);     // one allocation; throws
//   before anything runs
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace snug {

// One allocation. `data` may be used by kernels of the device that made it; on the null device it
// is nullptr.
class Memory {
 public:
  virtual ~Memory() = default;
  virtual std::byte* data() const = 0;
  virtual int64_t bytes() const = 0;

  // The highest byte ever written, plus one: measured against the pattern that the memory was
  // filled with when it was allocated. -1 where the device cannot tell. Throws when something was
  // written behind the end.
  virtual int64_t high_water_mark() const = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;

  // Memory that is there: every page is touched before this returns, so that nothing can fail for
  // memory later.
  virtual std::unique_ptr<Memory> allocate(int64_t bytes) = 0;

  virtual void upload(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void download(std::span<std::byte> to, const std::byte* from) = 0;
};

}  // namespace snug

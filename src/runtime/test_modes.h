// Test modes of the executor: they overwrite what is dead and change what happens when, and results
// must stay the same.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "hal/device.h"
#include "ir/order.h"

namespace snug {

struct TestModes {
  // Overwrites each value with NaN when its lifetime ends. On a device with streams all lanes are one
  // then, in list order.
  bool poison_dead = false;
  // Where kernels run on the host: instead of lanes side by side, one op after another in a random
  // order of those that the lanes allow, another one in each run. With poison_dead a value is
  // overwritten after its last use in that order.
  std::optional<uint64_t> order_seed = {};
  // In programs with several lanes, random pauses before ops, up to a few hundred microseconds. Others
  // in each run; on streams in each that is enqueued, and a recording keeps its own.
  std::optional<uint64_t> delay_seed = {};
};

// The modes over the runs of one executor. Without a mode every function does nothing.
class TestPolicy {
 public:
  static constexpr uint8_t kPoison = 0xFF;  // a float, bf16 or f16 of these bytes is NaN

  explicit TestPolicy(const TestModes& modes) : modes_(modes) {}

  bool poisons() const { return modes_.poison_dead; }
  bool shuffles() const { return modes_.order_seed.has_value(); }

  void poison(Device& device, std::span<const std::span<std::byte>> dead) const;
  // Of the next run, where it shuffles.
  std::vector<int32_t> next_order(const Order& order);

  // Delays on streams load a kernel: now, and not inside a recording.
  void load(Device& device) const;
  void delay(Device& device, int32_t lane);
  // Lanes on threads: a run begins, and one of its ops is about to.
  void begin_run() { ++delays_; }
  void pause(const Order& order, int32_t op) const;

 private:
  TestModes modes_;
  uint64_t random_runs_ = 0;
  uint64_t delays_ = 0;
};

}  // namespace snug

#include "runtime/test_modes.h"

#include <chrono>
#include <thread>

#include "base/rng.h"

namespace snug {

void TestPolicy::poison(Device& device, std::span<const std::span<std::byte>> dead) const {
  if (!modes_.poison_dead) return;
  for (const auto& range : dead) device.fill(range, kPoison);
}

std::vector<int32_t> TestPolicy::next_order(const Order& order) {
  return random_extension(order, mix(*modes_.order_seed + ++random_runs_));
}

void TestPolicy::load(Device& device) const {
  if (modes_.delay_seed) device.delay(/*lane=*/0, 0);
}

void TestPolicy::delay(Device& device, int32_t lane) {
  if (!modes_.delay_seed) return;
  constexpr uint64_t kLeast = 2, kMost = 300;  // microseconds, before every other op
  const uint64_t draw = mix(*modes_.delay_seed + ++delays_);
  if (draw % 2 == 0) device.delay(lane, static_cast<double>(kLeast + draw / 2 % (kMost - kLeast)));
}

// In every run some lanes are late all the way, and others are not.
void TestPolicy::pause(const Order& order, int32_t op) const {
  if (!modes_.delay_seed) return;
  constexpr uint64_t kMost[] = {0, 60, 400};  // microseconds, before every third op of a lane
  const uint64_t seed = mix(*modes_.delay_seed + delays_);
  const uint64_t lane = mix(seed + static_cast<uint64_t>(order.lane_of(op)));
  const uint64_t most = kMost[lane % 3], draw = mix(lane + static_cast<uint64_t>(op));
  if (most > 0 && draw % 3 == 0)
    std::this_thread::sleep_for(std::chrono::microseconds(draw / 3 % most));
}

}  // namespace snug

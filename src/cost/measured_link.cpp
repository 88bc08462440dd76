#include "cost/measured_link.h"

#include <chrono>

#include "base/median.h"

namespace snug {
namespace {

constexpr int64_t kBytes = int64_t{64} << 20;
constexpr int kCopies = 4;  // one after another: what starts and ends them hardly counts
constexpr int kRounds = 5;
constexpr int32_t kIn = 1, kOut = 2;  // lanes

// One half of each memory goes up, the other comes down.
class Copies {
 public:
  explicit Copies(Device& device)
      : device_(device),
        here_(device.allocate(2 * kBytes)),
        home_(device.allocate_host(2 * kBytes)) {}

  // Bytes per second of each way that goes.
  double rate(bool in, bool out, const std::function<double()>& now) {
    run(in, out);  // a link that rested is slow at first
    std::vector<double> seconds;
    for (int round = 0; round < kRounds; ++round) {
      const double start = now();
      run(in, out);
      seconds.push_back(now() - start);
    }
    return static_cast<double>(kCopies * kBytes) / median(std::move(seconds));
  }

 private:
  void run(bool in, bool out) {
    for (int copy = 0; copy < kCopies; ++copy) {
      if (in) device_.copy({here_->data(), kBytes}, home_->data(), kIn);
      if (out) device_.copy({home_->data() + kBytes, kBytes}, here_->data() + kBytes, kOut);
    }
    device_.synchronise();
  }

  Device& device_;
  std::unique_ptr<Memory> here_, home_;
};

}  // namespace

Link measured_link(Device& device, const std::function<double()>& now) {
  Copies copies(device);
  return {.in = copies.rate(true, false, now),
          .out = copies.rate(false, true, now),
          .both = copies.rate(true, true, now)};
}

Link measured_link(Device& device) {
  return measured_link(device, [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  });
}

}  // namespace snug

#include "hal/device.h"

#include <chrono>

#include "base/error.h"

namespace snug {
namespace {

// Where everything is done in the order of the calls, there is nothing to wait for.
struct NoEvent final : LaneEvent {
  void record(int32_t) override {}
  void wait(int32_t) override {}
};

struct NoArrival final : Arrival {
  void record(int32_t) override {}
  void wait() override {}
};

struct HostStamp final : Stamp {
  void record(int32_t) override { at = std::chrono::steady_clock::now(); }
  double seconds_since(const Stamp& earlier) const override {
    return std::chrono::duration<double>(at - dynamic_cast<const HostStamp&>(earlier).at).count();
  }
  std::chrono::steady_clock::time_point at;
};

}  // namespace

std::unique_ptr<Recording> Device::record(const std::function<void()>&) {
  throw internal_error("device {} has no stream to record", name());
}

void* Device::lane_stream(int32_t) { return stream(); }

std::unique_ptr<LaneEvent> Device::make_event() { return std::make_unique<NoEvent>(); }

std::unique_ptr<Arrival> Device::make_arrival() { return std::make_unique<NoArrival>(); }

std::unique_ptr<Stamp> Device::make_stamp() { return std::make_unique<HostStamp>(); }

void Device::copy(std::span<std::byte> to, const std::byte* from, int32_t) {
  upload(to.data(), {from, to.size()});
}

void Device::call(const std::function<void()>& work, int32_t) { work(); }

void Device::delay(int32_t, double) {}

}  // namespace snug

// Memory of its own, as a GPU has, and lanes that are done when a call returns: what moves is counted.
#pragma once

#include <cstring>
#include <vector>

#include "hal/cpu/cpu_device.h"

namespace snug::testing_ops {

class FarDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string_view name() const override { return "far"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(int64_t bytes) override {
    host_asked.push_back(bytes);
    return cpu_->allocate(bytes);
  }
  void upload(std::byte* to, std::span<const std::byte> from) override {
    up.push_back(static_cast<int64_t>(from.size()));
    aligned = aligned && reinterpret_cast<uintptr_t>(from.data()) % 4096 == 0;
    cpu_->upload(to, from);
  }
  void download(std::span<std::byte> to, const std::byte* from) override {
    down.push_back(static_cast<int64_t>(to.size()));
    cpu_->download(to, from);
  }
  std::unique_ptr<Reading> read_later(std::span<const Piece> pieces) override {
    return cpu_->read_later(pieces);
  }
  void fill(std::span<std::byte> bytes, uint8_t value) override { cpu_->fill(bytes, value); }
  void copy(std::span<std::byte> to, const std::byte* from, int32_t) override {
    copied.push_back(static_cast<int64_t>(to.size()));
    std::memcpy(to.data(), from, to.size());
  }

  std::vector<int64_t> up, down, copied, host_asked;
  bool aligned = true;  // all that went up came from whole pages

 private:
  std::unique_ptr<Device> cpu_ = cpu_device();
};

}  // namespace snug::testing_ops

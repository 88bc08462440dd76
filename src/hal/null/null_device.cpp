#include "hal/null/null_device.h"

#include "hal/host_reading.h"

namespace snug {
namespace {

class NullMemory final : public Memory {
 public:
  explicit NullMemory(int64_t bytes) : bytes_(bytes) {}
  std::byte* data() const override { return nullptr; }
  int64_t bytes() const override { return bytes_; }
  int64_t high_water_mark() const override { return -1; }

 private:
  int64_t bytes_;
};

class NullDevice final : public Device {
 public:
  DeviceKind kind() const override { return DeviceKind::null; }
  std::string_view name() const override { return "null"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override {
    return std::make_unique<NullMemory>(bytes);
  }
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  std::unique_ptr<Reading> read_later(std::span<const Piece>) override {
    return std::make_unique<HostReading>(std::span<const Piece>{});
  }
  void fill(std::span<std::byte>, uint8_t) override {}
};

}  // namespace

std::unique_ptr<Device> null_device() { return std::make_unique<NullDevice>(); }

}  // namespace snug

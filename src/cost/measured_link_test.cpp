#include "cost/measured_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "hal/cpu/cpu_device.h"

namespace snug {
namespace {

// A device whose copies take the time that its link says, by a clock of its own.
class LinkedDevice final : public Device {
 public:
  explicit LinkedDevice(const Link& link) : link_(link) {}

  double now = 0;

  DeviceKind kind() const override { return DeviceKind::cuda; }
  std::string_view name() const override { return "linked"; }
  std::unique_ptr<Memory> allocate(int64_t bytes) override { return cpu_->allocate(bytes); }
  std::unique_ptr<Memory> allocate_host(int64_t bytes) override {
    auto memory = cpu_->allocate(bytes);
    host_ = memory->data();
    host_bytes_ = bytes;
    return memory;
  }
  void upload(std::byte*, std::span<const std::byte>) override {}
  void download(std::span<std::byte>, const std::byte*) override {}
  std::unique_ptr<Reading> read_later(std::span<const Piece>) override { return nullptr; }
  void fill(std::span<std::byte>, uint8_t) override {}

  void copy(std::span<std::byte> to, const std::byte* from, int32_t lane) override {
    const bool in = is_host(from);
    EXPECT_NE(in, is_host(to.data())) << "a copy that does not cross the link";
    Way& way = ways_[lane];
    way.in = in;
    way.bytes += static_cast<double>(to.size());
  }
  void synchronise() override {
    double longest = 0;
    for (const auto& [lane, way] : ways_) {
      const double rate = ways_.size() > 1 ? link_.both : way.in ? link_.in : link_.out;
      longest = std::max(longest, way.bytes / rate);
    }
    now += longest;
    ways_.clear();
  }

 private:
  struct Way {
    bool in = false;
    double bytes = 0;
  };
  bool is_host(const std::byte* at) const { return at >= host_ && at < host_ + host_bytes_; }

  Link link_;
  std::unique_ptr<Device> cpu_ = cpu_device();
  const std::byte* host_ = nullptr;
  int64_t host_bytes_ = 0;
  std::map<int32_t, Way> ways_;
};

TEST(MeasuredLink, MeasuresEachDirectionAndBoth) {
  const Link link{.in = 55e9, .out = 50e9, .both = 44e9};
  LinkedDevice device(link);
  const Link measured = measured_link(device, [&] { return device.now; });
  EXPECT_DOUBLE_EQ(measured.in, link.in);
  EXPECT_DOUBLE_EQ(measured.out, link.out);
  EXPECT_DOUBLE_EQ(measured.both, link.both);
}

TEST(MeasuredLink, RunsOnADeviceWithoutLanes) {
  const auto device = cpu_device();
  const Link measured = measured_link(*device);
  EXPECT_GT(measured.in, 0);
  EXPECT_GT(measured.out, 0);
  EXPECT_GT(measured.both, 0);
}

}  // namespace
}  // namespace snug

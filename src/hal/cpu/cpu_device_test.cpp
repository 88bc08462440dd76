#include "hal/cpu/cpu_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/error.h"
#include "hal/cpu/guarded_memory.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Memory> allocate(int64_t bytes) { return cpu_device()->allocate(bytes); }

// The sentence of the error that `body` throws with `code`.
template <typename Body>
std::string refusal(ExitCode code, const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), code);
    return e.what();
  }
  return "nothing was refused";
}

TEST(GuardedMemory, MeasuresTheHighestByteWritten) {
  const auto memory = allocate(10'000);
  EXPECT_EQ(memory->bytes(), 10'000);
  EXPECT_EQ(memory->high_water_mark(), 0);
  for (const int64_t end : {1, 4097, 9'999, 10'000}) {
    memory->data()[end - 1] = std::byte{0};
    EXPECT_EQ(memory->high_water_mark(), end);
  }
  memory->data()[5] = std::byte{1};
  EXPECT_EQ(memory->high_water_mark(), 10'000) << "writing lower down does not lower it";
}

TEST(GuardedMemory, IsAlignedForAnySize) {
  for (const int64_t bytes : {0, 1, 255, 256, 257, 4095, 4096, 4097, 1'000'003}) {
    const auto memory = allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 256, 0U) << bytes;
    EXPECT_EQ(memory->high_water_mark(), 0) << bytes;
    std::memset(memory->data(), 0, static_cast<size_t>(bytes));
    EXPECT_EQ(memory->high_water_mark(), bytes);
  }
}

// Direct I/O wants whole pages.
TEST(GuardedMemory, HostMemoryStartsAtPage) {
  for (const int64_t bytes : {1, 4095, 4096, 10'000}) {
    const auto memory = cpu_device()->allocate_host(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 4096, 0U);
    memory->data()[bytes - 1] = std::byte{1};
    EXPECT_EQ(memory->high_water_mark(), bytes);
  }
}

TEST(GuardedMemory, NamesOverwrittenBytePastEnd) {
  const auto memory = allocate(1000);  // 24 bytes of slack before the guard page
  memory->data()[1000 + 23] = std::byte{0};
  EXPECT_THAT(refusal(ExitCode::internal, [&] { memory->high_water_mark(); }),
              HasSubstr("byte 23 past the arena's end was overwritten"));
}

TEST(GuardedMemoryDeathTest, FaultsPastSlack) {
  const auto memory = allocate(1000);
  volatile std::byte* data = memory->data();
  EXPECT_DEATH(data[1024] = std::byte{0}, "");
}

TEST(GuardedMemory, PagesAreMappedBeforeUse) {
  constexpr int64_t kBytes = 64 << 20;
  const int64_t before = resident_anonymous_bytes();
  const auto memory = allocate(kBytes);
  EXPECT_GE(resident_anonymous_bytes() - before, kBytes - (4 << 20));
}

TEST(GuardedMemory, IsFilledByManyThreadsToo) {
  constexpr int64_t kBytes = (130 << 20) + 77;
  const auto memory = cpu_device()->allocate_host(kBytes);
  EXPECT_EQ(memory->high_water_mark(), 0) << "the pattern is everywhere";
  fill_bytes({memory->data(), static_cast<size_t>(kBytes)}, 0);
  for (int64_t at = 0; at < kBytes; at += 4099) ASSERT_EQ(memory->data()[at], std::byte{0}) << at;
  EXPECT_EQ(memory->high_water_mark(), kBytes);
}

TEST(CpuDevice, RefusesUnavailableFeatures) {
  const int64_t too_much = std::numeric_limits<int64_t>::max() / 4;
  EXPECT_THAT(refusal(ExitCode::does_not_fit, [&] { allocate(too_much); }),
              HasSubstr("this machine has"));
}

TEST(CpuDevice, CopiesInBothDirections) {
  const auto device = cpu_device();
  const auto memory = device->allocate(16);
  const std::array sent{std::byte{1}, std::byte{2}, std::byte{3}};
  std::array<std::byte, 3> back{};
  device->upload(memory->data() + 4, sent);
  device->download(back, memory->data() + 4);
  EXPECT_EQ(back, sent);
}

TEST(CpuDevice, ReportsGrantableBytes) {
  EXPECT_TRUE(system_grants(int64_t{1} << 20));
  EXPECT_FALSE(system_grants(std::numeric_limits<int64_t>::max() / 4));
}

TEST(CpuDevice, ReportsItsMemory) {
  EXPECT_GT(available_memory_bytes(), 0);
  EXPECT_GE(total_memory_bytes(), available_memory_bytes());
}

}  // namespace
}  // namespace snug

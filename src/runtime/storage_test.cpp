#include "runtime/storage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "ir/space_bytes.h"
#include "ops/basic/copy.h"
#include "runtime/disk_copy.h"
#include "runtime/testing/far_device.h"
#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using ::testing::Each;
using testing_ops::FarDevice;
using testing_ops::Fixture;
using testing_ops::kVector;

// A weight in each space, and a view of the one on the host.
struct Spread : Fixture {
  ValueId on(Space space, const char* name) {
    const ValueId id = add_shared(module, name, kVector, Category::params, Scope::persistent);
    module[id].space = space;
    return id;
  }
  ValueId device = on(Space::device, "a"), host = on(Space::host, "b"), disk = on(Space::disk, "c");
  ValueId fetched = ops::copy(b, "fetch", disk, Space::host);
  ValueId view = b.view(host, "part", {8}, 16);
  Spread() {
    finish(x);
    placed();
  }
};

TEST(Storage, WritesAndReadsEverySpaceOfDeviceMemory) {
  Spread f;
  FarDevice device;
  const HostFailure failure;
  const Storage storage(f.module, device, "/tmp", failure);
  std::vector<float> in(64), out(64);
  std::iota(in.begin(), in.end(), 0.0F);
  for (const ValueId id : {f.device, f.host, f.disk}) {
    storage.write(id, 0, std::as_bytes(std::span(in)));
    std::ranges::fill(out, -1.0F);
    storage.read(id, 4 * sizeof(float), std::as_writable_bytes(std::span(out).first(2)));
    EXPECT_EQ(out[0], 4);
    EXPECT_EQ(out[1], 5);
    storage.fill(id, 0);
    storage.read(id, 0, std::as_writable_bytes(std::span(out)));
    EXPECT_THAT(out, Each(0));
    EXPECT_EQ(storage.host_addresses(id), id == f.host);
  }
  for (const Space space : kAllSpaces) {
    EXPECT_EQ(storage.allocated_bytes(space), f.module.arena_bytes[static_cast<size_t>(space)]);
    EXPECT_LE(storage.measured_bytes(space), storage.planned_bytes(space));
  }
  EXPECT_EQ(device.up.size(), 1U) << "the host writes its own memory and the file itself";
  EXPECT_EQ(storage.address(f.view) - storage.address(f.host), 16 * 4);
  EXPECT_THROW(storage.address(f.disk), Error);
  EXPECT_THROW(storage.bytes(f.device), Error);
}

TEST(Storage, ThrowsHostFailures) {
  Spread f;
  FarDevice device;
  HostFailure failure;
  const Storage storage(f.module, device, "/tmp", failure);
  failure.guard([] { throw std::runtime_error("first"); });
  failure.guard([] { FAIL() << "computed after a failure"; });
  EXPECT_THROW(storage.bytes(f.host), std::runtime_error);
  std::vector<std::byte> out(8);
  EXPECT_THROW(storage.read(f.device, 0, out), std::runtime_error);
}

TEST(DiskCopy, CoversCopiesFromOrToDisk) {
  Spread f;
  FarDevice device;
  const HostFailure failure;
  const Storage storage(f.module, device, "/tmp", failure);
  const std::vector<float> in(64, 3.0F);
  storage.write(f.disk, 0, std::as_bytes(std::span(in)));
  const std::vector<Op>& ops = f.module.program("p").ops;
  const auto copy = disk_copy_of(ops.front(), storage);
  ASSERT_TRUE(copy);
  EXPECT_FALSE(copy->writes);
  copy->run();
  EXPECT_EQ(reinterpret_cast<float*>(storage.bytes(f.fetched).data())[63], 3);
  EXPECT_FALSE(disk_copy_of(ops.back(), storage));
}

}  // namespace
}  // namespace snug

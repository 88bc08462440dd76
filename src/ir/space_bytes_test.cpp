#include "ir/space_bytes.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(SpaceBytes, FitInEverySpaceOrNotAtAll) {
  const Limits limits{{10, 20, 0}};
  EXPECT_TRUE((SpaceBytes{{10, 20, 0}}).fits_in(limits));
  EXPECT_TRUE(on_device(3).fits_in(limits));
  EXPECT_FALSE((SpaceBytes{{11, 0, 0}}).fits_in(limits));
  EXPECT_FALSE((SpaceBytes{{0, 21, 0}}).fits_in(limits));
  EXPECT_FALSE((SpaceBytes{{0, 0, 1}}).fits_in(limits));
  EXPECT_TRUE((SpaceBytes{{5, 1 << 30, 1 << 30}}).fits_in(device_limit(5)));
  EXPECT_FALSE((SpaceBytes{{6, 0, 0}}).fits_in(device_limit(5)));
  EXPECT_TRUE((SpaceBytes{{kUnlimited, kUnlimited, kUnlimited}}).fits_in(kNoLimits));
}

TEST(SpaceBytes, PinnedHostCountsDevicePageTables) {
  const int64_t gib = int64_t{1} << 30, tables = page_table_bytes(gib);
  EXPECT_EQ(tables, 2 << 20);  // 2 MiB a GiB, as measured
  const Limits limits(device_limit(100 + tables), true);
  EXPECT_TRUE((SpaceBytes{{100, gib, 0}}).fits_in(limits));
  EXPECT_FALSE((SpaceBytes{{101, gib, 0}}).fits_in(limits));
  EXPECT_TRUE((SpaceBytes{{101, gib, 0}}).fits_in(device_limit(100 + tables)));
  EXPECT_EQ(limits.left_by({{100, gib / 2, 0}})[Space::device], tables / 2);
}

TEST(SpaceBytes, AreAddedAndComparedSpaceBySpace) {
  const SpaceBytes a{{1, 20, 3}}, b{{10, 2, 3}};
  EXPECT_EQ(a + b, (SpaceBytes{{11, 22, 6}}));
  EXPECT_EQ(max(a, b), (SpaceBytes{{10, 20, 3}}));
  EXPECT_EQ(min(a, b), (SpaceBytes{{1, 2, 3}}));
  EXPECT_TRUE(a.outside_device());
  EXPECT_FALSE(on_device(7).outside_device());
  EXPECT_EQ(a[Space::host], 20);
}

TEST(SpaceBytes, ModuleBytesEqualItsArenas) {
  Module module;
  module.arena_bytes[static_cast<size_t>(Space::host)] = 5;
  EXPECT_EQ(arenas_of(module), (SpaceBytes{{0, 5, 0}}));
}

}  // namespace
}  // namespace snug

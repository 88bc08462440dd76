#include "ops/quantize/format.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ir/op_def.h"

namespace snug::ops {
namespace {

constexpr Stored kStored[] = {Stored::nf4_codes, Stored::nf4_scales, Stored::int8_codes,
                              Stored::int8_scales};

// A row that disagrees with its ops would plan other bytes than a run has.
TEST(Formats, RowsAgreeWithTheirOps) {
  std::set<std::string_view> names;
  for (const Format* format : formats()) {
    EXPECT_TRUE(names.insert(format->name).second) << format->name;
    EXPECT_EQ(format->block % format->packed, 0) << "a block begins at an element of the payload";
    const std::string kind(format->name);
    const auto named = [](const OpDef* def, const std::string& name) {
      return def == nullptr || def->kind == name;
    };
    EXPECT_TRUE(named(format->quantize, "quantize_" + kind)) << kind;
    EXPECT_TRUE(named(format->dequantize, "dequantize_" + kind)) << kind;
  }
}

TEST(Formats, HaveTheirTypes) {
  EXPECT_EQ(kInt8.payload_type({3, 100}).text(), "i8[3,100]");
  EXPECT_EQ(kInt8.scales_type({3, 100}).text(), "f32[3]");
  EXPECT_EQ(kInt8.payload_type({}).text(), "i8[]");
  EXPECT_EQ(kNf4.payload_type({6, 160}).text(), "u8[6,80]");
  EXPECT_EQ(kNf4.scales_type({6, 160}).text(), "f32[15]");
  EXPECT_EQ(kNf4.whole_of({6, 80}), (Shape{6, 160}));
  EXPECT_EQ(kDynamic8.payload_type({7}).text(), "u8[7]");
  EXPECT_EQ(kDynamic8.scales_type({257}).text(), "f32[2]");
}

TEST(Formats, AreFoundByStorage) {
  for (const Stored stored : kStored) {
    const bool is_nf4 = stored == Stored::nf4_codes || stored == Stored::nf4_scales;
    EXPECT_EQ(format_of(stored).name, is_nf4 ? "nf4" : "int8");
    EXPECT_EQ(is_scales(stored), name_of(stored).ends_with("scales"));
  }
  EXPECT_FALSE(is_scales(Stored::plain));
  EXPECT_THROW(format_of(Stored::plain), Error);
}

TEST(StoredWeights, HaveTheirBytesAndParameters) {
  EXPECT_EQ(stored_bytes(Stored::nf4_codes, 128), 64);
  EXPECT_EQ(stored_bytes(Stored::nf4_scales, 128), 8);
  EXPECT_EQ(stored_bytes(Stored::int8_codes, 256), 256);
  EXPECT_EQ(stored_bytes(Stored::int8_scales, 256), 8);
  for (const Stored stored : kStored)
    EXPECT_EQ(stored_elements(stored, stored_bytes(stored, 1024)), 1024);
  EXPECT_EQ(stored_parameters(Stored::plain, 10), 10);
  EXPECT_EQ(stored_parameters(Stored::nf4_codes, 10), 20);
  EXPECT_EQ(stored_parameters(Stored::int8_codes, 10), 10);
  EXPECT_EQ(stored_parameters(Stored::int8_scales, 10), 0);
}

// In every format: a tensor with rows of an odd number of elements is stored by none.
TEST(StoredWeights, AreWholeBlocks) {
  EXPECT_TRUE(has_whole_blocks(kNf4, {2, 32}));
  EXPECT_FALSE(has_whole_blocks(kInt8, {2, 32}));
  EXPECT_TRUE(has_whole_blocks(kInt8, {4, 32}));
  EXPECT_FALSE(has_whole_blocks(kInt8, {128, 3}));
}

}  // namespace
}  // namespace snug::ops

#include "formats/protobuf.h"

#include "formats/testing.h"

namespace snug {
namespace {

using namespace std::string_literals;

TEST(Protobuf, NumbersAreVarintsOrFixed) {
  EXPECT_EQ(ProtoMessage().integer(1, 0).bytes(), "\x08\0"s);
  EXPECT_EQ(ProtoMessage().integer(1, 150).bytes(), "\x08\x96\x01");
  EXPECT_EQ(ProtoMessage().integer(16, 127).bytes(), "\x80\x01\x7f") << "a tag of two bytes";
  EXPECT_EQ(ProtoMessage().integer(2, -1).bytes(), "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
  EXPECT_EQ(ProtoMessage().fixed64(1, 0x0102).bytes(), "\x09\x02\x01\0\0\0\0\0\0"s);
  EXPECT_EQ(ProtoMessage().real32(2, 1.5F).bytes(), "\x15\0\0\xc0\x3f"s);
  EXPECT_EQ(ProtoMessage().real64(1, 2).bytes(), "\x09\0\0\0\0\0\0\0\x40"s);
}

TEST(Protobuf, TextsAndMessagesHaveTheirLength) {
  EXPECT_EQ(ProtoMessage().text(2, "testing").bytes(), "\x12\x07testing");
  const ProtoMessage inner = ProtoMessage().integer(1, 150);
  EXPECT_EQ(ProtoMessage().message(3, inner).text(4, "").bytes(), "\x1a\x03\x08\x96\x01\x22\0"s);
  const std::string long_text(300, 'x');
  EXPECT_EQ(ProtoMessage().text(1, long_text).bytes(), "\x0a\xac\x02" + long_text);
}

TEST(Protobuf, ReadsBackWhatWasWritten) {
  const ProtoMessage inner = ProtoMessage().text(1, "a").integer(2, int64_t{1} << 62);
  const ProtoMessage message =
      ProtoMessage().integer(1, -5).message(100, inner).fixed64(3, ~uint64_t{0}).real32(4, 1.5F);
  const auto fields = testing::proto_fields(message.bytes());
  ASSERT_EQ(fields.size(), 4U);
  EXPECT_EQ(static_cast<int64_t>(fields[0].value), -5);
  EXPECT_EQ(fields[1].number, 100U);
  EXPECT_EQ(fields[1].bytes, inner.bytes());
  EXPECT_EQ(fields[2].value, ~uint64_t{0});
  EXPECT_EQ(fields[3].value, 0x3FC00000U);
  EXPECT_EQ(testing::proto_fields(fields[1].bytes).at(1).value, uint64_t{1} << 62);
}

}  // namespace
}  // namespace snug

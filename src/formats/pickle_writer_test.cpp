#include "formats/pickle_writer.h"

#include <algorithm>

#include "formats/testing.h"

namespace snug {
namespace {

using namespace std::string_literals;

TEST(PickleWriter, WritesTheOpcodesOfProtocolTwo) {
  PickleWriter out;
  out.begin_dict();
  out.key("a");
  out.begin_list();
  out.integer(7);
  out.integer(300);
  out.integer(-1);
  out.integer(int64_t{1} << 40);
  out.end();
  out.key("b");
  out.pair(0, 1);
  out.key("c");
  out.real(1.5);
  out.key("d");
  out.boolean(true);
  out.key("e");
  out.none();
  out.end();
  EXPECT_EQ(out.finish(),
            "\x80\x02}(X\x01\0\0\0"
            "aq\0](K\x07M\x2c\x01J\xff\xff\xff\xff\x8a\x08\0\0\0\0\0\x01\0\0eX\x01\0\0\0"
            "bq\x01K\0K\x01\x86X\x01\0\0\0"
            "cq\x02G\x3f\xf8\0\0\0\0\0\0X\x01\0\0\0"
            "dq\x03\x88X\x01\0\0\0"
            "eq\x04Nu."s);
}

TEST(PickleWriter, EmptyDictsAndListsHaveNoBatch) {
  PickleWriter out;
  out.begin_list();
  out.begin_dict();
  out.end();
  out.begin_list();
  out.end();
  out.end();
  EXPECT_EQ(out.finish(), "\x80\x02](}]e."s);
}

TEST(PickleWriter, RefersToTextsAndMemoizedObjects) {
  PickleWriter out;
  out.begin_list();
  out.text("x");
  out.text("x");
  out.begin_list();
  out.end();
  const uint32_t remembered = out.remember();
  out.again(remembered);
  out.end();
  EXPECT_EQ(out.finish(),
            "\x80\x02](X\x01\0\0\0xq\0h\0]q\x01h\x01"
            "e."s);
}

// The viewer takes no more than a thousand at a time.
TEST(PickleWriter, WritesLongListsInBatches) {
  PickleWriter out;
  out.begin_list();
  for (int i = 0; i < 2500; ++i) out.none();
  out.end();
  const std::string bytes = out.finish();
  EXPECT_EQ(std::ranges::count(bytes, '('), 3);
  EXPECT_EQ(std::ranges::count(bytes, 'e'), 3);
  EXPECT_EQ(bytes.substr(0, 4), "\x80\x02]("s);
  EXPECT_EQ(bytes.substr(4 + 1000, 2), "e(");
}

TEST(PickleWriter, ManyTextsNeedLongReferences) {
  PickleWriter out;
  out.begin_list();
  for (int i = 0; i < 300; ++i) out.text("t" + std::to_string(i));
  out.text("t299");
  out.end();
  const std::string bytes = out.finish();
  EXPECT_EQ(bytes.substr(bytes.size() - 7), "j\x2b\x01\0\0e."s);
}

}  // namespace
}  // namespace snug

// Pickles that Python wrote, and hostile ones by hand: nothing runs, everything is bounded.
#include "formats/pickle.h"

#include "base/testing.h"
#include "formats/testing.h"

namespace snug {
namespace {

using namespace std::string_literals;
using testing::expect_error;

class PickleFile : public ::testing::Test {
 protected:
  Pickle read(std::string_view bytes, const PickleLimits& limits = {}) {
    testing::write_bytes(dir_ / "a.pickle", bytes);
    return read_pickle(dir_ / "a.pickle", limits);
  }
  void refused(std::string_view bytes, std::string_view sentence) {
    expect_error(ExitCode::bad_input, sentence, [&] { read(bytes); });
  }
  testing::TempDir dir_;
};

// [{'a': 1, 'b': (True, None, 2.5)}, 'x', b'y', -3, 2**40, -2**62, {}, (), 'x']
void expect_plain(const Pickle& p) {
  const auto items = p.items(p.root());
  ASSERT_EQ(items.size(), 9U);
  EXPECT_EQ(p.integer(p.find(items[0], "a")), 1);
  const auto tuple = p.items(p.find(items[0], "b"));
  ASSERT_EQ(tuple.size(), 3U);
  EXPECT_TRUE(p.boolean(tuple[0]));
  EXPECT_TRUE(tuple[1].is(PickleKind::none));
  EXPECT_EQ(p.real(tuple[2]), 2.5);
  EXPECT_EQ(p.text(items[1]), "x");
  EXPECT_EQ(p.bytes(items[2]), "y");
  EXPECT_EQ(p.integer(items[3]), -3);
  EXPECT_EQ(p.integer(items[4]), int64_t{1} << 40);
  EXPECT_EQ(p.integer(items[5]), -(int64_t{1} << 62));
  EXPECT_TRUE(p.pairs(items[6]).empty());
  EXPECT_TRUE(p.items(items[7]).empty());
  EXPECT_EQ(items[8], items[1]) << "one text, shared";
  EXPECT_TRUE(p.find(items[0], "c").is(PickleKind::none));
}

TEST_F(PickleFile, ReadsProtocol3) {
  expect_plain(
      read("\x80\x03]q\x00(}q\x01(X\x01\x00\x00\x00"s
           "aq\x02K\x01X\x01\x00\x00\x00"s
           "bq\x03\x88NG@\x04\x00\x00\x00\x00\x00\x00\x87q\x04uX\x01\x00\x00\x00xq\x05"s
           "C\x01yq\x06J\xfd\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01"s
           "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\xc0}q\x07)h\x05"s
           "e."s));
}

TEST_F(PickleFile, ReadsProtocol4) {
  expect_plain(
      read("\x80\x04\x95\x50\x00\x00\x00\x00\x00\x00\x00]\x94(}\x94(\x8c\x01"s
           "a\x94K\x01\x8c\x01"s
           "b\x94\x88NG@\x04\x00\x00\x00\x00\x00\x00\x87\x94u\x8c\x01x\x94"s
           "C\x01y\x94J\xfd\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01"s
           "\x8a\x08\x00\x00\x00\x00\x00\x00\x00\xc0}\x94)h\x05"s
           "e......................................................"s));
}

TEST_F(PickleFile, ReadsTheTextOfProtocol0) {
  const Pickle p =
      read("(dp0\nVa\np1\nI1\nsVb\\u00e9\np2\n(I01\nNF2.5\ntp3\nsS'it\\'s \\x41'\np4\nL-9L\ns."s);
  EXPECT_EQ(p.integer(p.find(p.root(), "a")), 1);
  const auto tuple = p.items(p.find(p.root(), "b\xc3\xa9"));
  EXPECT_TRUE(p.boolean(tuple[0]));
  EXPECT_EQ(p.real(tuple[2]), 2.5);
  EXPECT_EQ(p.integer(p.find(p.root(), "it's A")), -9);
}

TEST_F(PickleFile, LastOfEqualKeysCounts) {
  const Pickle p = read(
      "}(\x8c\x01"s
      "aK\x01\x8c\x01"s
      "aK\x02u."s);
  EXPECT_EQ(p.integer(p.find(p.root(), "a")), 2);
}

TEST_F(PickleFile, SharedObjectsStayOneObject) {
  // x = [7]; [x, x]
  const Pickle p = read(
      "](]q\x01K\x07"
      "ah\x01"
      "e.");
  const auto items = p.items(p.root());
  EXPECT_EQ(items[0].identity(), items[1].identity());
  EXPECT_EQ(p.integer(p.items(items[1])[0]), 7);
}

TEST_F(PickleFile, ExecutableOpcodesAreRefused) {
  refused("cos\nsystem\n(S'touch x'\ntR.", "holds GLOBAL at byte 0");
  refused("\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.", "holds STACK_GLOBAL at byte 14");
  const std::pair<std::string, std::string> all[] = {{"R", "REDUCE"},
                                                     {"b", "BUILD"},
                                                     {"ios\nsystem\n", "INST"},
                                                     {"o", "OBJ"},
                                                     {"\x81", "NEWOBJ"},
                                                     {"\x92", "NEWOBJ_EX"},
                                                     {"\x82\x01", "EXT1"},
                                                     {"\x83\x01\x01", "EXT2"},
                                                     {"\x84\x01\x01\x01\x01", "EXT4"},
                                                     {"Pid\n", "PERSID"},
                                                     {"Q", "BINPERSID"},
                                                     {"\x97", "NEXT_BUFFER"},
                                                     {"\x98", "READONLY_BUFFER"},
                                                     {"\x8f", "EMPTY_SET"}};
  for (const auto& [op, name] : all)
    refused("\x80\x04]" + op + ".", fmt::format("holds {} at byte 3", name));
}

TEST_F(PickleFile, OtherFilesAreRefused) {
  refused("", "is empty");
  refused("PK\x03\x04", "is a zip archive");
  refused("\xff\xff", "byte 0 is 0xff, which is no opcode");
  refused("\x80\x06].", "pickle protocol 6 is newer than 5");
  refused(".", "the stack is empty");
  refused("]", "is truncated: the pickle has not ended after 1 bytes");
  refused("e.", "there is no mark");
  refused("K\x01(K\x01u.", "an integer is where a dict should be");
  refused("}(K\x01u.", "a key without a value");
  refused("h\x07.", "the memo has nothing at 7");
  refused("](K\x01q\x01", "is truncated");
  refused("I12x\n.", "'12x' is no integer");
  refused("Sabc\n.", "no quotes");
  refused("(0.", "the stack is empty");
  refused(
      "\x8a\x0a"
      "0123456789.",
      "an integer of 10 bytes");
  refused(
      "\x8a\x09"
      "012345678.",
      "more than 64 bits");
  refused("V" + std::string(70000, 'a') + "\n.", "longer than 65,536 bytes");
}

TEST_F(PickleFile, OverlongLengthsAreRefusedBeforeAllocation) {
  refused("X\xff\xff\xff\x7f"s, "2147483647 bytes are announced at byte 5, and 0 follow");
  refused("\x8e\xff\xff\xff\xff\xff\xff\xff\xff", "is truncated");
  refused("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff].", "is truncated");
  refused("\x8b\xff\xff\xff\x7f"s, "is truncated");
  refused("]r\xff\xff\xff\x7f."s, "the memo has no place 2147483647");
  refused("]p99999999999\n.", "the memo has no place 99999999999");
}

TEST_F(PickleFile, MemoryIsBounded) {
  // Lists in lists in lists: no recursion, and all of it counted.
  std::string deep(200'000, ']');
  deep += std::string(199'999, 'a') + ".";
  EXPECT_EQ(read(deep).items(read(deep).root()).size(), 1U);
  expect_error(ExitCode::bad_input, "need more than 1.00 MiB of memory, the limit",
               [&] { read(deep, {.memory = 1 << 20}); });
  expect_error(ExitCode::bad_input, "need more than 1.00 MiB of memory",
               [&] { read(std::string(300'000, '('), {.memory = 1 << 20}); });
  // A thousand-fold of a thousand-fold through the memo stays a few lists.
  std::string bomb = "]q\x01";
  for (int level = 1; level < 100; ++level) {
    bomb += "](";
    for (int i = 0; i < 100; ++i) bomb += std::string("h") + static_cast<char>(level);
    bomb += std::string("eq") + static_cast<char>(level + 1);
  }
  const Pickle p = read(bomb + ".", {.memory = 1 << 20});
  EXPECT_EQ(p.items(p.root()).size(), 100U);
}

TEST_F(PickleFile, OtherKindsAreNamed) {
  const Pickle p = read("K\x01.");
  expect_error(ExitCode::bad_input, "an integer is where a dict should be",
               [&] { p.find(p.root(), "a"); });
  expect_error(ExitCode::bad_input, "an integer is where a string should be",
               [&] { p.text(p.root()); });
}

}  // namespace
}  // namespace snug

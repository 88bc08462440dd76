// Snapshots as files: what is none, and what is too much.
#include "pytorch/snapshot.h"

#include "formats/testing.h"

namespace snug::pytorch {
namespace {

using namespace std::string_literals;
using snug::testing::expect_error;

class SnapshotFile : public ::testing::Test {
 protected:
  std::filesystem::path file(std::string_view bytes) {
    snug::testing::write_bytes(dir_ / "s.pickle", bytes);
    return dir_ / "s.pickle";
  }
  void refused(std::string_view bytes, std::string_view sentence) {
    expect_error(ExitCode::bad_input, sentence, [&] { read_snapshot(file(bytes)); });
  }
  snug::testing::TempDir dir_;
};

// 'text' as SHORT_BINUNICODE.
std::string u(const std::string& text) {
  return "\x8c" + std::string(1, static_cast<char>(text.size())) + text;
}

TEST_F(SnapshotFile, ReadsSegmentsBlocksAndTheTrace) {
  const std::string frames =
      "](}(" + u("filename") + u("a.py") + u("name") + u("f") + u("line") + "K\x07ueq\x05";
  const Snapshot s = read_snapshot(
      file("}(" + u("segments") + "](}(" + u("device") + "K\x01" + u("address") + "M\x00\x10"s +
           u("total_size") + "M\x00\x10"s + u("is_expandable") + "\x88" + u("blocks") + "](}(" +
           u("size") + "M\x00\x02"s + u("state") + u("active_allocated") + u("frames") + frames +
           "ueue" + u("device_traces") + "](](e](}(" + u("action") + u("oom") + u("size") +
           "K\x09" + u("device_free") + "K\x03" + u("frames") + "h\x05u}(" + u("action") +
           u("annotate") + "ueeu."));
  ASSERT_EQ(s.devices.size(), 1U) << "device 0 has nothing";
  const DeviceSnapshot& d = s.devices[0];
  EXPECT_EQ(d.device, 1);
  ASSERT_EQ(d.segments.size(), 1U);
  EXPECT_TRUE(d.segments[0].expandable);
  EXPECT_EQ(d.segments[0].blocks.at(0).address, 0x1000) << "counted on, as old versions have it";
  EXPECT_EQ(d.segments[0].blocks.at(0).requested, 512);
  ASSERT_EQ(d.trace.size(), 2U);
  EXPECT_EQ(d.trace[0].action, Action::oom);
  EXPECT_EQ(d.trace[0].address, 3);
  EXPECT_EQ(d.trace[1].action, Action::other) << "of a newer PyTorch";
  EXPECT_EQ(d.trace[0].stack, d.segments[0].blocks[0].stack) << "one stack, shared";
  EXPECT_EQ(s.frames.at(0).file, "a.py");
  EXPECT_EQ(s.frames.at(0).line, 7);
}

TEST_F(SnapshotFile, OtherFilesAreRefused) {
  refused("K\x01.", "is no memory snapshot of PyTorch: it holds an integer");
  refused("}.", "it holds a dict without 'segments'");
  refused("}(" + u("segments") + "K\x01u.", "an integer is where a list should be");
  refused("}(" + u("segments") + "](K\x01" + "eu.", "an integer is where a dict should be");
  refused("}(" + u("segments") + "](}(" + u("device") + "M\xff\xffueu.",
          "there is no device 65535");
  refused("}(" + u("segments") + "](}(" + u("total_size") + "J\xff\xff\xff\xffueu.",
          "'total_size' is -1, which is no number of bytes");
  refused("}(" + u("segments") + "](}(" + u("address") + "J\xff\xff\xff\xffueu.",
          "'address' is -1, which is no address");
}

TEST_F(SnapshotFile, EndlessSharingIsCounted) {
  // A list of 100,000 references to one list of 1,000 references to one block.
  std::string bytes = "}(" + u("segments") + "](](}(" + u("size") + "K\x01uq\x01";
  for (int i = 0; i < 999; ++i) bytes += "h\x01";
  bytes +=
      "eq\x02"
      "0}(" +
      u("blocks") + "h\x02uq\x03";
  for (int i = 0; i < 100'000; ++i) bytes += "h\x03";
  refused(bytes + "eu.", "blocks and what is before them, the limit for its size");
}

TEST_F(SnapshotFile, RecordOfThousandKeysIsRefused) {
  std::string bytes = "}(" + u("segments") + "](}(";
  for (int i = 0; i < 1000; ++i) bytes += u("key" + std::to_string(i)) + "K\x01";
  refused(bytes + "ueu.", "a record has 1000 keys");
}

}  // namespace
}  // namespace snug::pytorch

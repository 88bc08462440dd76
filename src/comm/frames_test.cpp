#include "comm/frames.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

}  // namespace

TEST(Frames, ArriveInPieces) {
  const std::vector<std::string> fields{"one", "", std::string("\0\n", 2)};
  const std::string sent = frame_bytes(FrameKind::offer, fields) + frame_bytes(FrameKind::beat, {});
  FrameReader reader;
  std::vector<Frame> got;
  for (const char c : sent) {
    reader.append({&c, 1});
    while (std::optional<Frame> frame = reader.next(100)) got.push_back(*std::move(frame));
  }
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].kind, FrameKind::offer);
  EXPECT_EQ(got[0].fields(), fields);
  EXPECT_EQ(got[1].kind, FrameKind::beat);
  EXPECT_THAT(got[1].fields(), ElementsAre());
  EXPECT_THROW(got[1].fields(3), Error);
}

TEST(Frames, AreRefusedBeforeBuffering) {
  FrameReader unknown;
  unknown.append("G");  // ET / HTTP/1.1
  EXPECT_THROW(unknown.next(100), Error);

  const std::string large = frame_bytes(FrameKind::hello, std::vector{std::string(101, 'x')});
  FrameReader reader;
  reader.append(std::string_view(large).substr(0, 16));  // its header alone
  EXPECT_THROW(reader.next(100), Error);

  std::string kind = frame_bytes(FrameKind::goodbye, {});
  kind[4] = 77;
  FrameReader other;
  other.append(kind);
  EXPECT_THROW(other.next(100), Error);
}

TEST(Frames, DamagedFramesStayInBounds) {
  std::mt19937 random(7);
  const std::string whole =
      frame_bytes(FrameKind::hello, std::vector<std::string>{"1", "token", "3", "4", "host", "77"});
  int refused = 0, read = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string bytes = whole;
    for (int k = 0; k < 3; ++k)
      bytes[4 + random() % (bytes.size() - 4)] = static_cast<char>(random());
    FrameReader reader;
    reader.append(bytes);
    try {
      if (const auto frame = reader.next(4096)) read += frame->fields().empty() ? 0 : 1;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input);
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(read, 10);
}

}  // namespace snug

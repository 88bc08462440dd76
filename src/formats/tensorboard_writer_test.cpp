#include "formats/tensorboard_writer.h"

#include <cstring>

#include "base/text.h"
#include "formats/testing.h"

namespace snug {
namespace {

using namespace std::string_literals;
using testing::TempDir;

TEST(Tensorboard, ChecksumsMatchFormat) {
  // CRC-32C of "123456789" is 0xE3069283 (RFC 3720, B.4, for other inputs), rotated by 15 and offset.
  const uint32_t crc = 0xE3069283U;
  EXPECT_EQ(masked_crc32c("123456789"), (crc >> 15 | crc << 17) + 0xA282EAD8U);
  const std::string zeros(32, '\0');  // RFC 3720: aa 36 91 8a
  const uint32_t of_zeros = 0x8A9136AAU;
  EXPECT_EQ(masked_crc32c(zeros), (of_zeros >> 15 | of_zeros << 17) + 0xA282EAD8U);
}

TEST(Tensorboard, EventHasTimeStepAndValues) {
  const std::vector<Scalar> scalars{{"loss", 1.5}};
  EXPECT_EQ(scalar_event(2.0, 300, scalars),
            "\x09\0\0\0\0\0\0\0\x40"
            "\x10\xac\x02"
            "\x2a\x0d\x0a\x0b\x0a\x04loss\x15\0\0\xc0\x3f"s);
}

TEST(Tensorboard, FileHasRecordsAfterItsVersion) {
  TempDir dir;
  TensorboardWriter events(dir / "logs/a");
  const std::vector<Scalar> scalars{{"loss", 3}, {"lr", 1e-4}};
  EXPECT_TRUE(events.scalars(7, scalars));
  EXPECT_THAT(events.path().filename().string(), ::testing::StartsWith("events.out.tfevents."));
  std::string bytes = read_file(events.path());
  std::vector<std::string> records;
  while (!bytes.empty()) {
    uint64_t size = 0;
    std::memcpy(&size, bytes.data(), 8);
    ASSERT_LE(size + 16, bytes.size());
    records.push_back(bytes.substr(12, size));
    EXPECT_EQ(bytes.substr(0, size + 16), tensorboard_record(records.back()));
    bytes.erase(0, size + 16);
  }
  ASSERT_EQ(records.size(), 2U);
  EXPECT_THAT(records[0], ::testing::EndsWith("\x1a\x0d"
                                              "brain.Event:2"));
  EXPECT_THAT(records[1], ::testing::HasSubstr("loss"));
}

TEST(Tensorboard, ImpossibleDirectoryIsRefused) {
  TempDir dir;
  testing::write_bytes(dir / "file", "x");
  testing::expect_error(ExitCode::usage, "cannot be written to",
                        [&] { TensorboardWriter events(dir / "file"); });
}

}  // namespace
}  // namespace snug

#include "formats/safetensors.h"

#include <sys/mman.h>  // memfd_create
#include <unistd.h>

#include "base/rng.h"
#include "base/timed_test.h"
#include "formats/testing.h"

namespace snug {
namespace {

using testing::bytes_of;
using testing::expect_error;
using testing::TempDir;
using testing::write_bytes;

// A file from its JSON and its data, as a writer would lay it out.
std::string file_of(std::string_view json, std::string_view data, int64_t length = -1) {
  auto n = static_cast<uint64_t>(length < 0 ? static_cast<int64_t>(json.size()) : length);
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i));
  return out.append(json).append(data);
}

class SafetensorsTest : public ::testing::Test {
 protected:
  SafetensorsFile open(std::string_view bytes) {
    write_bytes(dir_ / "x.safetensors", bytes);
    return SafetensorsFile(dir_ / "x.safetensors");
  }
  void expect_refused(std::string_view json, std::string_view data, std::string_view part) {
    expect_error(ExitCode::bad_input, part, [&] { open(file_of(json, data)); });
  }

  TempDir dir_;
};

TEST_F(SafetensorsTest, ReadsTensorsMetadataAndPadding) {
  const SafetensorsFile file = open(file_of(
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[2,10]},)"
      R"("a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"none":{"dtype":"U8","shape":[0,3],"data_offsets":[2,2]}}   )",
      "0123456789"));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[2].name, "b");
  const TensorEntry* b = file.find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->dtype, Dtype::f32);
  EXPECT_EQ(b->file_dtype, "F32");
  EXPECT_EQ(b->shape, (Shape{2, 1}));
  EXPECT_EQ(b->bytes, 8);
  EXPECT_EQ(bytes_of(*b)[0], std::byte{'2'});
  std::byte last{};
  b->read(7, std::span(&last, 1));
  EXPECT_EQ(last, std::byte{'9'});
  EXPECT_EQ(file.find("none")->bytes, 0);
  EXPECT_EQ(file.find("c"), nullptr);
}

TEST_F(SafetensorsTest, LookupSurvivesAMove) {
  SafetensorsFile first =
      open(file_of(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "x"));
  const SafetensorsFile second = std::move(first);
  ASSERT_NE(second.find("a"), nullptr);
  EXPECT_EQ(bytes_of(*second.find("a"))[0], std::byte{'x'});
}

TEST_F(SafetensorsTest, FileTruncatedLaterIsRefused) {
  const SafetensorsFile file =
      open(file_of(R"({"a":{"dtype":"I8","shape":[4],"data_offsets":[0,4]}})", "abcd"));
  const auto size = std::filesystem::file_size(file.path());
  std::filesystem::resize_file(file.path(), size - 1);
  expect_error(ExitCode::bad_input, "when it was opened and now ends before byte",
               [&] { bytes_of(*file.find("a")); });
}

TEST_F(SafetensorsTest, UnsupportedDtypeIsRefusedOnlyOnUse) {
  const SafetensorsFile file =
      open(file_of(R"({"q":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                   R"("four":{"dtype":"F4","shape":[4],"data_offsets":[2,4]},)"
                   R"("w":{"dtype":"I8","shape":[1],"data_offsets":[4,5]}})",
                   "01234"));
  EXPECT_NE(file.find("w"), nullptr);
  EXPECT_TRUE(file.contains("q"));
  expect_error(ExitCode::bad_input, "unsupported dtype F8_E4M3 for tensor q",
               [&] { file.find("q"); });
}

TEST_F(SafetensorsTest, RefusesAWrongLengthOrHeader) {
  const auto refused = [&](std::string_view bytes, std::string_view part) {
    expect_error(ExitCode::bad_input, part, [&] { open(bytes); });
  };
  refused("", "0 bytes are too few");
  refused("1234567", "7 bytes are too few");
  refused(file_of("{}", "", 3), "the header is 3 bytes, the file has 2");
  refused(file_of("{}", "", 100'000'001), "header would be 100000001 bytes");
  refused(std::string(8, '\xff') + "{}", "header would be 18446744073709551615 bytes");
  refused(file_of("", ""), "not valid JSON");
  refused(file_of("{\"a\":", ""), "not valid JSON");
  refused(file_of("{\"\xff\":1}", ""), "not valid JSON");
  refused(file_of("[1]", ""), "not a JSON object");
  refused(file_of(std::string(100'000, '['), ""), "nests deeper than 3");
}

TEST_F(SafetensorsTest, RefusesAWrongEntry) {
  expect_refused(R"({"a":7})", "", "tensor a is not described");
  expect_refused(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x", "tensor a has no dtype");
  expect_refused(R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,1]}})", "x", "dtype F33");
  expect_refused(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x", "not a string");
  expect_refused(R"({"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,1]}})", "x",
                 "has -1 in its shape");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1.5],"data_offsets":[0,1]}})", "x",
                 "has 1.5 in its shape");
  expect_refused(R"({"a":{"dtype":"I8","shape":["1"],"data_offsets":[0,1]}})", "x",
                 "has string in its");
  expect_refused(R"({"a":{"dtype":"I8","shape":1,"data_offsets":[0,1]}})", "x", "not a list");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1,1,1,1,1,1,1],"data_offsets":[0,1]}})", "x",
                 "7 axes");
  expect_refused(R"({"a":{"dtype":"I8","shape":[9223372036854775808],"data_offsets":[0,1]}})", "x",
                 "9223372036854775808 in its shape");
  expect_refused(R"({"a":{"dtype":"I8","shape":[4611686018427387904,4],"data_offsets":[0,1]}})",
                 "x", "absurdly large");
  expect_refused(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,1]}})", "x", "inside a byte");
  expect_refused(R"({"__metadata__":{"n":1}})", "", "__metadata__ n is not a string");
  expect_refused(R"({"__metadata__":[]})", "", "__metadata__ is not a JSON object");
}

TEST_F(SafetensorsTest, RefusesWrongOffsets) {
  expect_refused(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0]}})", "x", "1 data_offsets");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,0]}})", "x",
                 "begins at byte 1 after");
  expect_refused(R"({"a":{"dtype":"I8","shape":[9],"data_offsets":[0,9]}})", "x",
                 "ends at byte 9 of 1");
  expect_refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1]}})", "x",
                 "is F32[1] = 4 bytes, but its offsets [0,1] span 1");
}

TEST_F(SafetensorsTest, RefusesHolesOverlapsAndTwins) {
  expect_refused(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},)"
                 R"("b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}})",
                 "xyz", "tensor b begins at byte 1, but the one before it ends at 2");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})", "xy",
                 "begins at byte 1");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})", "xy",
                 "end at byte 1 of 2");
  expect_refused(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},)"
                 R"("a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                 "x", "tensor a is listed twice");
}

TEST_F(SafetensorsTest, ManyTensorsTakeLinearTime) {
  const auto write = [&](int tensors) {
    std::string header = "{";
    for (int i = 0; i < tensors; ++i) {
      header +=
          fmt::format(R"({}"layers.{}.w":{{"dtype":"I8","shape":[1],"data_offsets":[{},{}]}})",
                      i == 0 ? "" : ",", i, i, i + 1);
    }
    return file_of(header + "}", std::string(static_cast<size_t>(tensors), 'x'));
  };
  EXPECT_EQ(open(write(40'000)).tensors().size(), 40'000U);
  EXPECT_LT(growth_by_8(5'000, write, [&](const std::string& bytes) { open(bytes); }),
            kLinearGrowth);
}

// A file in memory that can be given other bytes again and again: thousands of rounds without
// touching a disk.
class MemoryFile {
 public:
  MemoryFile() : fd_(::memfd_create("snug-fuzz", MFD_CLOEXEC)) {}
  ~MemoryFile() { ::close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", fd_); }
  void set(std::string_view bytes) {
    ASSERT_EQ(::ftruncate(fd_, 0), 0);
    ASSERT_EQ(::pwrite(fd_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
};

// Whatever the bytes, the reader returns tensors inside the file or throws Error; sanitizers watch
// it.
TEST(SafetensorsFuzz, SurvivesDamagedBytes) {
  const std::string good = file_of(
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},)"
      R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[16,20]}}    )",
      std::string(20, 'd'));
  MemoryFile memory;
  memory.set(good);
  ASSERT_EQ(SafetensorsFile(memory.path()).tensors().size(), 2U);
  const std::string alphabet = std::string("0123456789[]{}:,\"-.eE tfn\\\0\xff", 28);
  int refused = 0;
  constexpr uint64_t kRounds = 4000;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const auto dice = philox(hash_name("safetensors fuzz"), round);
    std::string bad = good;
    for (uint32_t i = 0; i <= dice[0] % 3; ++i) {
      const uint32_t where = dice[1] * (i + 1) % static_cast<uint32_t>(bad.size());
      bad[where] = alphabet[(dice[2] >> (8 * i)) % alphabet.size()];
    }
    if (dice[3] % 8 == 0) bad.resize(dice[3] / 8 % bad.size());
    memory.set(bad);
    try {
      const SafetensorsFile file(memory.path());
      int64_t bytes = 0;
      for (const TensorEntry& tensor : file.tensors()) {
        for (const std::byte b : bytes_of(tensor)) bytes += b != std::byte{0};
      }
      EXPECT_LE(bytes, static_cast<int64_t>(bad.size()));
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::bad_input) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(refused, static_cast<int>(kRounds / 2));
}

}  // namespace
}  // namespace snug

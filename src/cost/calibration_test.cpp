#include "cost/calibration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/notes.h"
#include "base/text.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The notes that are taken meanwhile.
template <typename F>
std::string said(const F& f) {
  std::string notes;
  NoteListener before =
      tell_notes_to({.line = [&](std::string_view note) { (notes += note) += '\n'; }});
  f();
  tell_notes_to(std::move(before));
  return notes;
}

Calibration h200() {
  return {"NVIDIA H200",
          0,
          "driver 13.0",
          "2026-11-15",
          4.23e12,
          {{{"linear", Dtype::bf16, false, 2, 1.0 / 3 * 1e12, 3e8, 5e9}, 1.0 / 7e3},
           {{"rms_norm", Dtype::f32, true, 0, 0, 1e7, 0}, 3e-6}}};
}

std::string replaced(std::string text, std::string_view what, std::string_view with) {
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

class CalibrationFile : public ::testing::Test {
 protected:
  CalibrationFile() { write_calibration(path_, h200()); }
  void TearDown() override { fs::remove_all(folder_); }

  // What is said of a file with this content, which must be ignored.
  std::string word_on(const std::string& content, std::string_view device = "NVIDIA H200",
                      int64_t threads = 0) const {
    write_file_atomically(path_, content);
    return said(
        [&] { EXPECT_FALSE(read_calibration(path_, device, threads).has_value()) << content; });
  }

  const fs::path folder_ =
      fs::path(::testing::TempDir()) / ("snug-calibration-" + std::to_string(getpid()));
  const fs::path path_ = folder_ / "deep" / "calibration.json";
};

TEST_F(CalibrationFile, RoundTripKeepsEveryBit) {
  EXPECT_EQ(read_calibration(path_, "NVIDIA H200"), h200());
}

TEST_F(CalibrationFile, MissingFileIsEmpty) {
  EXPECT_EQ(said([&] {
              EXPECT_FALSE(read_calibration(folder_ / "none.json", "NVIDIA H200").has_value());
              EXPECT_FALSE(read_calibration("", "NVIDIA H200").has_value());
            }),
            "");
}

TEST_F(CalibrationFile, TruncatedFileIsIgnoredWithWarning) {
  const std::string whole = read_file(path_);
  for (size_t i = 0; i + 2 < whole.size(); ++i)
    EXPECT_THAT(word_on(whole.substr(0, i)),
                AllOf(HasSubstr(path_.string()), HasSubstr("'snug calibrate' measures again")))
        << i;
}

TEST_F(CalibrationFile, OtherSchemaIsIgnoredWithWarning) {
  const std::string whole = read_file(path_);
  for (const char* key :
       {"format", "device", "threads", "versions", "date", "copy_bytes_per_s", "samples", "kind",
        "dtype", "tf32", "has", "flops", "bytes", "exps", "seconds"})
    EXPECT_THAT(word_on(replaced(whole, key, "other")), HasSubstr("ignored")) << key;
  for (const char* other : {"[]", "1", "null", "\"text\"", "{}", "\xff\xfe"})
    EXPECT_THAT(word_on(other), HasSubstr("ignored")) << other;
}

TEST_F(CalibrationFile, OtherFormatOrDeviceIsReported) {
  const std::string whole = read_file(path_);
  EXPECT_THAT(word_on(replaced(whole, "\"format\": 6", "\"format\": 5")),
              HasSubstr("it is of format 5, not 6"));
  for (const char* format : {"6.0", "1e99", "-6", "99999999999", "[[6]]"})
    EXPECT_THAT(word_on(replaced(whole, "\"format\": 6", fmt::format("\"format\": {}", format))),
                HasSubstr("\"format\" is no whole number"))
        << format;
  EXPECT_THAT(word_on(whole, "NVIDIA L4"),
              HasSubstr("it was measured on NVIDIA H200, not on NVIDIA L4"));
  EXPECT_THAT(word_on(whole, "NVIDIA H200", 8), HasSubstr("not on NVIDIA H200 with 8 threads"));
}

TEST_F(CalibrationFile, OlderDriverIsIgnoredWithWarning) {
  EXPECT_TRUE(read_calibration(path_, "NVIDIA H200", 0, "driver 13.0").has_value());
  EXPECT_THAT(said([&] {
                EXPECT_FALSE(read_calibration(path_, "NVIDIA H200", 0, "driver 14.0").has_value());
              }),
              AllOf(HasSubstr("it was measured with driver 13.0, and now there is driver 14.0"),
                    HasSubstr("measures again")));
}

TEST_F(CalibrationFile, ImpossibleNumberIsIgnored) {
  const std::string whole = read_file(path_);
  for (const char* wrong : {"0", "0.0", "-1.5", "null", "1e999", "true", "\"3\""}) {
    EXPECT_THAT(word_on(replaced(whole, "3e-06", wrong)), HasSubstr("ignored")) << wrong;
    EXPECT_THAT(word_on(replaced(whole, "4230000000000.0", wrong)), HasSubstr("ignored")) << wrong;
  }
  EXPECT_THAT(word_on(replaced(whole, "300000000.0", "-1")), HasSubstr("\"bytes\" is -1"));
  EXPECT_THAT(word_on(replaced(whole, "bf16", "bf17")), HasSubstr("\"dtype\" is 'bf17'"));
}

TEST_F(CalibrationFile, FileWithoutLinkIsRead) {
  EXPECT_EQ(read_file(path_).find("link"), std::string::npos);
  Calibration c = h200();
  c.link = Link{55.2e9, 55.3e9, 49.25e9};
  c.host_bytes_per_s = 136e9;
  c.disk = DiskRates{6.5e9, 2.75e9};
  write_calibration(path_, c);
  EXPECT_EQ(read_calibration(path_, "NVIDIA H200"), c);
  const std::string whole = read_file(path_);
  for (const char* wrong : {"0", "-1", "null"}) {
    EXPECT_THAT(word_on(replaced(whole, "55200000000.0", wrong)), HasSubstr("ignored")) << wrong;
    EXPECT_THAT(word_on(replaced(whole, "136000000000.0", wrong)), HasSubstr("ignored")) << wrong;
    EXPECT_THAT(word_on(replaced(whole, "2750000000.0", wrong)), HasSubstr("ignored")) << wrong;
  }
}

TEST_F(CalibrationFile, OmitsZeroTimes) {
  Calibration c = h200();
  c.samples.push_back({{"advance", Dtype::f32, false, 0, 0, 8, 0}, 0});
  c.samples.push_back(
      {{"clip", Dtype::f32, false, 0, 0, 8, 0}, std::numeric_limits<double>::quiet_NaN()});
  write_calibration(path_, c);
  EXPECT_EQ(read_calibration(path_, "NVIDIA H200"), h200());
  c.samples.clear();
  write_calibration(path_, c);
  EXPECT_THAT(word_on(read_file(path_)), HasSubstr("no samples"));
}

TEST_F(CalibrationFile, UnwritableFileIsRefused) {
  EXPECT_THROW(write_calibration(path_ / "below-a-file.json", h200()), Error);
}

TEST(CalibrationPath, IsOfTheDeviceAndItsThreads) {
  setenv("XDG_CACHE_HOME", "/caches", 1);
  EXPECT_EQ(calibration_path("NVIDIA H200"), "/caches/snug/calibration-nvidia-h200.json");
  EXPECT_EQ(calibration_path("AMD EPYC 9", 8),
            "/caches/snug/calibration-amd-epyc-9-8-threads.json");
}

}  // namespace
}  // namespace snug

// The calibration of a device, written over an older one: the old one or the new one.
#include "cost/calibration.h"

#include "formats/testing.h"
#include "support/faulty_files.h"

namespace snug::testing {
namespace {

namespace fs = std::filesystem;

Calibration measured(double copy_bytes_per_s) {
  OpSample sample;
  sample.kind = "linear";
  sample.seconds = 1;
  return {.device = "a GPU",
          .versions = "driver 1",
          .date = "2026-11-17",
          .copy_bytes_per_s = copy_bytes_per_s,
          .samples = {sample}};
}

TEST(CalibrationFaults, OldOrNew) {
  TempDir dir;
  const fs::path box = dir / "box";
  const auto save = [&] { write_calibration(box / "snug/calibration.json", measured(2)); };
  const auto speed_in = [](const fs::path& at) {
    const auto found = read_calibration(at / "snug/calibration.json", "a GPU");
    return found ? found->copy_bytes_per_s : 0;
  };
  for (const double before : {0, 1}) {  // 0: there is none
    fs::remove_all(box);
    fs::create_directories(box);
    if (before == 1) write_calibration(box / "snug/calibration.json", measured(1));
    const auto check = [&](const fs::path& at) {
      EXPECT_THAT(speed_in(at), ::testing::AnyOf(before, 2.0));
      EXPECT_EQ(fs::exists(at / "snug/calibration.json"), speed_in(at) != 0) << "damaged";
    };
    EXPECT_GT(for_each_last_call(box, save, check), 5);
    EXPECT_GT(for_each_power_loss(box, save, check), 3);
    for_each_failing_call(box, save, [&](const fs::path& at, const FailedCall& failed) {
      check(at);
      EXPECT_TRUE(failed.error || speed_in(at) == 2);
      EXPECT_THAT(failed.error.value_or("box/snug"), ::testing::HasSubstr("box/snug"));
    });
  }
}

}  // namespace
}  // namespace snug::testing

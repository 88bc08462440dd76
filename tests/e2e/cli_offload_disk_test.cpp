// Values on disk from the command line: the same losses and the same saved model, nothing left in
// the directory, and what cannot be is refused before the first step.
#include <signal.h>

#include "base/testing.h"
#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDiskTrain = "train tiny --data text.txt --seq 16 --batch 2";

class CliOffloadDisk : public Cli {
 protected:
  CliOffloadDisk() { std::filesystem::create_directory(dir_ / "disk"); }
  bool disk_is_empty() const { return std::filesystem::is_empty(dir_ / "disk"); }
  std::string model_in(const char* out) const {
    return read_file(dir_ / out / "model.safetensors");
  }
};

TEST_F(CliOffloadDisk, TrainsSavesAndLoadsTheSameBits) {
  const std::string all = " --offload all=disk --offload-dir disk --precision bf16 --steps 3";
  const std::string none = " --precision bf16 --steps 3";
  EXPECT_EQ(losses(kDiskTrain + " --out a" + none), losses(kDiskTrain + " --out b" + all));
  EXPECT_EQ(model_in("a"), model_in("b"));
  const std::string on = "train a --data text.txt --seq 16 --batch 2";
  EXPECT_EQ(losses(on + " --out c" + none), losses(on + " --out d" + all));
  EXPECT_EQ(model_in("c"), model_in("d"));
  EXPECT_TRUE(disk_is_empty());
}

TEST_F(CliOffloadDisk, CopiesAreTimedLikeOtherOps) {
  const Ended run =
      snug(kDiskTrain + " --steps 1 --offload optimizer=disk --offload-dir disk --explain");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out + run.err, HasSubstr("\ncopy  "));
}

TEST_F(CliOffloadDisk, LeavesNoFilesWhenKilled) {
  bool empty_before = false;
  const Ended run = snug(kDiskTrain + " --steps 100000 --offload optimizer=disk --offload-dir disk",
                         {.interrupt_after = "step", .before_interrupt = [&](pid_t pid) {
                            empty_before = disk_is_empty();
                            kill(pid, SIGKILL);
                          }});
  EXPECT_EQ(run.signal, SIGKILL);
  EXPECT_TRUE(empty_before) << "the file has no name while it is used";
  EXPECT_TRUE(disk_is_empty());
}

TEST_F(CliOffloadDisk, PlansReportNeededAndWrittenBytes) {
  const Ended plan = snug("plan tiny --seq 16 --batch 2 --offload optimizer=disk");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(plan.out, HasSubstr("; a run needs --offload-dir DIR"));
  EXPECT_THAT(plan.out, HasSubstr(" a day to disk"));
  EXPECT_THAT(plan.out, HasSubstr("disk_in"));
  EXPECT_THAT(plan.out, HasSubstr("disk 2 GB/s read, 2 GB/s written, assumed"));
  const Ended with =
      snug("plan tiny --seq 16 --batch 2 --offload optimizer=disk --offload-dir disk");
  EXPECT_THAT(with.out, Not(HasSubstr("a run needs")));
  const auto json =
      nlohmann::json::parse(snug("plan tiny --seq 16 --offload optimizer=disk --json").out);
  EXPECT_GT(json["disk_bytes"], 0);
  EXPECT_GT(json["disk_bytes_written_a_day"], 0);
}

TEST_F(CliOffloadDisk, RefusesBeforeTheFirstStep) {
  const std::string train = kDiskTrain + " --steps 1 --offload all=disk";
  expect_refused(train, kUsage, "--offload all=disk puts values on disk, and nothing says where",
                 "give --offload-dir DIR");
  expect_refused(train + " --offload-dir none", kBadInput,
                 "--offload-dir none: No such file or directory");
  expect_refused(train + " --offload-dir disk --disk-budget 4KiB", ExitCode::does_not_fit,
                 " on disk, and --disk-budget is 4.00 KiB (4,096 bytes)", "--disk-budget ");
  expect_refused(train + " --offload-dir disk --disk-budget 300KB", ExitCode::does_not_fit,
                 " on disk, and --disk-budget is ", "layer 0 of it would fit: @0=disk");
  expect_refused(train + " --offload-dir /proc", ExitCode::does_not_fit, "/proc has 0 B");
}

TEST_F(CliOffloadDisk, ReportsTmpfsAsMemory) {
  if (!std::filesystem::exists("/dev/shm")) GTEST_SKIP() << "no tmpfs";
  const std::string train = kDiskTrain + " --steps 1 --offload optimizer=disk --offload-dir ";
  EXPECT_THAT(snug(train + "/dev/shm").err, HasSubstr("/dev/shm is on tmpfs: its files take"));
  EXPECT_THAT(snug(train + "disk").err, Not(HasSubstr("tmpfs")));
}

TEST_F(CliOffloadDisk, CalibrateMeasuresTheDisk) {
  const testing::Environment cache("XDG_CACHE_HOME", (dir_ / "cache").string());
  const Ended run = snug("calibrate --seconds 0.001 --offload-dir disk");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the disk reads "));
  EXPECT_THAT(snug("plan tiny --seq 16 --offload optimizer=disk").out,
              HasSubstr(" written, measured"));
  EXPECT_TRUE(disk_is_empty());
}

}  // namespace
}  // namespace snug

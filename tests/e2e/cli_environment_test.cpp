// What the environment says of threads and memory never makes snug hang, crash or compute other
// bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/sanitized.h"
#include "e2e/cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

constexpr const char* kTwoSteps = "train snug-tiny --data synthetic --steps 2 --batch 2 --seq 64";

struct Variable {
  const char* name;
  const char* value;
};

class CliThreads : public Cli, public ::testing::WithParamInterface<Variable> {};

// OpenBLAS would wait for threads that OpenMP does not give.
TEST_P(CliThreads, TrainsToTheSameBits) {
  RunOptions options;
  options.environment = {{"OMP_NUM_THREADS", "3"}, {GetParam().name, GetParam().value}};
  const std::vector<double> under_setting = losses(kTwoSteps, options);
  EXPECT_EQ(under_setting.size(), 2U);
  EXPECT_EQ(under_setting, losses(kTwoSteps));
}

INSTANTIATE_TEST_SUITE_P(Settings, CliThreads,
                         ::testing::Values(Variable{"OMP_THREAD_LIMIT", "1"},
                                           Variable{"OMP_MAX_ACTIVE_LEVELS", "0"},
                                           Variable{"OMP_DYNAMIC", "true"},
                                           Variable{"OMP_NUM_THREADS", "1000000"}),
                         [](const auto& p) { return std::string(p.param.name); });

TEST_F(Cli, ExcessThreadsAreBounded) {
  EXPECT_EQ(losses(std::string(kTwoSteps) + " --threads 4096").size(), 2U);
}

class CliMemory : public Cli {};

// Too little for the matrix library's own buffers, at every size from nothing to enough: an answer
// or a sentence, never a wait.
TEST_F(CliMemory, SmallAddressSpaceIsRefusedOrServed) {
  if (kSanitized) GTEST_SKIP() << "the address sanitizer takes all of the address space";
  int refused = 0, served = 0;
  const int64_t program = static_cast<int64_t>(std::filesystem::file_size(snug_binary())) >> 20;
  for (const int64_t extra : {24, 32, 48, 64, 80, 112, 240, 496, 4096}) {
    const int64_t mib =
        program + extra;  // with less the loader or the allocator ends it before main
    SCOPED_TRACE(fmt::format("ulimit -v of {} MiB", mib));
    const Ended run = snug("models", {.address_space = mib << 20});
    if (run.code == 0) {
      ++served;
      EXPECT_THAT(run.out, HasSubstr("gpt2"));
      continue;
    }
    EXPECT_NE(run.code, -1) << "a signal or the limit ended it: " << run.err;
    EXPECT_NE(run.err, "");
    ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(served, 0);
}

TEST_F(CliMemory, BuffersForManyThreadsAreRefused) {
  if (kSanitized) GTEST_SKIP() << "the address sanitizer takes all of the address space";
  RunOptions options{.address_space = int64_t{1} << 30};
  options.environment = {{"OMP_NUM_THREADS", "64"}, {"OMP_STACKSIZE", "256K"}};
  const Ended run = snug(std::string(kTwoSteps) + " --device cpu", options);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::does_not_fit)) << run.err;
  EXPECT_THAT(run.err, HasSubstr("64 threads multiply in"));
  EXPECT_THAT(run.err, HasSubstr("--threads"));
}

}  // namespace
}  // namespace snug

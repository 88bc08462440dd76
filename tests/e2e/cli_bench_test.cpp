// snug bench as typed, as far as it goes without a GPU: everything that is refused.
#include "cli_fixture.h"
#include "hal/cuda/probe.h"

namespace snug {
namespace {

using CliBench = Cli;

TEST_F(CliBench, RefusesBadArguments) {
  expect_refused("bench tiny", ExitCode::usage, "needs one of --peer torch and --roofline");
  expect_refused("bench tiny --peer torch --roofline", ExitCode::usage, "needs one of");
  expect_refused("bench tiny --peer jax", ExitCode::usage, "'jax'", "--peer torch");
  expect_refused("bench --roofline", ExitCode::usage, "snug bench needs a MODEL");
  expect_refused("bench gtp2 --roofline", ExitCode::usage, "there is no model 'gtp2'");
  expect_refused("bench tiny --roofline --out a", ExitCode::usage, "keeps no model");
  expect_refused("bench tiny --roofline --device cpu", ExitCode::usage, "bench measures a GPU");
}

TEST_F(CliBench, PeerIsComparedOnlyForSameTraining) {
  expect_refused("bench gpt2 --peer torch", ExitCode::usage, "'gpt2' is gpt2");
  expect_refused("bench tiny --peer torch --state-dtype fp32", ExitCode::usage,
                 "--state-dtype fp32: the peer trains with bf16");
  expect_refused("bench tiny --peer torch --optimizer lion", ExitCode::usage,
                 "--optimizer lion: the peer trains with adamw");
  expect_refused("bench tiny --peer torch --batch 4 --global-batch 6", ExitCode::usage,
                 "--global-batch 6");
}

TEST_F(CliBench, MissingGpuIsReportedWithExitFive) {
  const std::string why = why_no_cuda();
  if (why.empty()) GTEST_SKIP() << "there is a GPU here";
  for (const char* what : {"--peer torch", "--roofline"})
    expect_refused(fmt::format("bench tiny {}", what), ExitCode::device, why, "snug doctor");
}

}  // namespace
}  // namespace snug

// A step whose loss is not a number leaves parameters, states and the count of updates as they
// were, wherever the updates are.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "passes/shared_names.h"
#include "support/small_run.h"

namespace snug {
namespace {

// All that lives from step to step.
std::vector<std::byte> state(SmallRun& run) {
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < run.module().values.size(); ++i) {
    if (run.module().values[i].scope != Scope::persistent) continue;
    const auto of = run.executor().bytes({static_cast<int32_t>(i)});
    bytes.insert(bytes.end(), of.begin(), of.end());
  }
  return bytes;
}

// One whole step whose last micro-batch has a target beyond the vocabulary: the loss is NaN, every
// gradient is finite.
float step_with_a_bad_target(SmallRun& run, int64_t accum) {
  run.executor().run_step([&, fed = int64_t{0}](const Program& program) mutable {
    if (!is_training(program.role)) return;
    run.feed(fed++);
    if (fed == accum) run.executor().values<int32_t>(run.executor().shared("targets"))[0] = 1 << 20;
  });
  return run.executor().scalar<float>(run.executor().shared(shared_names::kLoss));
}

TEST(NotFinite, NanLossChangesNothing) {
  for (const bool in_backward : {false, true}) {
    for (const int64_t accum : {1, 3}) {
      for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
        SCOPED_TRACE(::testing::Message() << "in backward " << in_backward << ", accum " << accum
                                          << ", " << name_of(precision));
        SmallRun run(tests_dir() + "/parity/llama", {.batch = 2, .seq = 16},
                     {.accum = accum,
                      .precision = precision,
                      .update_in_backward = in_backward,
                      .clip = in_backward ? 0.0 : 1.0});
        const auto before = state(run);
        EXPECT_TRUE(std::isnan(step_with_a_bad_target(run, accum)));
        EXPECT_TRUE(std::isfinite(
            run.executor().scalar<float>(run.executor().shared(shared_names::kGradNorm))));
        EXPECT_EQ(state(run), before);
        EXPECT_TRUE(std::isfinite(run.step()));
        EXPECT_NE(state(run), before) << "the next step moves on";
      }
    }
  }
}

}  // namespace
}  // namespace snug

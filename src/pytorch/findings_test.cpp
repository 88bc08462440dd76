// A training that was made up, event by event: whose bytes, which steps, what leaks, what failed.
#include "pytorch/findings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pytorch/testing.h"

namespace snug::pytorch {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMega = 1 << 20;

Frame torch_frame(const std::string& file, const std::string& name) {
  return {"/env/site-packages/torch/" + file, name, 1};
}
const Frame kMain{"train.py", "main", 9};

// Four layers of three weights, AdamW; the layers are called in line 99 of model.py.
class Training {
 public:
  void setup() {
    for (int i = 0; i < 12; ++i) parameters_.push_back(recorder.alloc(kMega, setup_));
  }
  void step() {
    recorder.free(gradients_, zero_grad_);
    std::vector<int64_t> kept;
    for (int layer = 0; layer < 4; ++layer) {
      for (const auto& [stack, bytes] : {std::pair{norm_, 2}, {up_, 6}, {down_, 2}})
        kept.push_back(recorder.alloc(bytes * kMega, stack));
    }
    std::vector<int64_t> logits{recorder.alloc(16 * kMega, loss_),
                                recorder.alloc(16 * kMega, loss_)};
    logits.push_back(recorder.alloc(16 * kMega));  // backward has no Python frames
    recorder.free(logits);
    while (!kept.empty()) {
      gradients_.push_back(recorder.alloc(kMega));
      const int64_t temporary = recorder.alloc(2 * kMega);
      recorder.free(kept.back());
      kept.pop_back();
      recorder.free(temporary);
    }
    if (state_.empty())
      for (size_t i = 0; i < 2 * parameters_.size(); ++i)
        state_.push_back(recorder.alloc(kMega, state_made_));
    std::vector<int64_t> temporaries;
    for (size_t i = 0; i < parameters_.size(); ++i)
      temporaries.push_back(recorder.alloc(kMega, update_));
    recorder.free(temporaries, update_);
    if (leaks) recorder.alloc(300'000, leak_);
  }
  DeviceFindings findings() const { return examine(recorder.snapshot()).at(0); }

  Recorder recorder;
  bool leaks = false;

  StackId layer(const std::string& module, int64_t line) {
    return recorder.stack({torch_frame("nn/modules/" + module + ".py", "forward"),
                           {"model.py", "forward", line},
                           torch_frame("nn/modules/module.py", "_call_impl"),
                           model_line_,
                           torch_frame("nn/modules/module.py", "_call_impl"),
                           kMain});
  }
  const Frame model_line_{"model.py", "forward", 99};
  StackId setup_ = recorder.stack({torch_frame("nn/modules/linear.py", "__init__"), kMain});
  StackId norm_ = layer("normalization", 20), up_ = layer("linear", 21),
          down_ = layer("linear", 22);
  StackId loss_ = recorder.stack({torch_frame("nn/functional.py", "cross_entropy"), kMain});
  StackId state_made_ = recorder.stack({torch_frame("optim/adam.py", "_init_group"), kMain});
  StackId update_ = recorder.stack({torch_frame("optim/adam.py", "_multi_tensor_adam"), kMain});
  StackId zero_grad_ = recorder.stack({torch_frame("optim/optimizer.py", "zero_grad"), kMain});
  StackId leak_ = recorder.stack({{"train.py", "keep", 60}, kMain});

 private:
  std::vector<int64_t> parameters_, gradients_, state_;
};

int64_t bytes_of(const PeakFindings& peak, Owner owner) {
  return peak.bytes[static_cast<size_t>(owner)];
}

TEST(Findings, PeakHasItsOwners) {
  Training t;
  t.setup();
  for (int i = 0; i < 4; ++i) t.step();
  const DeviceFindings d = t.findings();
  EXPECT_EQ(d.steps_from, StepsFrom::optimizer);
  EXPECT_EQ(d.least_in_step.size(), 4U);
  EXPECT_EQ(d.peak.allocated, 124 * kMega);
  EXPECT_EQ(d.peak.phase, Phase::backward);
  EXPECT_EQ(bytes_of(d.peak, Owner::parameters), 12 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::optimizer), 24 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::activations), 72 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::temporaries), 16 * kMega);
  EXPECT_EQ(d.peak.known(), 1.0);
  EXPECT_EQ(d.peak.shares.at(0).bytes, 32 * kMega);
  EXPECT_THAT(d.peak.shares.at(2).label, HasSubstr("Linear, model.py:21 forward"));
  EXPECT_TRUE(d.leaks.empty());
  int64_t gradients = 0;
  for (const LiveBlock& b : d.blocks)
    if (b.at_end && b.owner == Owner::gradients) gradients += b.bytes;
  EXPECT_EQ(gradients, 12 * kMega) << "they live until the next step drops them";
}

TEST(Findings, OwnersWithoutFramesUseLifetimes) {
  Training t;
  t.setup();
  for (int i = 0; i < 5; ++i) t.step();
  for (Event& e : t.recorder.trace()) e.stack = 0;
  Snapshot bare = t.recorder.snapshot();
  for (Segment& segment : bare.devices[0].segments)
    for (Block& block : segment.blocks) block.stack = 0;
  const DeviceFindings d = examine(bare).at(0);
  EXPECT_FALSE(d.has_frames);
  EXPECT_EQ(d.steps_from, StepsFrom::repetition);
  EXPECT_EQ(bytes_of(d.peak, Owner::parameters), 12 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::optimizer), 24 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::activations), 88 * kMega);
}

TEST(Findings, AllocationsBeforeTraceAreSplitBySize) {
  Training t;
  t.setup();
  t.step();
  const auto before = static_cast<std::ptrdiff_t>(t.recorder.trace().size());
  for (int i = 0; i < 3; ++i) t.step();
  auto& trace = t.recorder.trace();
  trace.erase(trace.begin(), trace.begin() + before);
  Snapshot late = t.recorder.snapshot();
  for (Segment& segment : late.devices[0].segments)
    for (Block& block : segment.blocks) block.stack = 0;
  const DeviceFindings d = examine(late).at(0);
  EXPECT_EQ(bytes_of(d.peak, Owner::parameters), 12 * kMega);
  EXPECT_EQ(bytes_of(d.peak, Owner::optimizer), 24 * kMega);
  EXPECT_EQ(d.peak.known(), 1.0);
}

TEST(Findings, GrowthOfEveryStepIsLeak) {
  Training t;
  t.leaks = true;
  t.setup();
  for (int i = 0; i < 5; ++i) t.step();
  const DeviceFindings d = t.findings();
  ASSERT_EQ(d.leaks.size(), 1U);
  EXPECT_EQ(d.leaks[0].label, "train.py:60 keep");
  EXPECT_EQ(d.leaks[0].count, 3) << "of the steps between the first and the last";
  EXPECT_EQ(growth_per_step(d), 300'032);
}

TEST(Findings, FailedAllocation) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) t.step();
  t.recorder.oom(64 * kMega, 3 * kMega, t.up_);
  const DeviceFindings d = t.findings();
  ASSERT_TRUE(d.oom);
  EXPECT_EQ(d.oom->asked, 64 * kMega);
  EXPECT_EQ(d.oom->device_free, 3 * kMega);
  EXPECT_EQ(d.oom->allocated, 48 * kMega);
  EXPECT_EQ(d.oom->held.largest, 16 * kMega);
  EXPECT_EQ(d.oom->phase, Phase::forward);
  EXPECT_TRUE(d.oom->expandable_would_do) << "102 MiB of segments are free, in small ones";
}

TEST(Findings, RemediesReplayTheTrace) {
  Training t;
  t.setup();
  for (int i = 0; i < 3; ++i) t.step();
  const DeviceFindings d = t.findings();
  const auto peak_with = [&](const std::string& name) {
    for (const Remedy& r : d.remedies)
      if (r.name == name) return r.peak / kMega;
    return int64_t{-1};
  };
  // 36 MiB stay; of 88 a half goes.
  EXPECT_EQ(peak_with("half the batch"), 36 + 44);
  EXPECT_EQ(peak_with("optimizer state offloaded"), 100);
  // Each layer keeps the 2 MiB of its last line; the logits' 48 MiB decide.
  EXPECT_EQ(peak_with("checkpointing"), 36 + 4 * 2 + 48);
  EXPECT_EQ(peak_with("chunked loss"), 36 + 40 + 6 + 1) << "with another gradient of the head";
  EXPECT_EQ(peak_with("fused optimizer"), -1) << "the peak is not in the update";
}

}  // namespace
}  // namespace snug::pytorch

// A kernel that fails on the device: the failure names where the device was. A context does not
// survive that, so each happens in a process of its own.
#include <cstdio>
#include <cstdlib>

#include "gpu_train/gpu_run.h"
#include "gpu_train/trap.h"
#include "hal/device_failure.h"
#include "ir/builder.h"
#include "ir/verifier.h"
#include "passes/passes.h"
#include "placement/placement.h"

namespace snug {
namespace {

const OpDef kTrap{.kind = "trap",
                  .inputs = {"x"},
                  .outputs = {"y"},
                  .infer = [](const OpView& op) -> std::vector<Type> { return {op.in(0)}; },
                  .kernels = {{Backend::cuda, Dtype::f32, trap_cuda}}};

// x -> layers.0.copy -> layers.1.copy -> y, of which the one in layer 1 is armed.
Module two_layers() {
  const Type vector{Dtype::f32, {64}};
  Module module{.name = "two layers"};
  ValueId at = add_shared(module, "x", vector, Category::inputs, Scope::step);
  const ValueId end = add_shared(module, "y", vector, Category::activations, Scope::step);
  Builder b(module, "forward");
  for (int32_t i = 0; i < 2; ++i) {
    const auto layer = b.layer(i, fmt::format("layers.{}", i));
    at = b.emit(kTrap, "copy", {at}, {{"armed", int64_t{i}}})[0];
  }
  b.emit_into(kTrap, "end", {at}, end, {{"armed", int64_t{0}}});
  module.step = {{1, {"forward"}}};
  schedule(module, Backend::cuda);
  place(module);
  verify(module, Backend::cuda);
  return module;
}

// Runs the program well `before` times, then so that it fails. The process ends as snug would.
[[noreturn]] void fail_after(int before, bool observed) {
  const Module module = two_layers();
  Executor executor(module, gpu());
  const ValueId x = executor.shared("x");
  if (observed) executor.observe = [](size_t, size_t) {};
  executor.zero(x);
  const std::vector<float> negative(64, -1.0F);
  int code = 0;
  try {
    for (int i = 0; i < before; ++i) executor.run("forward");
    gpu().synchronise();
    executor.write(x, std::as_bytes(std::span(negative)));
    executor.run("forward");
    gpu().synchronise();
  } catch (const DeviceFailure& failure) {
    std::fputs(
        fmt::format("{}; the device was {}\n", failure.what(), executor.last_place()).c_str(),
        stderr);
    code = static_cast<int>(failure.code());
  }
  std::_Exit(code);  // nothing that the device holds can be given back any more
}

class GpuFaultDeathTest : public OnGpu {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    OnGpu::SetUp();
  }
};

constexpr int kDevice = static_cast<int>(ExitCode::device);
constexpr const char* kNamed =
    "CUDA failed while .*the device was at or after trap 'layers.1.copy' \\(layer 1\\) in forward";

TEST_F(GpuFaultDeathTest, FailureInFirstRunNamesLayer) {
  EXPECT_EXIT(fail_after(0, false), ::testing::ExitedWithCode(kDevice), kNamed);
}

TEST_F(GpuFaultDeathTest, FailureInReplayNamesLayer) {
  EXPECT_EXIT(fail_after(3, false), ::testing::ExitedWithCode(kDevice), kNamed);
}

TEST_F(GpuFaultDeathTest, FailureUnderObservationNamesOp) {
  EXPECT_EXIT(fail_after(0, true), ::testing::ExitedWithCode(kDevice), kNamed);
}

}  // namespace
}  // namespace snug

#include "runtime/batches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <list>

namespace snug {
namespace {

using ::testing::ElementsAre;

// Calls over one piece of memory, given as places in it.
class Batches : public ::testing::Test {
 protected:
  // Reads 8 floats at `read` and writes 8 at `written`.
  void call(const Kernel& kernel, size_t read, size_t written, const int32_t* predicate = nullptr,
            std::span<std::byte> workspace = {}) {
    add(&kernel, read, written, predicate, workspace);
  }
  void moved(size_t read, size_t written) { add(nullptr, read, written, nullptr, {}); }
  void add(const Kernel* kernel, size_t read, size_t written, const int32_t* predicate,
           std::span<std::byte> workspace) {
    tensors_.push_back({{Tensor{&memory_[read], &type_}, {&memory_[written], &type_}}});
    kernels_.push_back(kernel);
    const std::span<const Tensor> both(tensors_.back());
    calls_.push_back(
        {both.first(1), both.last(1), workspace, attrs_, /*stream=*/nullptr, predicate});
  }
  std::vector<size_t> sizes(const Order* order = nullptr) const {
    return batch_sizes(kernels_, calls_, order);
  }
  std::span<std::byte> floats(size_t first, size_t count) {
    return std::as_writable_bytes(std::span(memory_).subspan(first, count));
  }

  const Kernel many_{.backend = Backend::cuda,
                     .dtype = Dtype::f32,
                     .run = nullptr,
                     .run_many = [](std::span<const KernelArgs>) {}};
  const Kernel other_ = many_;
  const Kernel single_{.backend = Backend::cuda, .dtype = Dtype::f32, .run = nullptr};
  const std::array<int32_t, 2> flags_{};

 private:
  std::array<float, 256> memory_{};
  const Type type_{Dtype::f32, {8}};
  const Attrs attrs_{};
  std::list<std::array<Tensor, 2>> tensors_;
  std::vector<const Kernel*> kernels_;
  std::vector<KernelArgs> calls_;
};

TEST_F(Batches, FollowOneAnotherInOneKernel) {
  for (size_t i = 0; i < 3; ++i) call(many_, 200, 16 * i);
  call(other_, 200, 64);
  call(single_, 200, 80);
  call(single_, 200, 96);
  for (size_t i = 0; i < 2; ++i) call(many_, 200, 112 + 16 * i);
  EXPECT_THAT(sizes(), ElementsAre(3, 1, 1, 1, 1, 1, 2, 1));
}

TEST_F(Batches, MayShareInputsAndWriteInPlace) {
  for (size_t i : {0, 8, 16}) call(many_, i, i);  // neighbours
  call(many_, 100, 24);
  call(many_, 104, 32);  // half of what the call before reads
  EXPECT_THAT(sizes(), ElementsAre(5, 1, 1, 1, 1));
}

TEST_F(Batches, EndBeforeReaderOfTheirOutputs) {
  call(many_, 200, 0);
  call(many_, 208, 16);
  call(many_, 7, 32);  // one float of the first one's
  EXPECT_EQ(sizes()[0], 2U);
}

TEST_F(Batches, EndBeforeWriterOfTheirValues) {
  call(many_, 200, 0);
  call(many_, 100, 207);
  call(many_, 100, 214);
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1));
}

TEST_F(Batches, DoNotShareAWorkspace) {
  call(many_, 200, 0, nullptr, floats(64, 4));
  call(many_, 200, 8, nullptr, floats(68, 4));
  call(many_, 200, 16, nullptr, floats(67, 1));
  EXPECT_THAT(sizes(), ElementsAre(2, 1, 1));
}

// Calls that touch nothing of each other's: [lane, what it waits for].
TEST_F(Batches, DoNotCrossLanesOrWaits) {
  const Module module;
  Program program{.name = "p"};
  const auto add = [&](const char* name, const char* lane, std::vector<std::string> after = {}) {
    program.ops.push_back({.name = name, .lane = lane, .after = std::move(after)});
    call(many_, 200, 8 * program.ops.size());
  };
  add("fetch0", "copy_in");
  add("fetch1", "copy_in");
  add("update0", "compute", {"fetch0"});
  add("update1", "compute", {"fetch1"});
  add("update2", "compute");
  add("update3", "compute", {"fetch0"});  // which the lane has waited for
  add("back0", "copy_out", {"update0"});
  const Order order(module, program);
  EXPECT_THAT(sizes(&order), ElementsAre(2, 1, 1, 3, 1, 1, 1));
  EXPECT_EQ(sizes()[0], 7U) << "on one lane";
}

TEST_F(Batches, LeaveOutCallsWithoutAKernel) {
  call(many_, 200, 0);
  moved(200, 16);
  moved(200, 32);
  call(many_, 200, 48);
  EXPECT_THAT(sizes(), ElementsAre(1, 1, 1, 1));
}

TEST_F(Batches, HaveOnePredicate) {
  call(many_, 200, 0, flags_.data());
  call(many_, 200, 16, flags_.data());
  call(many_, 200, 32, &flags_[1]);
  call(many_, 200, 48);
  EXPECT_THAT(sizes(), ElementsAre(2, 1, 1, 1));
}

}  // namespace
}  // namespace snug

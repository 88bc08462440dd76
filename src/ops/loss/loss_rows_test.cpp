// Losses and gradients of rows in one sweep over the rows, against those of two sweeps; skipped
// where there is no GPU.
#ifdef SNUG_CUDA
#include "ops/loss/loss_rows.h"

#include <gtest/gtest.h>

#include "base/rng.h"
#include "hal/cuda/cuda_error.h"
#include "hal/testing/needs_cuda.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

// Seen by the host and the device.
template <typename T>
class Array {
 public:
  explicit Array(int64_t size) : size_(static_cast<size_t>(size)) {
    cuda::check(cudaMallocManaged(&data_, size_ * sizeof(T)), "allocating {} numbers", size_);
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return static_cast<T*>(data_); }
  size_t size() const { return size_; }
  T& operator[](size_t i) const { return data()[i]; }

 private:
  size_t size_;
  void* data_ = nullptr;
};

// Within +-8; a prime number of them repeats, so that rows and their vectors differ. Gaps
// between rows are NaN.
template <typename T>
void fill(const Array<T>& logits, int64_t V, int64_t stride) {
  std::vector<T> some(65'537);
  for (size_t i = 0; i < some.size(); ++i) store(some[i], 16 * unit_float(philox(7, i)[0]) - 8);
  size_t next = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<int64_t>(i) % stride < V)
      logits[i] = some[next++ % some.size()];
    else
      store(logits[i], NAN);
  }
}

// Every fifth row does not count; the others' targets walk through the row, its ends included.
void fill_targets(const Array<int32_t>& targets, int64_t V) {
  for (size_t r = 0; r < targets.size(); ++r) {
    const auto target =
        static_cast<int64_t>(r) * (V - 1) / static_cast<int64_t>(targets.size() - 1);
    targets[r] = r % 5 == 3 ? -1 : static_cast<int32_t>(target);
  }
}

void expect_losses(const Array<double>& are, const Array<double>& should) {
  for (size_t r = 0; r < are.size(); ++r)
    ASSERT_NEAR(are[r], should[r], 1e-5 * (1 + should[r])) << "row " << r;
}

// One sweep over rows `gap` logits apart, two over rows without gaps.
template <typename T>
void check_rows(Dtype dtype, int64_t rows, int64_t V, double rounding, int64_t gap = 0) {
  SCOPED_TRACE(fmt::format("{} rows of {} in {}, {} apart", rows, V, name_of(dtype), gap));
  const int64_t stride = V + gap;
  const Array<T> one(rows * stride), two(rows * V);
  const Array<int32_t> targets(rows);
  const Array<double> one_losses(rows), two_losses(rows);
  const Array<float> lse(rows), dloss(1);
  fill(one, V, stride);
  fill(two, V, V);
  fill_targets(targets, V);
  dloss[0] = 0.5F;

  LossRows p{.logits = two.data(),
             .targets = targets.data(),
             .dloss = dloss.data(),
             .losses = two_losses.data(),
             .lse = lse.data(),
             .rows = rows,
             .V = V,
             .stride = V,
             .dtype = dtype};
  loss_of_rows(p, nullptr);
  gradient_of_rows(p, two.data(), nullptr);
  p.logits = one.data();
  p.losses = one_losses.data();
  p.lse = nullptr;
  p.stride = stride;
  loss_of_rows(p, nullptr);
  cuda::check(cudaDeviceSynchronize(), "making losses");
  expect_losses(one_losses, two_losses);
  loss_and_gradient_of_rows(p, nullptr);
  cuda::check(cudaDeviceSynchronize(), "making losses");

  expect_losses(one_losses, two_losses);
  for (size_t i = 0; i < two.size(); ++i) {
    const size_t row = i / static_cast<size_t>(V), v = i % static_cast<size_t>(V);
    const float is = one[row * static_cast<size_t>(stride) + v], should = two[i];
    // p - 1 may be much smaller than both.
    const double cancelled = targets[row] == static_cast<int32_t>(v) ? 2e-6 : 0;
    if (std::abs(is - should) <= rounding * std::abs(should) + cancelled) continue;
    FAIL() << is << " for " << should << " in row " << row << ", logit " << v;
  }
}

}  // namespace

// Twice as many rows as a GPU has multiprocessors, and more: they follow one another in a block.
// Of one vector, of as many as threads hold, of one more, of a 0.5B model, and the longest.
TEST(CudaLossRows, MatchTwoSweeps) {
  SNUG_NEEDS_CUDA;
  for (const int64_t V : {8, 8'192, 40'960, 40'968, 151'936, 155'648})
    check_rows<Bf16>(Dtype::bf16, 300, V, 1.0 / 100);
  for (const int64_t V : {4, 20'480, 77'824}) check_rows<float>(Dtype::f32, 300, V, 1e-4);
  // Fewer than multiprocessors; logits one by one; too long to be held.
  check_rows<Bf16>(Dtype::bf16, 2, 151'936, 1.0 / 100);
  check_rows<Bf16>(Dtype::bf16, 9, 50'257, 1.0 / 100);
  check_rows<Bf16>(Dtype::bf16, 9, 256'000, 1.0 / 100);
}

// Whose last vector they do not fill: of one logit, of all but one, held and too long to be.
TEST(CudaLossRows, MayHaveGapsBetweenThem) {
  SNUG_NEEDS_CUDA;
  check_rows<Bf16>(Dtype::bf16, 300, 1, 1.0 / 100, 63);
  check_rows<Bf16>(Dtype::bf16, 300, 50'257, 1.0 / 100, 47);
  check_rows<Bf16>(Dtype::bf16, 300, 30'522, 1.0 / 100, 6);
  check_rows<Bf16>(Dtype::bf16, 9, 255'999, 1.0 / 100, 1);
  check_rows<float>(Dtype::f32, 300, 50'257, 1e-4, 15);
  check_rows<float>(Dtype::f32, 9, 151'935, 1e-4, 1);
}

}  // namespace snug::ops
#endif

// GEMMs and sums over rows on a GPU, against plain ones; skipped where there is none.
#include "kernels/cuda/gemm.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

#include "base/rng.h"
#include "hal/cuda/cuda_error.h"
#include "hal/testing/needs_cuda.h"
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/gemm_cache.h"
#include "kernels/cuda/gemm_plain.h"
#include "kernels/cuda/gemm_plan.h"
#include "kernels/cuda/gemm_waves.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

namespace fs = std::filesystem;

// Numbers of one type on the device.
class Array {
 public:
  Array(Dtype dtype, int64_t size, const char* name = "") : dtype_(dtype), size_(size) {
    cuda::check(cudaMalloc(&data_, bytes()), "allocating {} bytes", bytes());
    std::vector<std::byte> content(bytes());
    visit_float(dtype, [&](auto zero) {
      auto* numbers = reinterpret_cast<decltype(zero)*>(content.data());
      for (size_t i = 0; i < static_cast<size_t>(size); ++i)
        store(numbers[i], unit_float(philox(hash_name(name), i)[0]) - 0.5F);
    });
    cuda::check(cudaMemcpy(data_, content.data(), bytes(), cudaMemcpyHostToDevice), "copying");
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  void* data() const { return data_; }
  std::vector<float> read() const {
    std::vector<std::byte> content(bytes());
    cuda::check(cudaMemcpy(content.data(), data_, bytes(), cudaMemcpyDeviceToHost), "copying");
    std::vector<float> numbers;
    visit_float(dtype_, [&](auto zero) {
      const auto* from = reinterpret_cast<const decltype(zero)*>(content.data());
      numbers.assign(from, from + size_);
    });
    return numbers;
  }

 private:
  size_t bytes() const { return static_cast<size_t>(size_ * size_of(dtype_)); }
  Dtype dtype_;
  int64_t size_;
  void* data_ = nullptr;
};

struct Adds {
  bool bias = false, sum = false, in_place = false;
};
constexpr Adds kAllAdds[] = {{}, {true}, {false, true}, {false, true, true}, {true, true, true}};

struct Case {
  int64_t m, n, k;
  Dtype in, out;
  bool transpose_a = false, transpose_b = false;
  Adds adds = {};
  Math math = {};
  int64_t gap = 0;   // elements between the rows of a, and of c and sum
  int64_t rows = 0;  // the first so many apart from the others
};

void expect_near(const std::vector<float>& is, const std::vector<float>& should, double relative) {
  ASSERT_EQ(is.size(), should.size());
  for (size_t i = 0; i < is.size(); ++i)
    ASSERT_NEAR(is[i], should[i], relative * (1 + std::abs(should[i]))) << "element " << i;
}

// Rows of `columns` elements, `gap` apart.
std::vector<float> without_gaps(const std::vector<float>& x, int64_t columns, int64_t gap) {
  std::vector<float> out;
  for (size_t i = 0; i < x.size(); ++i)
    if (static_cast<int64_t>(i) % (columns + gap) < columns) out.push_back(x[i]);
  return out;
}

double tolerance(const Case& t) {
  if (t.out == Dtype::f32) return t.math.tf32 ? 5e-3 : 1e-4;
  return t.out == Dtype::bf16 ? 1.0 / 128 : 1.0 / 1024;
}

// Prepared, then enqueued, against the plain kernel. Returns the time if it was timed.
std::optional<double> check_gemm(const Case& t) {
  const int64_t a_rows = t.transpose_a ? t.k : t.m, a_stride = (t.transpose_a ? t.m : t.k) + t.gap;
  const int64_t c_stride = t.n + t.gap, c_size = t.m * c_stride;
  const Array a(t.in, a_rows * a_stride, "a"), b(t.in, t.k * t.n, "b"), bias(t.out, t.n, "bias");
  const Array sum(t.out, c_size, "sum"), c(t.out, c_size), plain(t.out, c_size, "plain");
  const Array scratch(Dtype::f32, cuda_gemm_workspace(t.m, t.n, t.k) / 4);
  CudaGemm p{.m = t.m,
             .n = t.n,
             .k = t.k,
             .a_dtype = t.in,
             .b_dtype = t.in,
             .c_dtype = t.out,
             .a = a.data(),
             .b = b.data(),
             .c = plain.data(),
             .a_stride = t.gap > 0 ? a_stride : 0,
             .c_stride = t.gap > 0 ? c_stride : 0,
             .transpose_a = t.transpose_a,
             .transpose_b = t.transpose_b,
             .bias = t.adds.bias ? bias.data() : nullptr,
             .sum = t.adds.sum ? sum.data() : nullptr};
  plain_gemm(p, nullptr);

  p.c = t.adds.in_place ? sum.data() : c.data();
  p.workspace = {static_cast<std::byte*>(scratch.data()),
                 static_cast<size_t>(cuda_gemm_workspace(t.m, t.n, t.k))};
  prepare_gemm(p, t.math, nullptr);
  if (t.adds.in_place) {  // which preparing has written
    const Array fresh(t.out, c_size, "sum");
    cuda::check(cudaMemcpy(sum.data(), fresh.data(), static_cast<size_t>(c_size * size_of(t.out)),
                           cudaMemcpyDeviceToDevice),
                "copying");
  }
  if (!t.adds.in_place) {
    const auto bytes = static_cast<size_t>(c_size * size_of(t.out));
    cuda::check(cudaMemset(c.data(), 0, bytes), "clearing what preparing has written");
  }
  if (t.rows > 0) cuda_gemm(rows_of(p, 0, t.rows), t.math, nullptr);
  cuda_gemm(t.rows > 0 ? rows_of(p, t.rows, t.m - t.rows) : p, t.math, nullptr);
  expect_near(without_gaps(t.adds.in_place ? sum.read() : c.read(), t.n, t.gap),
              without_gaps(plain.read(), t.n, t.gap), tolerance(t));
  return tuned_ms(p, t.math);
}

// As an earlier run would have left it: a line that says that the GEMM is made in two parts.
constexpr double kCachedMs = 0.125;
void cache_in_two_parts(const Case& t, int64_t rows) {
  const Array scratch(Dtype::f32, kCudaGemmWorkspace / 4);
  const CudaGemm p{.m = t.m,
                   .n = t.n,
                   .k = t.k,
                   .a_dtype = t.in,
                   .b_dtype = t.in,
                   .c_dtype = t.out,
                   .c = scratch.data(),
                   .transpose_a = t.transpose_a,
                   .transpose_b = t.transpose_b,
                   .workspace = {static_cast<std::byte*>(scratch.data()),
                                 static_cast<size_t>(kCudaGemmWorkspace)}};
  const GemmKey key = GemmKey::of(p, t.math);
  const auto first = GemmPlan(key, p).candidates(1);
  ASSERT_FALSE(first.empty());
  GemmCache(gemm_cache_path(device_facts().name, cublaslt().GetVersion()))
      .put(key.text(), {std::to_array(first[0].data), kCachedMs, rows});
}

constexpr std::pair<Dtype, Dtype> kTypes[] = {{Dtype::f32, Dtype::f32},
                                              {Dtype::bf16, Dtype::bf16},
                                              {Dtype::f16, Dtype::f16},
                                              {Dtype::bf16, Dtype::f32},
                                              {Dtype::f16, Dtype::f32}};

void check_all_kinds(int64_t m, int64_t n, int64_t k, int64_t gap = 0) {
  for (const auto& [in, out] : kTypes) {
    for (const int transposes : {0, 1, 2, 3}) {
      for (const Adds& adds : kAllAdds) {
        SCOPED_TRACE(fmt::format("{}x{}x{} {} -> {}, transposes {}, bias {}, sum {}, in place {}",
                                 m, n, k, name_of(in), name_of(out), transposes, adds.bias,
                                 adds.sum, adds.in_place));
        check_gemm({m, n, k, in, out, (transposes & 1) != 0, (transposes & 2) != 0, adds, {}, gap});
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace

// What was timed before GEMMs knew strides is found again.
TEST(GemmKey, NamesOnlyGappedStrides) {
  alignas(256) std::byte c[1];
  CudaGemm p{.m = 6, .n = 5, .k = 4, .c = c, .transpose_a = true};
  const GemmKey dense = GemmKey::of(p, {});
  const std::string text = dense.text();
  EXPECT_EQ(text, "6x5x4 bf16 bf16 bf16 tn align 256 workspace 0");
  p.a_stride = 6;
  p.c_stride = 5;
  EXPECT_TRUE(GemmKey::of(p, {}) == dense);
  p.c_stride = 64;
  EXPECT_EQ(GemmKey::of(p, {}).text(), text + " c-stride 64");
  p.a_stride = 8;
  EXPECT_EQ(GemmKey::of(p, {}).text(), text + " a-stride 8 c-stride 64");
}

TEST(CudaGemm, EveryKindAtEvenSizes) {
  SNUG_NEEDS_CUDA;
  check_all_kinds(96, 80, 64);
}

TEST(CudaGemm, EveryKindAtOddSizes) {
  SNUG_NEEDS_CUDA;
  check_all_kinds(37, 29, 41);
  check_all_kinds(1, 5, 8);
}

TEST(CudaGemm, EveryKindWithGapsBetweenRows) {
  SNUG_NEEDS_CUDA;
  check_all_kinds(37, 29, 41, 7);
}

TEST(CudaGemm, SplitRowsMatchWhole) {
  SNUG_NEEDS_CUDA;
  for (const Adds& adds : kAllAdds) {
    for (const int64_t gap : {0, 8})
      check_gemm({96, 80, 64, Dtype::bf16, Dtype::f32, false, true, adds, {}, gap, /*rows=*/64});
  }
}

TEST(CudaGemm, TimesLargeGemmsAndCachesResult) {
  SNUG_NEEDS_CUDA;
  const fs::path folder =
      fs::path(::testing::TempDir()) / ("snug-gemm-" + std::to_string(getpid()));
  setenv("XDG_CACHE_HOME", folder.c_str(), 1);
  cache_in_two_parts({640, 648, 512, Dtype::bf16, Dtype::bf16, false, true}, /*rows=*/384);
  EXPECT_EQ(check_gemm({640, 648, 512, Dtype::bf16, Dtype::bf16, false, true}), kCachedMs);
  for (const Adds& adds : kAllAdds) {
    EXPECT_TRUE(check_gemm({640, 520, 512, Dtype::bf16, Dtype::bf16, false, true, adds}));
    EXPECT_FALSE(check_gemm(
        {640, 520, 512, Dtype::bf16, Dtype::bf16, false, true, adds, {.deterministic = true}}));
  }
  EXPECT_TRUE(check_gemm({640, 520, 512, Dtype::bf16, Dtype::f32, true, false, {false, true}}));
  EXPECT_TRUE(check_gemm({640, 520, 512, Dtype::f32, Dtype::f32, true, false, {}, {.tf32 = true}}));
  EXPECT_TRUE(
      check_gemm({640, 521, 512, Dtype::bf16, Dtype::bf16, false, true, {}, {}, /*gap=*/55}));
  EXPECT_TRUE(
      check_gemm({521, 640, 512, Dtype::bf16, Dtype::bf16, true, false, {}, {}, /*gap=*/55}));
  EXPECT_TRUE(fs::exists(folder / "snug"));
  fs::remove_all(folder);
}

TEST(CudaColumnSum, AddsRows) {
  SNUG_NEEDS_CUDA;
  struct {
    int64_t rows, columns, gap;
  } const shapes[] = {{1, 1, 0},       {1, 8, 0},       {37, 29, 0},     {37, 29, 3},
                      {3000, 1152, 0}, {500, 70001, 0}, {500, 70001, 15}};
  for (const auto& [rows, columns, gap] : shapes) {
    for (const auto& [in, out] : kTypes) {
      SCOPED_TRACE(
          fmt::format("[{},{}] {} apart {} -> {}", rows, columns, gap, name_of(in), name_of(out)));
      const Array x(in, rows * (columns + gap), "x"), sum(out, columns, "sum");
      const Array scratch(Dtype::f32, cuda_column_sum_scratch(rows, columns) / 4);
      std::vector<float> should = sum.read();
      const std::vector<float> numbers = without_gaps(x.read(), columns, gap);
      for (size_t i = 0; i < numbers.size(); ++i)
        should[i % static_cast<size_t>(columns)] += numbers[i];
      cuda_column_sum({.x = x.data(),
                       .add = sum.data(),
                       .sum = sum.data(),
                       .scratch = scratch.data(),
                       .rows = rows,
                       .columns = columns,
                       .x_stride = columns + gap,
                       .x_dtype = in,
                       .sum_dtype = out},
                      nullptr);
      expect_near(sum.read(), should, out == Dtype::bf16 ? 1.0 / 128 : 1.0 / 1024);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace snug::ops

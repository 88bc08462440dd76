// One kind of GEMM as cuBLASLt knows it: what it depends on, its descriptors, and the algorithms
// that may serve it. Row-major c = a b is column-major c^T = b^T a^T, so the factors change places.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/gemm.h"

namespace snug::ops {

// All that the choice of an algorithm may depend on.
struct GemmKey {
  int64_t m = 0, n = 0, k = 0;
  Dtype a = Dtype::bf16, b = Dtype::bf16, c = Dtype::bf16;
  bool transpose_a = false, transpose_b = false;
  bool bias = false, sum = false, in_place = false;
  bool tf32 = false, deterministic = false;
  bool part = false;
  int64_t alignment = 256;  // bytes that the address of every array is a multiple of, at most 256
  int64_t workspace = 0;    // bytes that the algorithm may use
  int64_t a_stride = 0, b_stride = 0, c_stride = 0;  // of rows with gaps between them, 0 without

  static GemmKey of(const CudaGemm& p, const Math& math);
  std::string text() const;
  auto operator<=>(const GemmKey&) const = default;  // NOLINT: clang-tidy 14 sees a 0 in it
};

class GemmPlan {
 public:
  // `p` is any GEMM of this kind: the library reads off the bias how it is aligned.
  GemmPlan(const GemmKey& key, const CudaGemm& p);

  // The heuristic's, best first, within the workspace. Empty: the library does not take this kind.
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const;
  // Can this algorithm, perhaps from another run of Snug, serve the GEMM?
  bool accepts(const cublasLtMatmulAlgo_t& algorithm) const;

  // Enqueues. Not for two threads at once: the bias is part of the descriptor.
  cublasStatus_t run(const CudaGemm& p, const cublasLtMatmulAlgo_t& algorithm, void* stream);

 private:
  struct Destroy {
    void operator()(cublasLtMatmulDesc_t p) const;
    void operator()(cublasLtMatrixLayout_t p) const;
    void operator()(cublasLtMatmulPreference_t p) const;
  };
  template <typename Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy>;

  Owned<cublasLtMatrixLayout_t> layout(Dtype dtype, int64_t rows, int64_t columns,
                                       int64_t stride = 0) const;
  Owned<cublasLtMatmulPreference_t> preference() const;
  template <typename T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value);

  GemmKey key_;
  Owned<cublasLtMatmulDesc_t> desc_;
  Owned<cublasLtMatrixLayout_t> left_, right_, result_;  // b, a and c
};

}  // namespace snug::ops

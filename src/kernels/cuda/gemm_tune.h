// Times the algorithms that may serve a GEMM, as it will be used: its real epilogue and sum.
// Operands at training shapes exceed the caches, so launches back to back find them cold; small
// GEMMs are not worth timing.
#pragma once

#include <functional>
#include <optional>
#include <utility>

#include "kernels/cuda/gemm_plan.h"

namespace snug::ops {

struct TimedAlgorithm {
  cublasLtMatmulAlgo_t algorithm = {};
  double ms = 0;
};

// The fastest; nothing where the library runs none. Takes about 3 s, a quarter of one when quick,
// and writes c.
std::optional<TimedAlgorithm> fastest_algorithm(GemmPlan& plan, const CudaGemm& p, bool quick,
                                                void* stream);

// What one and the other take that do the same work, each alone for long and several times; they
// enqueue it, which takes about so many milliseconds.
std::pair<double, double> compare_sustained_ms(const std::function<void()>& one,
                                               const std::function<void()>& other, double about_ms,
                                               void* stream);

}  // namespace snug::ops

// A result is made in tiles, as many at a time as there are multiprocessors, and the last wave of
// them may be nearly empty. 4096 x 3584 is 448 tiles of 128 x 256, on 132 multiprocessors 3.4 waves
// that take as long as four; tiles of half the size fill the chip better and are less efficient.
// 3584 of the rows fill three waves of large tiles (392), and the 512 beyond one of small ones.
//
//   rows_of_whole_waves(4096, 3584, 132)   // 3584
#pragma once

#include <cstdint>

#include "kernels/cuda/gemm.h"

namespace snug::ops {

// How many of the first rows fill whole waves so well that two GEMMs promise to be faster than
// one; 0 where none do.
int64_t rows_of_whole_waves(int64_t m, int64_t n, int64_t multiprocessors);

// `count` rows of a GEMM from row `first` on; a is not transposed.
CudaGemm rows_of(const CudaGemm& p, int64_t first, int64_t count);

}  // namespace snug::ops

#include "kernels/cpu/typed_gemm.h"

#include <algorithm>
#include <type_traits>

#include "base/units.h"
#include "kernels/cpu/gemm.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

// The most rows and columns of a block that is widened in scratch: 4 MiB as floats.
constexpr int64_t kBlock = 1024;
constexpr int64_t kScratchAlign = 64;

// Where the widened blocks are in the scratch, in bytes. All of it is used by the first block of C,
// and a smaller GEMM never needs more.
struct Scratch {
  int64_t b = 0, c = 0, end = 0;  // that of A is at 0
};

Scratch scratch_of(int64_t m, int64_t n, int64_t k, const GemmTypes& types) {
  Scratch s;
  const auto place = [&](Dtype dtype, int64_t rows, int64_t columns) {
    if (dtype == Dtype::f32) return s.end;
    const int64_t at = round_up(s.end, kScratchAlign);
    s.end = at + std::min(rows, kBlock) * std::min(columns, kBlock) * size_of(Dtype::f32);
    return at;
  };
  place(types.a, m, k);
  s.b = place(types.b, k, n);
  s.c = place(types.c, m, n);
  return s;
}

// A matrix as stored, of any float type; and one of f32.
struct Stored {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int64_t ld = 0;
};
struct Floats {
  float* data = nullptr;
  int64_t ld = 0;
};

// Rows [row, row + rows) and columns [column, column + columns) of a matrix as stored.
struct Block {
  int64_t row = 0, column = 0, rows = 0, columns = 0;

  Block transposed() const { return {column, row, columns, rows}; }
  bool operator==(const Block&) const = default;
  template <typename T>
  T* start(T* matrix, int64_t ld) const {
    return matrix + row * ld + column;
  }
};

// fn(r) for every row, on all threads where there is enough to do.
template <typename Fn>
void for_rows(const Block& block, const Fn& fn) {
  constexpr int64_t kWorthThreads = 1 << 14;
#pragma omp parallel for schedule(static) if (block.rows * block.columns >= kWorthThreads)
  for (int64_t r = 0; r < block.rows; ++r) fn(r);
}

void widen(const Stored& from, const Block& block, float* to) {
  visit_float(from.dtype, [&](auto zero) {
    const auto* first = block.start(static_cast<const decltype(zero)*>(from.data), from.ld);
    for_rows(block, [=, ld = from.ld, columns = block.columns](int64_t r) {
      const auto* in = first + r * ld;
      float* out = to + r * columns;
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<float>(in[i]);
    });
  });
}

// One operand: its blocks as floats, where they are or widened in scratch. The last one widened is
// kept, so that a block that is used again is not read again.
class Operand {
 public:
  Operand(const Stored& stored, bool transpose, std::byte* scratch)
      : stored_(stored), transpose_(transpose), scratch_(reinterpret_cast<float*>(scratch)) {}

  // `block` is of the matrix as multiplied; what is returned is as stored.
  Floats floats(Block block) {
    if (transpose_) block = block.transposed();
    if (stored_.dtype == Dtype::f32) {
      auto* data = static_cast<float*>(const_cast<void*>(stored_.data));
      return {block.start(data, stored_.ld), stored_.ld};
    }
    if (block != widened_) widen(stored_, block, scratch_);
    widened_ = block;
    return {scratch_, block.columns};
  }

 private:
  Stored stored_;
  bool transpose_;
  float* scratch_;
  Block widened_;
};

// What the GEMM is added to: sum, bias in every row, or both, as floats.
template <typename T>
void start_block(const TypedGemm& g, const Block& block, const Floats& to) {
  const T* bias = g.bias != nullptr ? static_cast<const T*>(g.bias) + block.column : nullptr;
  const T* sum = g.sum != nullptr ? block.start(static_cast<const T*>(g.sum), g.ldc) : nullptr;
  if (bias == nullptr && static_cast<const void*>(sum) == to.data) return;
  for_rows(block, [=, ldc = g.ldc, columns = block.columns](int64_t r) {
    const auto fill = [columns, out = to.data + r * to.ld](auto at) {
#pragma omp simd
      for (int64_t i = 0; i < columns; ++i) out[i] = at(i);
    };
    const T* row = sum + (sum != nullptr ? r * ldc : 0);
    if (bias == nullptr) {
      fill([=](int64_t i) { return static_cast<float>(row[i]); });
    } else if (sum == nullptr) {
      fill([=](int64_t i) { return static_cast<float>(bias[i]); });
    } else {
      fill([=](int64_t i) { return static_cast<float>(row[i]) + static_cast<float>(bias[i]); });
    }
  });
}

template <typename T>
void store_block(const TypedGemm& g, const Block& block, const Floats& from) {
  T* first = block.start(static_cast<T*>(g.c), g.ldc);
  for_rows(block, [=, ldc = g.ldc, columns = block.columns](int64_t r) {
    const float* in = from.data + r * from.ld;
    T* out = first + r * ldc;
#pragma omp simd
    for (int64_t i = 0; i < columns; ++i) store(out[i], in[i]);
  });
}

// One block of C from start to end: the sum over k is whole before anything is rounded.
template <typename T>
void multiply_block(const TypedGemm& g, const Block& block, int64_t k_step, Operand& a, Operand& b,
                    const Floats& c) {
  const bool starts = g.bias != nullptr || g.sum != nullptr;
  if (starts) start_block<T>(g, block, c);
  for (int64_t first = 0; first < g.k; first += k_step) {
    const int64_t k = std::min(k_step, g.k - first);
    const Floats left = a.floats({block.row, first, block.rows, k});
    const Floats right = b.floats({first, block.column, k, block.columns});
    gemm(Gemm{.m = block.rows,
              .n = block.columns,
              .k = k,
              .a = left.data,
              .b = right.data,
              .c = c.data,
              .lda = left.ld,
              .ldb = right.ld,
              .ldc = c.ld,
              .transpose_a = g.transpose_a,
              .transpose_b = g.transpose_b,
              .alpha = static_cast<float>(g.alpha),
              .accumulate = starts || first > 0});
  }
  if constexpr (!std::is_same_v<T, float>) store_block<T>(g, block, c);
}

// All of it where nothing is widened.
int64_t block_step(int64_t size, bool whole) { return whole ? size : std::min(size, kBlock); }

template <typename T>
void multiply(const TypedGemm& g) {
  const Scratch at = scratch_of(g.m, g.n, g.k, g.types);
  Operand a({g.a, g.types.a, g.lda}, g.transpose_a, g.scratch);
  Operand b({g.b, g.types.b, g.ldb}, g.transpose_b, g.scratch + at.b);
  auto* block_of_c = reinterpret_cast<float*>(g.scratch + at.c);
  const bool whole = at.end == 0;
  const int64_t rows = block_step(g.m, whole);
  const int64_t columns = block_step(g.n, whole);
  for (int64_t row = 0; row < g.m; row += rows) {
    for (int64_t column = 0; column < g.n; column += columns) {
      const Block block{row, column, std::min(rows, g.m - row), std::min(columns, g.n - column)};
      Floats c{block_of_c, block.columns};
      if constexpr (std::is_same_v<T, float>) c = {block.start(static_cast<T*>(g.c), g.ldc), g.ldc};
      multiply_block<T>(g, block, block_step(g.k, whole), a, b, c);
    }
  }
}

}  // namespace

int64_t gemm_scratch(int64_t m, int64_t n, int64_t k, const GemmTypes& types) {
  return scratch_of(m, n, k, types).end;
}

void typed_gemm(const TypedGemm& asked) {
  TypedGemm g = asked;
  if (g.lda == 0) g.lda = g.transpose_a ? g.m : g.k;
  if (g.ldb == 0) g.ldb = g.transpose_b ? g.k : g.n;
  if (g.ldc == 0) g.ldc = g.n;
  visit_float(g.types.c, [&](auto zero) { multiply<decltype(zero)>(g); });
}

}  // namespace snug::ops

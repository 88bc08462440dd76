// The 256 numbers in [-1, 1] that an 8-bit state can be, times its block's scale: fine near zero
// and near one at once (Dettmers et al. 2021). For each power 10^(i-6), i = 0..6, the midpoints of
// an even cut of [0.1, 1] into 2^i steps, with both signs (2^(i+1) without); and 0 and 1.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace snug::ops {

// The floats from -1 to 1 by their leading bits: 128 cells for each power of two. A float's key
// ascends with it; the key's upper bits are the number of its cell, negative for negative floats.
struct Cells {
  static constexpr int32_t kLowBits = 16, kLowMask = 0xFFFF;
  static constexpr int32_t kFirst = std::bit_cast<int32_t>(0x1p-23F);  // no bound is below
  static constexpr int32_t kLast = std::bit_cast<int32_t>(1.0F);
  static constexpr int32_t kCount = ((kLast - kFirst) >> kLowBits) + 1;  // of one sign

  // x in [-1, 1].
  static constexpr int32_t key(float x) {
    const auto bits = std::bit_cast<int32_t>(x);
    const int32_t magnitude = (bits & 0x7FFFFFFF) - kFirst;
    return (magnitude > 0 ? magnitude : 0) ^ (bits >> 31);
  }
};

struct Codebook {
  std::array<float, 256> values{};  // ascending
  std::array<float, 255> bounds{};  // halfway between neighbours
  // By cell, the negative ones first. A cell is narrower than the distance between two bounds, so
  // its floats have one code or two. The lower code is in the upper bits; the lower bits are
  // such that adding those of a key carries into the code where the key is above the bound.
  std::array<int32_t, 2 * Cells::kCount> cells{};
};

constexpr void fill_values(Codebook& book, bool has_sign) {
  size_t used = 0;
  double power = 1e-6;
  for (int i = 0; i <= 6; ++i, power *= 10) {
    const int steps = 1 << (has_sign ? i : i + 1);
    for (int s = 0; s < steps; ++s) {
      const double value = power * (0.1 + 0.9 * (s + 0.5) / steps);
      book.values[used++] = static_cast<float>(value);
      if (has_sign) book.values[used++] = static_cast<float>(-value);
    }
  }
  book.values[used++] = 0;
  book.values[used++] = 1;
  std::sort(book.values.begin(), book.values.end());
  for (size_t i = 0; i + 1 < book.values.size(); ++i)
    book.bounds[i] = (book.values[i] + book.values[i + 1]) / 2;
}

constexpr void fill_cells(Codebook& book) {
  size_t code = 0;
  for (int32_t cell = -Cells::kCount; cell < Cells::kCount; ++cell) {
    const int32_t last = cell * (1 << Cells::kLowBits) + Cells::kLowMask;
    const auto lower = static_cast<int32_t>(code);
    int32_t bound = last;  // the last key that has the lower code
    if (code < book.bounds.size() && Cells::key(book.bounds[code]) <= last)
      bound = Cells::key(book.bounds[code++]);
    book.cells[static_cast<size_t>(cell + Cells::kCount)] =
        (lower << Cells::kLowBits) + (last - bound);
  }
}

constexpr Codebook make_codebook(bool has_sign) {
  Codebook book;
  fill_values(book, has_sign);
  fill_cells(book);
  return book;
}

inline constexpr Codebook kSignedCodes = make_codebook(true);
inline constexpr Codebook kUnsignedCodes = make_codebook(false);

}  // namespace snug::ops

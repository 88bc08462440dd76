#include "ops/optimizer/mini_scratch.h"
#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/parts.h"
#include "ops/optimizer/update_cpu.h"

namespace snug::ops {
namespace {

constexpr int64_t kColumns = 128;  // at once: a few cache lines of every row

// The sum of squares of n gradients from `begin` on, in the order of mini_scratch.h.
double sum_of_squares(const StoredArray& grad, float scale, int64_t begin, int64_t n) {
  constexpr int64_t kMost = 8;  // elements of a vector
  const int team = MiniScratch::team_of(n);
  const int64_t size = 16 / grad.element_bytes(), in_row = team * size;
  double slots[MiniScratch::kBlockTeam * kMost] = {};
  float buffer[kUpdateTile];
  for (int64_t at = 0; at < n; at += kUpdateTile) {
    const int64_t count = std::min(kUpdateTile, n - at);
    const float* x = grad.open(begin + at, count, buffer);
    for (int64_t row = 0; row < count; row += in_row) {
      double* to = slots + (at + row) % in_row;
      const int64_t some = std::min(in_row, count - row);
#pragma omp simd
      for (int64_t i = 0; i < some; ++i) {
        const auto g = static_cast<double>(x[row + i] * scale);
        to[i] += g * g;  // the square is exact
      }
    }
  }
  double vectors[MiniScratch::kBlockTeam] = {};
  for (int64_t i = 0; i < in_row; ++i) vectors[i / size] += slots[i];
  return sum_as_threads({vectors, static_cast<size_t>(team)});
}

// The same for each of n columns, down the rows of one slice.
void squares_of_columns(const StoredArray& grad, float scale, const Outputs& outputs, int64_t slice,
                        int64_t first, int64_t n, double* sums) {
  constexpr int64_t kRows = MiniScratch::kRowsAtOnce;
  float buffer[kUpdateTile];
  double of_rows[kRows][kColumns] = {};
  const int64_t begin = slice * MiniScratch::kSliceRows;
  const int64_t end = std::min(outputs.each, begin + MiniScratch::kSliceRows);
  for (int64_t row = begin; row < end; ++row) {
    const float* x = grad.open(row * outputs.count + first, n, buffer);
    double* to = of_rows[(row - begin) % kRows];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const auto g = static_cast<double>(x[i] * scale);
      to[i] += g * g;
    }
  }
  std::fill_n(sums, n, 0.0);
  for (const auto& of_row : of_rows) {
    for (int64_t i = 0; i < n; ++i) sums[i] += of_row[i];
  }
}

// One sum per slice and output, each made by one thread in a fixed order. sums: [slices, outputs]
void squares_of_outputs(const StoredArray& grad, float scale, const Outputs& outputs,
                        double* sums) {
  if (outputs.columns) {
    const int64_t slices = MiniScratch::slices_of(outputs);
#pragma omp parallel for schedule(static) collapse(2)
    for (int64_t slice = 0; slice < slices; ++slice) {
      for (int64_t first = 0; first < outputs.count; first += kColumns)
        squares_of_columns(grad, scale, outputs, slice, first,
                           std::min(kColumns, outputs.count - first),
                           sums + slice * outputs.count + first);
    }
  } else {
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < outputs.count; ++o)
      sums[o] = sum_of_squares(grad, scale, o * outputs.each, outputs.each);
  }
}

// Renews the second moment of every part, and turns each output's sums into what its elements are
// divided by, in place of the first slice's.
void divisors_of_outputs(const Adam& adam, const Attrs& attrs, const Outputs& all, float* v,
                         double* of_output) {
  const int64_t slices = MiniScratch::slices_of(all);
  for_groups(attrs.s("groups"), [&](int64_t parts, int64_t outputs) {
    const int team = MiniScratch::team_of(outputs);
    for (int64_t p = 0; p < parts; ++p, ++v, of_output += outputs) {
      double threads[MiniScratch::kBlockTeam] = {};
      for (int64_t slice = 0; slice < slices; ++slice) {
        for (int64_t o = 0; o < outputs; ++o) threads[o % team] += of_output[slice * all.count + o];
      }
      const double sum = sum_as_threads({threads, static_cast<size_t>(team)});
      const auto mean = static_cast<float>(sum / static_cast<double>(outputs * all.each));
      *v = adam.old2 * *v + adam.new2 * mean;
      std::fill_n(of_output, outputs, static_cast<double>(adam.divisor(*v)));
    }
  });
}

// The divisor of each of n elements from `begin` on.
void spread(const Outputs& outputs, const double* of_output, int64_t begin, int64_t n, float* to) {
  int64_t output = outputs.of_element(begin);
  int64_t within = outputs.columns ? 0 : begin % outputs.each;
  for (int64_t i = 0; i < n; ++i) {
    to[i] = static_cast<float>(of_output[output]);
    if (outputs.columns) {
      if (++output == outputs.count) output = 0;
    } else if (++within == outputs.each) {
      within = 0;
      ++output;
    }
  }
}

}  // namespace

void adam_mini_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 2);
  const Adam adam = u.started<Adam>();
  const Outputs outputs = outputs_of(a.in(UpdatePorts::kParam).shape(), a.attrs.b("in_out"));
  auto* of_output = reinterpret_cast<double*>(a.workspace.data());  // [slices, outputs]
  squares_of_outputs(u.grad(), u.scale, outputs, of_output);
  divisors_of_outputs(adam, a.attrs, outputs, a.out<float>(2), of_output);
  u.for_tiles(std::array{u.param(), u.grad(), u.state(0)}, [&](int64_t at, int64_t n, auto x) {
    float *param = x[0], *m = x[2];
    const float* grad = x[1];
    float divisor[kUpdateTile];
    spread(outputs, of_output, at, n, divisor);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      m[i] = adam.next_m(m[i], grad[i] * u.scale);
      param[i] = moved(u.keep, param[i], adam.step_size * (m[i] / divisor[i]));
    }
  });
}

}  // namespace snug::ops

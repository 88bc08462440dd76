#include <cmath>

#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/parts.h"
#include "ops/optimizer/update_cpu.h"

namespace snug::ops {
namespace {

// The sum of squares of n gradients from `begin` on.
double sum_of_squares(const Stored& grad, float scale, int64_t begin, int64_t n) {
  float buffer[kUpdateTile];
  double total = 0;
  for (int64_t at = begin; at < begin + n; at += kUpdateTile) {
    const int64_t count = std::min(kUpdateTile, begin + n - at);
    const float* x = grad.open(at, count, buffer);
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; ++i) {
      const auto g = static_cast<double>(x[i] * scale);
      sum += g * g;
    }
    total += sum;
  }
  return total;
}

// The same for each of n columns, down all rows.
void squares_of_columns(const Stored& grad, float scale, const Outputs& outputs, int64_t first,
                        int64_t n, double* sums) {
  float buffer[kUpdateTile];
  std::fill_n(sums, n, 0.0);
  for (int64_t row = 0; row < outputs.each; ++row) {
    const float* x = grad.open(row * outputs.count + first, n, buffer);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const auto g = static_cast<double>(x[i] * scale);
      sums[i] += g * g;
    }
  }
}

// One sum per output, each made by one thread in a fixed order.
void squares_of_outputs(const Stored& grad, float scale, const Outputs& outputs, double* sums) {
  constexpr int64_t kColumns = 128;  // at once: a few cache lines of every row
  if (outputs.columns) {
#pragma omp parallel for schedule(static)
    for (int64_t first = 0; first < outputs.count; first += kColumns)
      squares_of_columns(grad, scale, outputs, first, std::min(kColumns, outputs.count - first),
                         sums + first);
  } else {
#pragma omp parallel for schedule(static)
    for (int64_t o = 0; o < outputs.count; ++o)
      sums[o] = sum_of_squares(grad, scale, o * outputs.each, outputs.each);
  }
}

// Renews the second moment of every part, and turns each output's sum into what its elements are
// divided by.
void divisors_of_outputs(const AdamNumbers& c, const Attrs& attrs, int64_t each, float* v,
                         double* of_output) {
  for_groups(attrs.s("groups"), [&](int64_t parts, int64_t outputs) {
    for (int64_t p = 0; p < parts; ++p, ++v, of_output += outputs) {
      double sum = 0;
      for (int64_t o = 0; o < outputs; ++o) sum += of_output[o];
      const auto mean = static_cast<float>(sum / static_cast<double>(outputs * each));
      *v = c.old2 * *v + c.new2 * mean;
      std::fill_n(of_output, outputs, static_cast<double>(std::sqrt(*v) * c.per_root + c.eps));
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
  const AdamNumbers c(u, a.attrs);
  const Outputs outputs = outputs_of(a.in(UpdatePorts::kParam).shape(), a.attrs.b("in_out"));
  auto* of_output = reinterpret_cast<double*>(a.workspace.data());  // [outputs]
  squares_of_outputs(u.grad(), c.scale, outputs, of_output);
  divisors_of_outputs(c, a.attrs, outputs.each, a.out<float>(2), of_output);
  u.for_tiles(std::array{u.param(), u.grad(), u.state(0)}, [&](int64_t at, int64_t n, auto x) {
    float *param = x[0], *m = x[2];
    const float* grad = x[1];
    float divisor[kUpdateTile];
    spread(outputs, of_output, at, n, divisor);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      m[i] += c.new1 * (grad[i] * c.scale - m[i]);
      param[i] = c.keep * param[i] - c.step_size * (m[i] / divisor[i]);
    }
  });
}

}  // namespace snug::ops

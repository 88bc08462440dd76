#include "ops/compress/store.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/units.h"
#include "ops/compress/int8.h"
#include "ops/compress/int8_scale.h"
#include "ops/compress/nf4_levels.h"

namespace snug::ops {
namespace {

float largest_magnitude(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

// The level that is nearest: how many middles are below.
uint8_t nf4_code(float x) {
  int above = 0;
  for (const float middle : kNf4Middles) above += x > middle ? 1 : 0;
  return static_cast<uint8_t>(above);
}

void store_nf4_codes(std::span<const float> x, std::byte* out) {
  const float largest = largest_magnitude(x);
  const float inverse = largest > 0 ? 1 / largest : 0;
  for (size_t i = 0; i < x.size(); i += 2) {
    const uint8_t first = nf4_code(x[i] * inverse);
    const uint8_t second = i + 1 < x.size() ? nf4_code(x[i + 1] * inverse) : 0;
    out[i / 2] = static_cast<std::byte>(first << 4 | second);
  }
}

void store_int8_codes(std::span<const float> x, std::byte* out) {
  const Int8Scale scale = Int8Scale::of(largest_magnitude(x));
  for (size_t i = 0; i < x.size(); ++i) out[i] = static_cast<std::byte>(scale.quantize(x[i]));
}

void store_block(Stored stored, std::span<const float> x, std::byte* out) {
  switch (stored) {
    case Stored::nf4_codes:
      return store_nf4_codes(x, out);
    case Stored::int8_codes:
      return store_int8_codes(x, out);
    case Stored::nf4_scales:
      *reinterpret_cast<float*>(out) = largest_magnitude(x);
      return;
    case Stored::int8_scales:
      *reinterpret_cast<float*>(out) = Int8Scale::of(largest_magnitude(x)).scale;
      return;
    case Stored::plain:
      break;
  }
  throw internal_error("a plain value is stored as it is");
}

}  // namespace

int64_t elements_per_scale(Stored stored) {
  return stored == Stored::nf4_codes || stored == Stored::nf4_scales ? kNf4Block : kInt8Block;
}

int64_t stored_bytes(Stored stored, int64_t elements) {
  switch (stored) {
    case Stored::nf4_codes:
      return ceil_div(elements, 2);
    case Stored::int8_codes:
      return elements;
    default:
      return ceil_div(elements, elements_per_scale(stored)) * size_of(Dtype::f32);
  }
}

int64_t stored_elements(Stored stored, int64_t bytes) {
  switch (stored) {
    case Stored::nf4_codes:
      return 2 * bytes;
    case Stored::int8_codes:
      return bytes;
    default:
      return bytes / size_of(Dtype::f32) * elements_per_scale(stored);
  }
}

void store_floats(Stored stored, std::span<const float> x, std::span<std::byte> out) {
  const auto block = static_cast<size_t>(elements_per_scale(stored));
  const auto bytes = static_cast<size_t>(stored_bytes(stored, static_cast<int64_t>(block)));
  const auto blocks = static_cast<int64_t>((x.size() + block - 1) / block);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    const size_t first = static_cast<size_t>(b) * block;
    store_block(stored, x.subspan(first, std::min(block, x.size() - first)),
                out.data() + static_cast<size_t>(b) * bytes);
  }
}

void store_next(Stored stored, std::span<std::byte> out,
                const std::function<void(std::span<float>)>& next) {
  constexpr int64_t kAtOnce = int64_t{1} << 18;
  std::vector<float> floats;
  while (!out.empty()) {
    const int64_t n = std::min(stored_elements(stored, static_cast<int64_t>(out.size())), kAtOnce);
    const auto bytes = static_cast<size_t>(stored_bytes(stored, n));
    floats.resize(static_cast<size_t>(n));
    next(floats);
    store_floats(stored, floats, out.first(bytes));
    out = out.subspan(bytes);
  }
}

}  // namespace snug::ops

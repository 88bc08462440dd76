#include "ops/quantize/store.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "ops/quantize/blocks_cpu.h"

namespace snug::ops {
namespace {

void store_block(Stored stored, std::span<const float> x, std::byte* out) {
  const int64_t n = std::ssize(x);
  switch (stored) {
    case Stored::nf4_codes:
      quantize_nf4_block(x, out);
      return;
    case Stored::int8_codes:
      quantize_int8_block(x.data(), reinterpret_cast<int8_t*>(out), n);
      return;
    case Stored::nf4_scales:
      *reinterpret_cast<float*>(out) = largest_magnitude(n, x.data());
      return;
    case Stored::int8_scales:
      *reinterpret_cast<float*>(out) = Int8Scale::of(absmax(x.data(), n)).scale;
      return;
    case Stored::plain:
      break;
  }
  throw internal_error("a plain value is stored as it is");
}

}  // namespace

void store_floats(Stored stored, std::span<const float> x, std::span<std::byte> out) {
  const auto block = static_cast<size_t>(format_of(stored).block);
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

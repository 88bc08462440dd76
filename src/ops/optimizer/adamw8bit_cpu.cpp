#include "ops/optimizer/optimizer_cpu.h"
#include "ops/optimizer/update_cpu.h"
#include "ops/quantize/codebook_cpu.h"

namespace snug::ops {
namespace {

constexpr int64_t kBlock = kDynamic8.block;
static_assert(kUpdateTile % kBlock == 0);

struct Codes {
  uint8_t *m, *v;
  float *m_scale, *v_scale;  // one per kBlock elements
};

// The elements of one code block, from `begin` on: codes to floats, AdamW's step, and back.
void step_block(const UpdateCpu& u, const Adam& rule, const Codes& codes, int64_t begin, int64_t n,
                float* param, const float* grad) {
  float m[kBlock], v[kBlock];
  const int64_t block = begin / kBlock;
  dequantize(kSignedCodes, n, codes.m + begin, codes.m_scale[block], m);
  dequantize(kUnsignedCodes, n, codes.v + begin, codes.v_scale[block], v);
  step_elements(rule, u.scale, u.keep, n, param, grad, m, v);
  codes.m_scale[block] = quantize(kSignedCodes, n, m, codes.m + begin);
  codes.v_scale[block] = quantize_divisor(n, v, codes.v + begin);
}

}  // namespace

void adamw8bit_cpu(const KernelArgs& a) {
  const UpdateCpu u(a, 4);
  const Adam rule = u.started<Adam>();
  const Codes codes{.m = a.out<uint8_t>(1),
                    .v = a.out<uint8_t>(3),
                    .m_scale = a.out<float>(2),
                    .v_scale = a.out<float>(4)};
  u.for_tiles(std::array{u.param(), u.grad()}, [&](int64_t begin, int64_t n, auto x) {
    for (int64_t at = 0; at < n; at += kBlock)
      step_block(u, rule, codes, begin + at, std::min(kBlock, n - at), x[0] + at, x[1] + at);
  });
}

}  // namespace snug::ops

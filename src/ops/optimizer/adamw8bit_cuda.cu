#include "ops/optimizer/optimizer_cuda.h"
#include "ops/optimizer/update_cuda.cuh"
#include "ops/quantize/codebook.cuh"
#include "ops/quantize/format.h"

namespace snug::ops {
namespace {

constexpr int64_t kCodeBlock = kDynamic8.block;
static_assert(kCodeBlock == 8 * 32);  // a warp has one block, a lane eight elements of it

// --- codes ---------------------------------------------------------------------------------------

// Eight codes of one array.
struct EightCodes {
  uint8_t code[8];

  __device__ void load(const uint8_t* from, const Eighth& where) {
    from += where.first;
    if (where.packed) {
      *reinterpret_cast<uint2*>(code) = *reinterpret_cast<const uint2*>(from);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i) code[i] = i < where.count ? from[i] : 0;
    }
  }
  __device__ void store(uint8_t* to, const Eighth& where) const {
    to += where.first;
    if (where.packed) {
      *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(code);
    } else {
#pragma unroll
      for (int i = 0; i < 8; ++i)
        if (i < where.count) to[i] = code[i];
    }
  }
};

// The largest magnitude among the warp's elements, NaN left out.
__device__ float largest_of_block(const float (&x)[8]) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(x[i]));
  return warp_max(largest);
}

// --- the kernel ----------------------------------------------------------------------------------

struct State {
  uint8_t *m, *v;
  float *m_scale, *v_scale;  // one per kCodeBlock elements
};

// One code block by one warp: codes to floats, AdamW's step, and back.
template <typename P, typename G, typename W>
__device__ void step_block(const UpdateCuda& u, const State& s, const UpdateNumbers<Adam>& c,
                           const Codebooks& books, int64_t block) {
  const int64_t group = block * 32 + threadIdx.x % 32;
  const Eighth where(group, u.n, u.aligned);
  Eight<P> param;
  Eight<G> grad;
  EightCodes m_codes, v_codes;
  param.load(static_cast<const P*>(u.param), where);
  grad.load(static_cast<const G*>(u.grad), where);
  m_codes.load(s.m, where);
  v_codes.load(s.v, where);
  const float m_scale = s.m_scale[block], v_scale = s.v_scale[block];

  float next[8], m[8], v[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float state[2] = {books.signed_values[m_codes.code[i]] * m_scale,
                      books.unsigned_values[v_codes.code[i]] * v_scale};
    NoCursor cursor;
    next[i] = moved(c.keep, param[i], c.rule(cursor, grad[i] * c.scale, state[0], state[1]));
    m[i] = i < where.count ? state[0] : 0;
    v[i] = i < where.count ? state[1] : 0;
  }
  rounded<P>(next, c.key, 0, u.slice + group).store(static_cast<P*>(u.param), where);
  if constexpr (!std::is_same_v<W, NoWeight>)
    nearest<W>(next).store(static_cast<W*>(u.weight), where);

  const float m_most = largest_of_block(m), v_most = largest_of_block(v);
  const float m_by = m_most > 0 ? m_most : 1, v_by = v_most > 0 ? v_most : 1;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    m_codes.code[i] =
        static_cast<uint8_t>(nearest_code(books.signed_cells + Cells::kCount, m[i] / m_by, -1));
    const uint32_t code = nearest_code(books.unsigned_cells, v[i] / v_by, 0);
    v_codes.code[i] = static_cast<uint8_t>(code == 0 && v[i] > 0 ? 1 : code);  // is divided by
  }
  m_codes.store(s.m, where);
  v_codes.store(s.v, where);
  if (threadIdx.x % 32 == 0) {
    s.m_scale[block] = m_most;
    s.v_scale[block] = v_most;
  }
}

template <typename P, typename G, typename W>
__global__ void __launch_bounds__(kUpdateThreads, 3)
    update_8bit(const __grid_constant__ UpdateCuda u, const __grid_constant__ State s,
                const __grid_constant__ Adam given) {
  if (u.skipped()) return;
  __shared__ Codebooks books;
  __shared__ UpdateNumbers<Adam> numbers;
  if (threadIdx.x == 0) numbers.make(u, given);
  copy_codebooks<kUpdateThreads>(books);
  __syncthreads();
  const UpdateNumbers<Adam> c = numbers;
  constexpr int kWarps = kUpdateThreads / 32;
  const int64_t blocks = ceil_div(u.n, kCodeBlock);
  for (int64_t b = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; b < blocks;
       b += int64_t{gridDim.x} * kWarps)
    step_block<P, G, W>(u, s, c, books, b);
}

}  // namespace

void adamw8bit_cuda(const KernelArgs& a) {
  UpdateCuda u(a, /*op_states=*/4, /*moments=*/0);
  if (u.n == 0) return;
  const State s{.m = a.out<uint8_t>(1),
                .v = a.out<uint8_t>(3),
                .m_scale = a.out<float>(2),
                .v_scale = a.out<float>(4)};
  for (const uint8_t* codes : {s.m, s.v})
    u.aligned = u.aligned && reinterpret_cast<uintptr_t>(codes) % sizeof(uint2) == 0;
  visit_arrays(a, u.weight != nullptr, [&](auto p, auto g, auto w) {
    constexpr int64_t kWaves = 3;  // what fits at once: every block copies the codebooks
    update_8bit<decltype(p), decltype(g), decltype(w)>
        <<<blocks_for(u.n, 8 * kUpdateThreads, kWaves), kUpdateThreads, 0, stream_of(a)>>>(
            u, s, Adam::of(a.attrs));
  });
  check_launch("adamw8bit");
}

}  // namespace snug::ops
